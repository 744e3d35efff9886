/* queue_parts.c - the list of urr-queue's parts, routes, settings and metrics. A new part adds its
 * lines here and touches nothing else. */
#include "queue-core/queue_service.h"

#include "queue-core/admission.h"
#include "queue-core/event_directory.h"
#include "queue-core/log_sink.h"
#include "queue-core/pages.h"
#include "queue-core/queue_admin.h"
#include "queue-core/queue_api.h"
#include "queue-core/queue_metrics.h"
#include "queue-core/queue_settings.h"
#include "queue-core/queue_stream.h"
#include "queue-core/vwr_api.h"

#include "runtime/http_client.h"
#include "runtime/http_server.h"
#include "runtime/identity.h"
#include "runtime/redis.h"

/* One line each, so that parts can come and go without touching the others. */
const struct queue_part *const QUEUE_PARTS[] = {
    &EVENT_DIRECTORY_PART, &ADMISSION_PART, &QUEUE_STREAM_PART, &VWR_PART, &LOG_SINK_PART, NULL,
};

const struct http_route *const QUEUE_ROUTES[] = {
    QUEUE_API_ROUTES,
    QUEUE_STREAM_ROUTES,
    QUEUE_ADMIN_ROUTES,
    VWR_ADMIN_ROUTES,
    VWR_ROUTES,
    PAGE_ROUTES,
    NULL,
};

const struct config_item *const QUEUE_SETTINGS[] = {QUEUE_SERVICE_SETTINGS, LOG_SINK_SETTINGS,
                                                    IDENTITY_SETTINGS, NULL};

const struct metric_def *const QUEUE_METRICS[] = {
    QUEUE_SERVICE_METRICS, VWR_METRICS, LOG_SINK_METRICS, REDIS_METRICS, HTTP_CLIENT_METRICS, NULL};

/* queue_parts.c - the list of urr-queue's parts, routes, settings and metrics. A new part adds its
 * lines here and touches nothing else. */
#include "queue-core/queue_service.h"

#include "queue-core/admission.h"
#include "queue-core/event_directory.h"
#include "queue-core/queue_api.h"
#include "queue-core/queue_metrics.h"
#include "queue-core/queue_settings.h"
#include "queue-core/queue_stream.h"

#include "runtime/http_client.h"
#include "runtime/http_server.h"
#include "runtime/identity.h"
#include "runtime/redis.h"

const struct queue_part *const QUEUE_PARTS[] = {&EVENT_DIRECTORY_PART, &ADMISSION_PART,
                                                &QUEUE_STREAM_PART, NULL};

const struct http_route *const QUEUE_ROUTES[] = {QUEUE_API_ROUTES, QUEUE_STREAM_ROUTES, NULL};

const struct config_item *const QUEUE_SETTINGS[] = {QUEUE_SERVICE_SETTINGS, IDENTITY_SETTINGS,
                                                    NULL};

const struct metric_def *const QUEUE_METRICS[] = {QUEUE_SERVICE_METRICS, REDIS_METRICS,
                                                  HTTP_CLIENT_METRICS, NULL};

/* urr-statsd.c - urr-stats: figures from the event log, and the API that reads them. Wiring only.
 */
#include "consumers/engine/engine.h"
#include "consumers/stats/stats_api.h"
#include "consumers/stats/stats_consumer.h"
#include "runtime/daemon.h"
#include "runtime/http_server.h"
#include "runtime/identity.h"
#include "runtime/kafka_consumer.h"
#include "runtime/pg_metrics.h"

static struct stats_consumer *consumer;

static int start(struct daemon *d, struct fault *f)
{
    return stats_consumer_start(d, &consumer, f);
}

static void stop(struct daemon *d)
{
    (void)d;
    stats_consumer_free(consumer);
}

int main(int argc, char **argv)
{
    static const struct config_item *const settings[] = {STATS_SETTINGS,  IDENTITY_SETTINGS,
                                                         KAFKA_SETTINGS,  KAFKA_CONSUMER_SETTINGS,
                                                         ENGINE_SETTINGS, NULL};
    static const struct http_route *const routes[] = {STATS_ROUTES, NULL};
    static const struct metric_def *const metrics[] = {ENGINE_METRICS, KAFKA_METRICS, PG_METRICS,
                                                       NULL};
    static const struct daemon_spec spec = {
        .name = "urr-stats",
        .purpose = "Keeps aggregates of all domain events and serves them under /api/stats.",
        .settings = settings,
        .routes = routes,
        .metrics = metrics,
        .default_port = "3004",
        .port_setting = "STATS_PORT",
        .start = start,
        .worker_start = stats_api_open,
        .worker_stop = stats_api_close,
        .stop = stop,
    };
    return daemon_main(&spec, argc, argv);
}

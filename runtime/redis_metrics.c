/* redis_metrics.c - what Redis clients count. */
#include <pthread.h>

#include "runtime/metrics.h"
#include "runtime/redis_private.h"

enum { COMMANDS, IN_FLIGHT, SECONDS, CONNECTIONS, RECONNECTS, RELOADS, BREAKERS, METRICS };

/* Bounds of an answer's time, from a loaded loopback to the longest deadline in use. */
static const double DURATION_BOUNDS[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                         0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5};

const struct metric_def REDIS_METRICS[] = {
    [COMMANDS] = {"urr_redis_commands_total", METRIC_COUNTER,
                  "Commands by how they ended; refused ones were never accepted.", "outcome", NULL,
                  0},
    [IN_FLIGHT] = {"urr_redis_in_flight", METRIC_GAUGE, "Commands accepted and not yet answered.",
                   NULL, NULL, 0},
    [SECONDS] = {"urr_redis_command_duration_seconds", METRIC_HISTOGRAM,
                 "From issuing a command to its reply, pipelining included.", NULL, DURATION_BOUNDS,
                 sizeof DURATION_BOUNDS / sizeof DURATION_BOUNDS[0]},
    [CONNECTIONS] = {"urr_redis_connections", METRIC_GAUGE,
                     "Connections that are up, one per loop; pub/sub ones not counted.", NULL, NULL,
                     0},
    [RECONNECTS] = {"urr_redis_reconnects_total", METRIC_COUNTER,
                    "Connections made again after one was lost.", NULL, NULL, 0},
    [RELOADS] = {"urr_redis_script_reloads_total", METRIC_COUNTER,
                 "Scripts sent in full because Redis did not know them.", NULL, NULL, 0},
    [BREAKERS] = {"urr_redis_breakers_open", METRIC_GAUGE,
                  "Clients whose breaker is open or half open, at most one per loop.", NULL, NULL,
                  0},
    {0},
};
const size_t REDIS_METRICS_COUNT = METRICS;

static struct redis_series series;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct metric *outcome(const char *name)
{
    return metrics_series(&REDIS_METRICS[COMMANDS], (const char *const[]){name});
}

static void make_series(void)
{
    series.outcomes[REDIS_ANSWERED] = outcome("ok");
    series.outcomes[REDIS_ERROR] = outcome("error");
    series.outcomes[REDIS_TIMED_OUT] = outcome("timeout");
    series.outcomes[REDIS_LOST] = outcome("lost");
    series.outcomes[REDIS_CLOSED] = outcome("closed");
    series.refused = outcome("refused");
    series.in_flight = metrics_series(&REDIS_METRICS[IN_FLIGHT], NULL);
    series.seconds = metrics_series(&REDIS_METRICS[SECONDS], NULL);
    series.connections = metrics_series(&REDIS_METRICS[CONNECTIONS], NULL);
    series.reconnects = metrics_series(&REDIS_METRICS[RECONNECTS], NULL);
    series.reloads = metrics_series(&REDIS_METRICS[RELOADS], NULL);
    series.breakers = metrics_series(&REDIS_METRICS[BREAKERS], NULL);
}

const struct redis_series *redis_series(void)
{
    (void)pthread_once(&once, make_series);
    return &series;
}

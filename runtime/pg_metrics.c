/* pg_metrics.c - declarations and the series that every connection shares. */
#include "runtime/pg_metrics.h"

#include <pthread.h>

/* METRICS_SECONDS is no constant expression, so the same bounds are written out. */
static const double SECONDS[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                 0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
enum { BOUNDS = sizeof SECONDS / sizeof SECONDS[0] };

const struct metric_def PG_METRICS[] = {
    [PG_METRIC_STATEMENTS] = {"urr_pg_statements_total", METRIC_COUNTER,
                              "Statements answered, by class of outcome.", "outcome", NULL, 0},
    [PG_METRIC_ROUND_TRIP] = {"urr_pg_round_trip_seconds", METRIC_HISTOGRAM,
                              "From sending to the last result, also for a queue of statements.",
                              NULL, SECONDS, BOUNDS},
    [PG_METRIC_CONNECTS] = {"urr_pg_connects_total", METRIC_COUNTER,
                            "Attempts to connect, by class of outcome.", "outcome", NULL, 0},
    [PG_METRIC_POOL_CONNECTIONS] = {"urr_pg_pool_connections", METRIC_GAUGE,
                                    "Connections of the pools that are ready for statements.", NULL,
                                    NULL, 0},
    [PG_METRIC_POOL_WAITING] = {"urr_pg_pool_waiting", METRIC_GAUGE,
                                "Requests that wait for a connection.", NULL, NULL, 0},
    [PG_METRIC_POOL_WAIT] = {"urr_pg_pool_wait_seconds", METRIC_HISTOGRAM,
                             "Time a request waited for its connection.", NULL, SECONDS, BOUNDS},
    [PG_METRIC_POOL_REFUSED] = {"urr_pg_pool_refused_total", METRIC_COUNTER,
                                "Requests that got no connection, by reason.", "reason", NULL, 0},
    [PG_METRIC_COUNT] = {NULL, METRIC_COUNTER, NULL, NULL, NULL, 0},
};

enum { CLASSES = PG_CLASS_BROKEN + 1 };
static struct metric *statements[CLASSES], *connects[CLASSES], *round_trip;
static struct metric *connections, *waiting, *wait, *refused[PG_REFUSALS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_series(void)
{
    for (int i = 0; i < CLASSES; i++) {
        const char *label[] = {pg_error_name((enum pg_class)i)};
        statements[i] = metrics_series(&PG_METRICS[PG_METRIC_STATEMENTS], label);
        connects[i] = metrics_series(&PG_METRICS[PG_METRIC_CONNECTS], label);
    }
    round_trip = metrics_series(&PG_METRICS[PG_METRIC_ROUND_TRIP], NULL);
    connections = metrics_series(&PG_METRICS[PG_METRIC_POOL_CONNECTIONS], NULL);
    waiting = metrics_series(&PG_METRICS[PG_METRIC_POOL_WAITING], NULL);
    wait = metrics_series(&PG_METRICS[PG_METRIC_POOL_WAIT], NULL);
    static const char *const REASONS[PG_REFUSALS] = {"full", "timeout", "closed"};
    for (int i = 0; i < PG_REFUSALS; i++)
        refused[i] = metrics_series(&PG_METRICS[PG_METRIC_POOL_REFUSED], &REASONS[i]);
}

void pg_metrics_statement(enum pg_class outcome, int64_t took_us)
{
    (void)pthread_once(&once, make_series);
    metric_add(statements[outcome], 1);
    metric_observe(round_trip, (double)took_us / 1e6);
}

void pg_metrics_connect(enum pg_class outcome)
{
    (void)pthread_once(&once, make_series);
    metric_add(connects[outcome], 1);
}

void pg_metrics_pool_connections(int delta)
{
    (void)pthread_once(&once, make_series);
    metric_gauge_add(connections, delta);
}

void pg_metrics_pool_waiting(int delta)
{
    (void)pthread_once(&once, make_series);
    metric_gauge_add(waiting, delta);
}

void pg_metrics_pool_waited(int64_t us)
{
    (void)pthread_once(&once, make_series);
    metric_observe(wait, (double)us / 1e6);
}

void pg_metrics_pool_refused(enum pg_refusal reason)
{
    (void)pthread_once(&once, make_series);
    metric_add(refused[reason], 1);
}

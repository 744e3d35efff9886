/* pg_metrics.h - what the PostgreSQL adapters count. */
#ifndef PG_METRICS_H
#define PG_METRICS_H
#include "runtime/metrics.h"
#include "runtime/pg_error.h"

enum { /* places in PG_METRICS */
       PG_METRIC_STATEMENTS,
       PG_METRIC_ROUND_TRIP,
       PG_METRIC_CONNECTS,
       PG_METRIC_POOL_CONNECTIONS,
       PG_METRIC_POOL_WAITING,
       PG_METRIC_POOL_WAIT,
       PG_METRIC_POOL_REFUSED,
       PG_METRIC_COUNT
};
extern const struct metric_def PG_METRICS[]; /* ends with a NULL name */

void pg_metrics_statement(enum pg_class outcome, int64_t took_us);
void pg_metrics_connect(enum pg_class outcome);

/* Of the pools, summed over all of the process. */
enum pg_refusal { PG_REFUSED_FULL, PG_REFUSED_TIMEOUT, PG_REFUSED_CLOSED, PG_REFUSALS };
void pg_metrics_pool_connections(int delta);
void pg_metrics_pool_waiting(int delta);
void pg_metrics_pool_waited(int64_t us);
void pg_metrics_pool_refused(enum pg_refusal reason);

#endif

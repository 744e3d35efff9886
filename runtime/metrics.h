/* metrics.h - counters, gauges and histograms, as Prometheus text and as docs/metrics.md.
 *
 * A module declares its metrics as constants and asks for a series once (at start, or when a label
 * value is first seen); updates are then a relaxed atomic add on a cell of the calling thread's
 * shard: no lock, no shared cache line between loops. Reading sums the shards.
 *
 *   const struct metric_def REDIS_METRICS[] = {
 *       {"urr_redis_commands_total", METRIC_COUNTER, "Commands sent.", "outcome", NULL, 0}, ...};
 *   struct metric *ok = metrics_series(&REDIS_METRICS[0], (const char *[]){"ok"});
 *   metric_add(ok, 1);
 */
#ifndef METRICS_H
#define METRICS_H
#include <stddef.h>
#include <stdint.h>

struct buf;

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum { METRICS_MAX_LABELS = 4, METRICS_MAX_BUCKETS = 24, METRICS_MAX_SERIES = 1000 };

struct metric_def {
    const char *name; /* urr_<module>_<what>_<unit>, counters end in _total, times in _seconds */
    enum metric_kind kind;
    const char *help;
    const char *labels;    /* "topic,reason", or NULL */
    const double *buckets; /* upper bounds ascending, without +Inf; histograms only */
    size_t bucket_count;
};

/* Bounds for times from 100 microseconds to 10 s, for `buckets`. */
extern const double METRICS_SECONDS[];
extern const size_t METRICS_SECONDS_COUNT;

struct metric; /* one series: a definition with its label values; lives as long as the process */

/* The series of that definition and label values (one per label, copied), made on first use. Takes
 * a lock: not for hot paths. Past METRICS_MAX_SERIES of one definition every new value shares the
 * series with label values "other". Never NULL: without memory a shared scrap series is returned.
 */
struct metric *metrics_series(const struct metric_def *def, const char *const *label_values);

void metric_add(struct metric *m, uint64_t n);         /* counters */
void metric_set(struct metric *m, double value);       /* gauges: last writer wins */
void metric_gauge_add(struct metric *m, double delta); /* gauges, e.g. open connections */
void metric_observe(struct metric *m, double value);   /* histograms */
double metric_value(const struct metric *m);           /* counter or gauge now; histogram: count */

/* A function called before each rendering, to set gauges that are cheap to compute only then. At
 * most 32; `fn` runs on the thread that renders. */
void metrics_on_render(void (*fn)(void *arg), void *arg);

/* Appends the Prometheus text of all series, families sorted by name, with HELP and TYPE. */
void metrics_render(struct buf *out);

/* Appends a Markdown table of the definitions (for docs/metrics.md). */
void metrics_describe(struct buf *out, const struct metric_def *defs, size_t count);

#endif

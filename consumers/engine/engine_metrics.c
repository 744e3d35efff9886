/* engine_metrics.c - what a consumer tells Prometheus. */
#include "consumers/engine/engine_metrics.h"

#include <stdio.h>

#include "consumers/engine/engine.h"

static const double BATCH_BUCKETS[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
static const double WAVE_BUCKETS[] = {1, 2, 3, 5, 10, 20, 50, 100};

enum {
    LAG_MESSAGES,
    LAG_SECONDS,
    BATCH_EVENTS,
    APPLY_SECONDS,
    WAVES,
    EVENTS,
    DEAD_LETTERS,
    RETRIES,
    GAPS,
    FENCED,
    PAUSED,
    TICK_FAILURES,
    BRAKES
};

static const double SECONDS[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                 0.2,    0.5,   1,     2,     5,    10,   30};

#define COUNT(a) (sizeof(a) / sizeof *(a))

const struct metric_def ENGINE_METRICS[] = {
    [LAG_MESSAGES] = {"urr_consumer_lag_messages", METRIC_GAUGE,
                      "Records in the log that are not applied yet.", "group,topic,partition", NULL,
                      0},
    [LAG_SECONDS] = {"urr_consumer_lag_seconds", METRIC_GAUGE,
                     "Age of the last applied record while others wait; 0 when caught up.",
                     "group,topic,partition", NULL, 0},
    [BATCH_EVENTS] = {"urr_consumer_batch_events", METRIC_HISTOGRAM, "Events per batch.", "group",
                      BATCH_BUCKETS, COUNT(BATCH_BUCKETS)},
    [APPLY_SECONDS] = {"urr_consumer_apply_seconds", METRIC_HISTOGRAM,
                       "Time to apply a batch, retries and halves included.", "group", SECONDS,
                       COUNT(SECONDS)},
    [WAVES] = {"urr_consumer_waves", METRIC_HISTOGRAM,
               "Waves per transaction: the longest chain of events that share a row.", "group",
               WAVE_BUCKETS, COUNT(WAVE_BUCKETS)},
    [EVENTS] = {"urr_consumer_events_total", METRIC_COUNTER,
                "Events by outcome: applied, noop, duplicate, ignored, dead.", "group,outcome",
                NULL, 0},
    [DEAD_LETTERS] = {"urr_consumer_dead_letters_total", METRIC_COUNTER, "Dead letters by reason.",
                      "group,reason", NULL, 0},
    [RETRIES] = {"urr_consumer_retries_total", METRIC_COUNTER,
                 "Transactions run again, by the cause: conflict, away, broken, poison.",
                 "group,cause", NULL, 0},
    [GAPS] = {"urr_consumer_gaps_total", METRIC_COUNTER,
              "Ranges that left the log before they were read. Alert on any.", "group", NULL, 0},
    [FENCED] = {"urr_consumer_fenced_total", METRIC_COUNTER,
                "Batches dropped because the offset row had moved without us.", "group", NULL, 0},
    [PAUSED] = {"urr_consumer_paused", METRIC_GAUGE,
                "1 while paused by an operator or a brake, or stopped by a start rule.", "group",
                NULL, 0},
    [TICK_FAILURES] = {"urr_consumer_tick_failures_total", METRIC_COUNTER,
                       "Failed runs of the consumer's work of each second.", "group", NULL, 0},
    [BRAKES] = {"urr_consumer_brakes_total", METRIC_COUNTER,
                "Batches rolled back by the consumer's brake.", "group", NULL, 0},
    {0}};

static struct metric *by_group(int which, const char *group)
{
    return metrics_series(&ENGINE_METRICS[which], (const char *[]){group});
}

static struct metric *by_outcome(const char *group, const char *outcome)
{
    return metrics_series(&ENGINE_METRICS[EVENTS], (const char *[]){group, outcome});
}

void engine_metrics_init(struct engine_metrics *m, const char *group)
{
    *m = (struct engine_metrics){
        .group = group,
        .batch_events = by_group(BATCH_EVENTS, group),
        .apply_seconds = by_group(APPLY_SECONDS, group),
        .waves = by_group(WAVES, group),
        .applied = by_outcome(group, "applied"),
        .noop = by_outcome(group, "noop"),
        .duplicate = by_outcome(group, "duplicate"),
        .ignored = by_outcome(group, "ignored"),
        .dead = by_outcome(group, "dead"),
        .gaps = by_group(GAPS, group),
        .fenced = by_group(FENCED, group),
        .paused = by_group(PAUSED, group),
        .tick_failures = by_group(TICK_FAILURES, group),
        .brakes = by_group(BRAKES, group),
    };
}

void engine_metrics_partition(struct engine_partition_metrics *m, const char *group,
                              const char *topic, int32_t partition)
{
    char number[12];
    snprintf(number, sizeof number, "%d", partition);
    const char *labels[] = {group, topic, number};
    m->lag_messages = metrics_series(&ENGINE_METRICS[LAG_MESSAGES], labels);
    m->lag_seconds = metrics_series(&ENGINE_METRICS[LAG_SECONDS], labels);
}

void engine_metrics_dead(const char *group, const char *reason)
{
    metric_add(metrics_series(&ENGINE_METRICS[DEAD_LETTERS], (const char *[]){group, reason}), 1);
}

void engine_metrics_retry(const char *group, const char *cause)
{
    metric_add(metrics_series(&ENGINE_METRICS[RETRIES], (const char *[]){group, cause}), 1);
}

/* engine_metrics.h - the series of one engine. */
#ifndef ENGINE_METRICS_H
#define ENGINE_METRICS_H
#include <stdint.h>

#include "runtime/metrics.h"

struct engine_partition_metrics {
    struct metric *lag_messages, *lag_seconds;
};

struct engine_metrics {
    const char *group;
    struct metric *batch_events, *apply_seconds, *waves;
    struct metric *applied, *noop, *duplicate, *ignored, *dead;
    struct metric *gaps, *fenced, *paused, *tick_failures, *brakes;
};

void engine_metrics_init(struct engine_metrics *m, const char *group);
void engine_metrics_partition(struct engine_partition_metrics *m, const char *group,
                              const char *topic, int32_t partition);
void engine_metrics_dead(const char *group, const char *reason); /* takes a lock: rare */
void engine_metrics_retry(const char *group, const char *cause); /* the same */

#endif

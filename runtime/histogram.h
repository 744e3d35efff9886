/* histogram.h - how often which value was seen, in bounded memory: for percentiles of long runs.
 *
 * Values from 0 to HISTOGRAM_MAX; each is kept to within 1.6 % of itself (exactly below 64),
 * whatever the spread. Negative ones count as 0, larger ones as the maximum. Plain memory: one
 * thread. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H
#include <stdint.h>

enum {
    HISTOGRAM_SUB = 64,
    HISTOGRAM_STEPS = 36,
    HISTOGRAM_CELLS = HISTOGRAM_STEPS * HISTOGRAM_SUB
};
#define HISTOGRAM_MAX ((INT64_C(1) << (HISTOGRAM_STEPS + 5)) - 1) /* 25 days in microseconds */

struct histogram {
    int64_t count, sum, max;
    uint64_t cells[HISTOGRAM_CELLS];
};

void histogram_add(struct histogram *h, int64_t value); /* of a zeroed struct or one in use */
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The smallest value that `percent` of all do not exceed (0 when there are none). */
int64_t histogram_percentile(const struct histogram *h, double percent);
double histogram_mean(const struct histogram *h);

#endif

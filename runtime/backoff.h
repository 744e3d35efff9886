/* backoff.h - how long to wait before the next attempt: doubling, bounded, with jitter.
 *
 * Half of each step is fixed and half is drawn, so that many clients that lost the same server at
 * the same moment do not come back at the same moment. Pure: it neither sleeps nor reads a clock.
 */
#ifndef BACKOFF_H
#define BACKOFF_H
#include <stdint.h>

/* Caller's memory. */
struct backoff {
    int64_t base_ms;  /* the first step, >= 1 */
    int64_t max_ms;   /* no delay is ever longer */
    uint32_t attempt; /* delays handed out since the last reset */
    uint64_t state;   /* of the random sequence; never 0 */
};

/* `seed` decides the sequence (tests give a constant); 0 draws one from the kernel. base_ms below 1
 * counts as 1, max_ms below base_ms as base_ms. */
void backoff_init(struct backoff *b, int64_t base_ms, int64_t max_ms, uint64_t seed);

/* The delay before the next attempt, within [step / 2, step], where step is base_ms doubled once
 * per attempt made and at most max_ms. */
int64_t backoff_next_ms(struct backoff *b);

/* After a success: the next delay is the first step again. */
void backoff_reset(struct backoff *b);

/* The rule by itself: attempt counts from 0, `random` is any number. */
int64_t backoff_delay_ms(int64_t base_ms, int64_t max_ms, uint32_t attempt, uint64_t random);

#endif

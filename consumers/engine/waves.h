/* waves.h - orders the events of a batch: those that share a row never run together.
 *
 * Pure. An event's wave is one more than the highest wave of the earlier events it shares a row
 * with, so the number of waves is the length of the longest chain: the fewest there can be. */
#ifndef WAVES_H
#define WAVES_H
#include <stddef.h>
#include <stdint.h>

#include "consumers/engine/engine.h"

/* Caller's memory; reused from batch to batch. */
struct waves {
    uint64_t *keys; /* open addressing; 0 is free */
    uint32_t *last; /* the last wave that wrote the key, counted from 1 */
    size_t mask;
    uint32_t of[ENGINE_MAX_BATCH]; /* the wave of each event, from 0 */
    struct engine_event *sorted[ENGINE_MAX_BATCH];
};

/* Room for ENGINE_MAX_BATCH events with all their keys. RC_RETRY: no memory. */
int waves_init(struct waves *w);
void waves_done(struct waves *w); /* accepts a zeroed struct */

/* Fills w->of for events in their order; returns how many waves there are. */
uint32_t waves_plan(struct waves *w, struct engine_event *const *events, size_t n);

/* The events of one wave that go to one handler, in their order, into w->sorted; returns how many.
 */
size_t waves_select(struct waves *w, struct engine_event *const *events, size_t n, uint32_t wave,
                    unsigned handler);

#endif

/* waves.c - a table from row to the last wave that wrote it. */
#include "consumers/engine/waves.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"

enum { SLOTS = 32768 }; /* a power of two, twice the keys a full batch can have */
_Static_assert(SLOTS >= 2 * ENGINE_MAX_BATCH * ENGINE_MAX_CONFLICTS, "the table must not fill up");

int waves_init(struct waves *w)
{
    memset(w, 0, sizeof *w);
    w->keys = calloc(SLOTS, sizeof *w->keys);
    w->last = calloc(SLOTS, sizeof *w->last);
    w->mask = SLOTS - 1;
    return w->keys && w->last ? 0 : RC_RETRY;
}

void waves_done(struct waves *w)
{
    free(w->keys);
    free(w->last);
    w->keys = NULL;
    w->last = NULL;
}

static uint32_t *slot(struct waves *w, uint64_t key)
{
    size_t i = (size_t)(key ^ (key >> 29)) & w->mask;
    while (w->keys[i] && w->keys[i] != key)
        i = (i + 1) & w->mask;
    w->keys[i] = key;
    return &w->last[i];
}

uint32_t waves_plan(struct waves *w, struct engine_event *const *events, size_t n)
{
    memset(w->keys, 0, SLOTS * sizeof *w->keys);
    memset(w->last, 0, SLOTS * sizeof *w->last);
    uint32_t highest = 0; /* of all so far, from 1 */
    uint32_t floor = 0;   /* everything up to here comes before an event that conflicts with all */
    for (size_t i = 0; i < n; i++) {
        const struct engine_event *e = events[i];
        uint32_t after = e->conflicts_all ? highest : floor;
        for (unsigned k = 0; k < e->conflict_count; k++) {
            uint32_t last = *slot(w, e->conflicts[k]);
            if (last > after)
                after = last;
        }
        uint32_t wave = after + 1;
        for (unsigned k = 0; k < e->conflict_count; k++)
            *slot(w, e->conflicts[k]) = wave;
        if (e->conflicts_all)
            floor = wave;
        if (wave > highest)
            highest = wave;
        w->of[i] = wave - 1;
    }
    return highest;
}

size_t waves_select(struct waves *w, struct engine_event *const *events, size_t n, uint32_t wave,
                    unsigned handler)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (w->of[i] == wave && events[i]->handler == handler)
            w->sorted[count++] = events[i];
    return count;
}

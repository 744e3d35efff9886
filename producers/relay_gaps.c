/* relay_gaps.c - ranges of ids that may still bring a row. */
#include "producers/relay_gaps.h"

#include <string.h>

static bool add(struct relay_gaps *g, size_t place, struct relay_gap gap)
{
    if (g->count == RELAY_MAX_GAPS)
        return false;
    memmove(&g->at[place + 1], &g->at[place], (g->count - place) * sizeof *g->at);
    g->at[place] = gap;
    g->count++;
    return true;
}

static void drop(struct relay_gaps *g, size_t place)
{
    g->count--;
    memmove(&g->at[place], &g->at[place + 1], (g->count - place) * sizeof *g->at);
}

/* The first gap that does not end before id. */
static size_t find(const struct relay_gaps *g, int64_t id)
{
    size_t low = 0, high = g->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (g->at[middle].to < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool seen_in_gap(struct relay_gaps *g, int64_t id)
{
    size_t i = find(g, id);
    if (i == g->count || id < g->at[i].from)
        return true; /* known already */
    struct relay_gap *gap = &g->at[i], right = *gap;
    if (gap->from == gap->to) {
        drop(g, i);
    } else if (id == gap->from) {
        gap->from++;
    } else if (id == gap->to) {
        gap->to--;
    } else {
        right.from = id + 1;
        if (!add(g, i + 1, right))
            return false;
        gap->to = id - 1;
    }
    return true;
}

bool relay_gaps_seen(struct relay_gaps *g, int64_t id)
{
    if (id <= g->next)
        return seen_in_gap(g, id);
    struct relay_gap skipped = {.from = g->next + 1, .to = id - 1};
    if (skipped.from <= skipped.to && !add(g, g->count, skipped))
        return false;
    g->next = id;
    return true;
}

/* Whoever drew an id up to `next` held its entity's row and so had a transaction number when that
 * id was seen to be skipped: it is below the xmax of any later snapshot. */
void relay_gaps_look(struct relay_gaps *g, int64_t xmin, int64_t xmax)
{
    for (size_t i = 0; i < g->count; i++) {
        if (g->at[i].xmax == 0)
            g->at[i].xmax = xmax;
        else if (xmin >= g->at[i].xmax)
            g->at[i].ended = true;
    }
}

void relay_gaps_close(struct relay_gaps *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->count; i++)
        if (!g->at[i].ended)
            g->at[kept++] = g->at[i];
    g->count = kept;
}

void relay_gaps_reopen(struct relay_gaps *g)
{
    g->count = 0;
    if (g->next > 0)
        g->at[g->count++] = (struct relay_gap){.from = 1, .to = g->next};
}

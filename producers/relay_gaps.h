/* relay_gaps.h - which outbox ids may still bring a row: everything above `next`, and the gaps.
 *
 * Ids become visible out of order: one that a read skipped may belong to a transaction still open.
 * Each skipped range is read again until every transaction that could hold one of its ids has
 * ended. So a read touches new rows and gaps only, never what is on its way to Kafka. Pure; no
 * I/O. */
#ifndef RELAY_GAPS_H
#define RELAY_GAPS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relay_gap {
    int64_t from, to; /* both included */
    int64_t xmax;     /* transactions below it may hold its ids; 0: not known yet */
    bool ended;       /* they have all ended: one more complete read and it is closed */
};

enum { RELAY_MAX_GAPS = 4096 };

struct relay_gaps { /* caller's memory; zeroed = from the start */
    int64_t next;   /* the highest id seen */
    size_t count;
    struct relay_gap at[RELAY_MAX_GAPS]; /* ascending, disjoint */
};

/* The row `id` was read and is taken care of. False: no room for another gap, nothing changed. */
bool relay_gaps_seen(struct relay_gaps *g, int64_t id);

/* A look at the running transactions, after the reads that made the gaps. */
void relay_gaps_look(struct relay_gaps *g, int64_t xmin, int64_t xmax);

/* A read begun after that look was complete: what has ended is closed. */
void relay_gaps_close(struct relay_gaps *g);

/* One gap up to `next`: everything is looked at again. Only while nothing is on its way. */
void relay_gaps_reopen(struct relay_gaps *g);

#endif

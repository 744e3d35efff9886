/* reconcile.h - the books held against each other: ticket_db against itself, against the log,
 * against stats_db and against Redis. */
#ifndef RECONCILE_H
#define RECONCILE_H
#include <stdbool.h>
#include <stddef.h>

#include "runtime/arena.h"

struct cli_change;
struct stage;

enum { RECONCILE_MAX = 10000 };

struct difference {
    const char *check, *subject, *wanted, *found;
    const char *repair; /* what --repair does; NULL: see `way` */
    const char *way;    /* the way out where there is no repair */
    bool repaired;
};

struct reconcile {
    struct stage *stage;
    struct arena arena;
    struct difference list[RECONCILE_MAX];
    size_t count, dropped;
    const char *skipped[8]; /* checks that could not be made, and why */
    size_t skipped_count;
};

/* Every check whose servers are set. CLI_OK or the exit code, after saying why. */
int reconcile_run(struct reconcile *r, struct stage *stage);
size_t reconcile_repairable(const struct reconcile *r);
/* Repairs what can be, audited, and marks what is gone when looked at again. */
int reconcile_repair(struct reconcile *r, const struct cli_change *change);
void reconcile_done(struct reconcile *r);

#endif

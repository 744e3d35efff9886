/* rebuild.h - fills a generation of the figures from the log, beside the live one.
 *
 * Every batch is one transaction with its place in the log: killed at any moment and run again, it
 * goes on where it was. The last stretch is read while the live consumer is held, so that both
 * stand at the same offsets when they are compared, or switched. */
#ifndef REBUILD_H
#define REBUILD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_change;
struct cli_table;
struct fault;
struct stage;

enum { REBUILD_MAX_PLACES = 256 };

struct rebuild_place {
    char topic[250];
    int32_t partition;
    int64_t low;  /* the log's first offset */
    int64_t live; /* next offset of the live group */
    int64_t next; /* next offset of the rebuild */
    bool stored;  /* it has a row of its own */
};

struct rebuild {
    struct stage *stage;
    const char *group, *time_zone;
    int generation; /* 0: none is being built */
    int live_generation;
    bool resumed;
    int64_t cut_ms; /* the log is whole only after the day of this moment; 0: it is whole */
    char copied_through[16]; /* a date; "": nothing is copied */
    char started_by[129];
    struct rebuild_place places[REBUILD_MAX_PLACES];
    size_t count;
    int64_t records, fresh, refused; /* read by this run; new to the generation; dead letters */
};

/* Looks: which generation, how far, what the log still holds. Changes nothing. Each of these
 * returns CLI_OK or the exit code, after saying why. */
int rebuild_look(struct rebuild *r, struct stage *stage);
/* Keeps others out until the command ends. */
int rebuild_claim(struct rebuild *r);
int64_t rebuild_left(const struct rebuild *r); /* records */
int rebuild_begin(struct rebuild *r, const struct cli_change *change);
int rebuild_fill(struct rebuild *r);
/* Catches up with the live group held still, compares (rows into `differences`, which has the
 * columns of cmd_stats.c), and with `change` switches, all in one transaction. */
int rebuild_meet(struct rebuild *r, const struct cli_change *change, struct cli_table *differences);
int rebuild_abort(struct rebuild *r, const struct cli_change *change);
int rebuild_clean(struct rebuild *r);

#endif

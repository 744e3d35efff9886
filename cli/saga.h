/* saga.h - one saga's story from the first hold to the last follow-up, in order of time. */
#ifndef SAGA_H
#define SAGA_H
#include <stdbool.h>
#include <stddef.h>

struct cli_table;
struct json_out;
struct stage;

struct saga {
    struct cli_table *table; /* of its steps; NULL: nothing was read */
    char saga_id[161], outcome[200];
    size_t steps;
};

/* `name`: a saga's, reservation's (id or number), payment's, order's, transfer's or membership's
 * id. Asks ticket_db, payment_db and stats_db where they are set, and the log. `must`: not found
 * is a failure; else the story is empty. CLI_OK or the exit code, after saying why. */
int saga_read(struct saga *s, struct stage *stage, const char *name, bool must);
void saga_done(struct saga *s); /* accepts a zeroed one */

void saga_print(const struct saga *s);
void saga_json(const struct saga *s, struct json_out *j); /* members of the open object */

#endif

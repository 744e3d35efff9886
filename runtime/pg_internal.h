/* pg_internal.h - shared by pg.c and pg_copy.c only. */
#ifndef PG_INTERNAL_H
#define PG_INTERNAL_H
#include <libpq-fe.h>

#include "runtime/fault.h"
#include "runtime/pg.h"

/* What the server will answer: a preparation, or a queued statement. */
struct queue_item {
    char label[48];
    struct pg_statement *prepares; /* NULL: a statement */
    bool commit;
};

struct pg {
    struct pg_session session;
    char target[160];
    PGconn *conn; /* NULL: not connected */
    struct pg_statements statements;
    struct queue_item item[2 * PG_MAX_QUEUE];
    size_t item_count, queued;
    bool piping, copying;
    int queue_rc; /* of a failed pg_queue(), until pg_collect() */
    struct fault queue_fault;
    struct pg_error error;
};

/* Close the connection and record PG_CLASS_AWAY; message NULL: libpq's. */
int pg_lost(struct pg *c, const char *label, const char *message, struct fault *f);
/* Records a failed result. */
int pg_refused(struct pg *c, const struct pg_result *r, const char *label, struct fault *f);
int pg_not_connected(struct pg *c, struct fault *f);
int64_t pg_deadline(const struct pg *c);
/* The next result or NULL at the end of a statement's. Fails only with the connection lost. */
int pg_next_result(struct pg *c, const char *label, struct pg_result **out, struct fault *f);
/* Waits until everything is handed to the kernel. */
int pg_drain_output(struct pg *c, const char *label, struct fault *f);

#endif

/* pg_pool_internal.h - shared by pg_pool.c, pg_pool_call.c, pg_pool_lease.c and pg_link.c only.
 *
 * A call is in exactly one place, and the place is its state: `waiting` (no connection yet), a
 * link's `call` (sent) or `settled` (its outcome is known, its callback is due). Callbacks fire
 * from pg_pool_leave() alone, which ends every event of the pool: whatever they do, nothing below
 * them on the stack still looks at a link or a list. */
#ifndef PG_POOL_INTERNAL_H
#define PG_POOL_INTERNAL_H
#include <libpq-fe.h>

#include "runtime/backoff.h"
#include "runtime/fault.h"
#include "runtime/pg_pool.h"

struct event;
struct loop_timer;
struct pg_link;
struct resolve;

struct pg_call {
    struct pg_call *next;
    pg_answer_fn fn;      /* NULL with lease_fn NULL: a probe or a rollback */
    pg_lease_fn lease_fn; /* a call for a lease */
    void *arg;
    int64_t deadline_ms, timeout_ms, started_us;
    struct pg_lease *lease; /* of a call for a lease: to be handed out */
    bool begin, commit;     /* travels behind a BEGIN; is a COMMIT */
    struct pg_stmt stmt;    /* the rest of the block, once it has to wait */
    struct pg_params *params;
    char label[48];
    struct pg_result *result;
    struct pg_error error;
    struct fault fault;
};

struct pg_calls {
    struct pg_call *first, *last;
    uint32_t count;
};

struct pg_lease {
    struct pg_pool *pool; /* NULL: closed */
    struct pg_link *link; /* NULL: no connection any more */
    int64_t deadline_ms, timeout_ms;
    bool begun;
};

enum pg_link_state {
    PG_LINK_APART,      /* the timer starts the next attempt */
    PG_LINK_CONNECTING, /* the timer ends it */
    PG_LINK_IDLE,
    PG_LINK_BUSY /* `call` is sent */
};

enum { PG_LINK_ITEMS = 3 }; /* BEGIN, a preparation, the statement */

struct pg_link {
    struct pg_pool *pool;
    enum pg_link_state state;
    PGconn *conn;
    struct resolve *resolve;    /* while connecting: host names are being looked up */
    struct event *read, *write; /* while connecting: one of them, for one step */
    struct loop_timer *timer;
    struct backoff backoff;
    int64_t ready_ms, answered_ms;
    struct pg_statements statements;
    struct pg_statement *prepares[PG_LINK_ITEMS];
    unsigned items, item; /* sent; under way */
    struct pg_call *call;
    struct pg_lease *lease; /* whose it is, between calls too */
};

struct pg_pool {
    struct loop *loop;
    struct pg_session session;
    struct pg_pool_options options; /* .session is not kept */
    char target[160];
    struct pg_link *link; /* options.connections of them */
    uint32_t ready;
    struct pg_calls waiting, settled;
    struct loop_timer *deadline_timer, *probe_timer, *due_timer;
    int64_t deadline_armed_ms; /* 0: not armed */
    uint32_t refs;
    bool closing;
    enum pg_pool_state state;
    bool state_changed; /* on_state does not know yet */
    char reason[192];
};

/* pg_pool.c */
void pg_pool_enter(struct pg_pool *p);
void pg_pool_leave(struct pg_pool *p); /* hands out work, fires callbacks; may free the pool */
void pg_pool_due(struct pg_pool *p);   /* pg_pool_leave() soon, from the loop */
void pg_pool_watch(struct pg_pool *p, int64_t deadline_ms);
void pg_pool_on_up(struct pg_link *l);
void pg_pool_on_down(struct pg_link *l, bool was_up, enum pg_class why, const char *reason);

/* pg_pool_call.c: a call's memory and its ways. */
struct pg_call *pg_call_new(int64_t timeout_ms, void *arg);
void pg_call_free(struct pg_call *c); /* accepts NULL */
/* Keeps what was borrowed. RC_REJECT: beyond max_bytes; RC_RETRY: no memory. */
int pg_call_keep(struct pg_call *c, const struct pg_stmt *stmt, const struct pg_params *p,
                 size_t max_bytes, struct fault *f);
/* Records a failure, unless there is one already. */
void pg_call_fail(struct pg_call *c, const char *sqlstate, const char *message);
void pg_call_refuse(struct pg_call *c, const struct pg_result *r); /* by a failed result */
void pg_call_fire(struct pg_call *c);                              /* calls back and frees */
void pg_calls_append(struct pg_calls *list, struct pg_call *c);
struct pg_call *pg_calls_take(struct pg_calls *list); /* the first, or NULL */
/* Moves what is past its deadline from `list` to `out`; returns the earliest deadline left or 0. */
int64_t pg_calls_expire(struct pg_calls *list, int64_t now_ms, struct pg_calls *out);

/* pg_link.c */
int pg_link_init(struct pg_link *l, struct pg_pool *p, struct fault *f);
void pg_link_done(struct pg_link *l); /* accepts a zeroed struct; settles its call */
void pg_link_start(struct pg_link *l);
/* Sends on an idle link and takes the call: settled at once where that fails. */
void pg_link_send(struct pg_link *l, struct pg_call *c, const struct pg_stmt *stmt,
                  const struct pg_params *p);
/* Closes the connection and settles its call; the next attempt is made later. */
void pg_link_drop(struct pg_link *l, const char *sqlstate, const char *reason);
bool pg_link_in_transaction(const struct pg_link *l);

/* pg_pool_lease.c */
void pg_lease_give(struct pg_lease *lease, struct pg_link *l);
void pg_lease_break(struct pg_lease *lease); /* its connection is gone */

#endif

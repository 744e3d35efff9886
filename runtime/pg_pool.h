/* pg_pool.h - asynchronous PostgreSQL for HTTP daemons: a few connections on one loop, shared.
 *
 *   static void on_rows(const struct pg_answer *a, void *arg);  // a->rc, a->result
 *   …
 *   struct pg_params p; pg_params_init(&p); pg_params_uuid(&p, id);
 *   if (pg_pool_query(pool, &FIND, &p, 2000, on_rows, request, f)) … 503 …
 *
 * Each accepted call's callback fires exactly once, never from inside the call that asked: with the
 * answer, or with the reason why there is none (past its deadline, connection lost, pool closed). A
 * call that waits for a connection is sent as soon as there is one; what was sent is never sent
 * again, because nobody knows whether it was executed: the caller decides.
 *
 * A statement past its deadline costs its connection, which is closed and made anew: a frozen
 * server makes callers wait no longer than they said. Statements with a name are prepared once per
 * connection. Connections are shared: a statement must not change session state (SET, LISTEN,
 * temporary tables, advisory session locks); an open transaction left behind is rolled back.
 *
 * A pool belongs to one loop and its thread: one per worker. */
#ifndef PG_POOL_H
#define PG_POOL_H
#include <stdbool.h>
#include <stdint.h>

#include "runtime/pg_array.h"
#include "runtime/pg_error.h"
#include "runtime/pg_params.h"
#include "runtime/pg_result.h"
#include "runtime/pg_session.h"
#include "runtime/pg_statements.h"

struct fault;
struct loop;
struct pg_lease;
struct pg_pool;

enum pg_pool_state {
    PG_POOL_DOWN,    /* no connection; attempts go on with backoff */
    PG_POOL_REFUSED, /* the same, but an operator must act: wrong password, no such database */
    PG_POOL_UP       /* at least one connection is ready */
};

/* Fires on each change of state; `reason` is "" when up, else one plain sentence. */
typedef void (*pg_pool_state_fn)(enum pg_pool_state state, const char *reason, void *arg);

enum { PG_POOL_MAX_CONNECTIONS = 64 };

struct pg_pool_options {       /* 0 = the default in brackets */
    struct pg_session session; /* pg_session_http(); copied */
    uint32_t connections;      /* [4] at most PG_POOL_MAX_CONNECTIONS */
    uint32_t max_waiting;      /* [256] calls without a connection; past it they are refused */
    uint32_t max_query_bytes;  /* [1048576] statement and parameters of one that has to wait */
    uint32_t probe_ms;       /* [1000] an idle connection is asked this often if it still answers */
    uint32_t backoff_max_ms; /* [2000] between attempts to connect */
    pg_pool_state_fn on_state; /* may be NULL */
    void *arg;
};

/* Starts connecting and returns. RC_FATAL: the URI cannot be read, or no memory. */
int pg_pool_open(struct loop *l, const struct pg_pool_options *o, struct pg_pool **out,
                 struct fault *f);

/* Every outstanding callback fires (RC_RETRY) before this returns; none after it, on_state
 * included. Open transactions are rolled back by the server. Leases stay their owners' to end. Fine
 * inside a callback of the same pool. Accepts NULL. */
void pg_pool_close(struct pg_pool *p);

enum pg_pool_state pg_pool_state(const struct pg_pool *p);
const char *pg_pool_target(const struct pg_pool *p); /* "127.0.0.1:5432/ticket_db", for messages */
uint32_t pg_pool_waiting(const struct pg_pool *p);   /* calls that have no connection yet */
uint32_t pg_pool_ready(const struct pg_pool *p);     /* connections made, busy ones included */

struct pg_answer {
    int rc;                   /* 0, or RC_RETRY / RC_REJECT / RC_FATAL by the error's class */
    struct pg_result *result; /* for the time of the callback; NULL unless rc is 0 */
    struct pg_error error;    /* class NONE when rc is 0 */
    const char *text;         /* what went wrong; "" when rc is 0 */
};
typedef void (*pg_answer_fn)(const struct pg_answer *a, void *arg);

/* One statement, a transaction of its own. `p` may be NULL; everything is copied. timeout_ms counts
 * from now, waiting included. 0: accepted, fn will fire once. Otherwise fn never fires: RC_RETRY
 * (max_waiting reached, pool closed, no memory) or RC_REJECT (a parameter that cannot be encoded,
 * too long). */
int pg_pool_query(struct pg_pool *pool, const struct pg_stmt *stmt, const struct pg_params *p,
                  int64_t timeout_ms, pg_answer_fn fn, void *arg, struct fault *f);

/* A transaction: one connection for a row of statements, one after the other.
 *
 * pg_pool_begin() waits for a connection and hands it out as a lease. timeout_ms counts from now
 * for all of it: past it the connection is closed, the server rolls back, and a statement under way
 * is answered with RC_RETRY. Statements travel with pg_lease_query(), the first one together with
 * its BEGIN, and so does the next one after a pg_lease_commit(). pg_lease_end() is called exactly
 * once for each lease, whatever happened, and rolls back what was not committed. */
/* `lease` is NULL unless a->rc is 0; a->result is NULL. */
typedef void (*pg_lease_fn)(struct pg_lease *lease, const struct pg_answer *a, void *arg);
int pg_pool_begin(struct pg_pool *pool, int64_t timeout_ms, pg_lease_fn fn, void *arg,
                  struct fault *f);

/* As pg_pool_query(). RC_RETRY also when the lease has lost its connection; RC_REJECT also when its
 * last statement is not answered yet. After a failed statement all others fail (25P02). */
int pg_lease_query(struct pg_lease *lease, const struct pg_stmt *stmt, const struct pg_params *p,
                   pg_answer_fn fn, void *arg, struct fault *f);
/* Fails with PG_CLASS_CONFLICT where a statement had failed before. A connection lost during it
 * leaves open whether the transaction took place. */
int pg_lease_commit(struct pg_lease *lease, pg_answer_fn fn, void *arg, struct fault *f);
/* A statement under way is still answered. Accepts NULL; fine after pg_pool_close(). */
void pg_lease_end(struct pg_lease *lease);

#endif

/* pg_link.c - one connection of a pool: connects, runs one statement at a time, comes back.
 *
 * A statement travels as a small pipeline (BEGIN of a transaction, preparation, the statement
 * itself, a sync), so that it costs one round trip also the first time. Between statements the
 * connection is in plain mode, and its socket is watched: a server that hangs up is noticed then.
 */
#include "runtime/pg_pool_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "runtime/clock.h"
#include "runtime/loop.h"
#include "runtime/pg.h"
#include "runtime/pg_metrics.h"
#include "runtime/resolve.h"

enum { BACKOFF_BASE_MS = 50 };
static const char CONNECTION_LOST[] = "08006";

static void free_events(struct pg_link *l)
{
    if (l->read)
        event_free(l->read);
    if (l->write)
        event_free(l->write);
    l->read = l->write = NULL;
}

static void settle(struct pg_link *l)
{
    struct pg_call *c = l->call;
    l->call = NULL;
    pg_metrics_statement(c->error.class, clock_mono_us() - c->started_us);
    pg_calls_append(&l->pool->settled, c);
    pg_pool_due(l->pool);
}

/* Back to nothing; the call and the lease learn why. Returns whether it had been up. */
static bool close_link(struct pg_link *l, const char *sqlstate, const char *reason)
{
    bool was_up = l->state == PG_LINK_IDLE || l->state == PG_LINK_BUSY;
    free_events(l);
    loop_timer_stop(l->timer);
    resolve_cancel(l->resolve);
    l->resolve = NULL;
    if (l->conn) {
        /* PQfinish() says good-bye first; a frozen peer must not make it wait. */
        (void)shutdown(PQsocket(l->conn), SHUT_RDWR);
        PQfinish(l->conn);
        l->conn = NULL;
    }
    l->state = PG_LINK_APART;
    pg_statements_forget(&l->statements);
    if (l->lease)
        pg_lease_break(l->lease);
    if (l->call) {
        pg_call_fail(l->call, sqlstate, reason);
        settle(l);
    }
    return was_up;
}

void pg_link_drop(struct pg_link *l, const char *sqlstate, const char *reason)
{
    char text[160];
    if (reason)
        (void)snprintf(text, sizeof text, "%s", reason);
    else
        pg_session_message(l->conn, text, sizeof text);
    /* A server that greets and dies at once must not be hammered: only a connection that lasted as
     * long as the longest wait counts as a success. */
    bool lasted = clock_mono_ms() - l->ready_ms >= l->backoff.max_ms;
    bool was_up = close_link(l, sqlstate, text[0] ? text : "connection lost");
    if (was_up && lasted)
        backoff_reset(&l->backoff);
    loop_timer_start(l->timer, backoff_next_ms(&l->backoff), 0);
    pg_pool_on_down(l, was_up, pg_error_class(sqlstate), text);
}

/* Answers */

static void finish(struct pg_link *l)
{
    if (l->call->error.class == PG_CLASS_NONE && l->item != l->items) {
        pg_link_drop(l, CONNECTION_LOST, "out of step with the server");
        return;
    }
    const char *sqlstate = l->call->error.sqlstate;
    if (strcmp(sqlstate, "26000") == 0 || strcmp(sqlstate, "0A000") == 0)
        pg_statements_forget(&l->statements); /* stale: prepared anew next time */
    if (!PQexitPipelineMode(l->conn)) {
        pg_link_drop(l, CONNECTION_LOST, NULL);
        return;
    }
    l->answered_ms = clock_mono_ms();
    l->state = PG_LINK_IDLE;
    settle(l);
}

static void take_result(struct pg_link *l, struct pg_result *r)
{
    struct pg_call *c = l->call;
    ExecStatusType status = PQresultStatus(r);
    bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    bool last = l->item + 1 == l->items;
    struct pg_statement *prepared = l->item < l->items ? l->prepares[l->item] : NULL;
    if (prepared && prepared->state == PG_PREPARING)
        prepared->state = good ? PG_PREPARED : PG_NOT_PREPARED;
    if (good && last && c->commit && strcmp(PQcmdStatus(r), "ROLLBACK") == 0)
        pg_call_fail(c, "25P02", "the transaction had failed before");
    else if (!good && status != PGRES_PIPELINE_ABORTED)
        pg_call_refuse(c, r);
    if (good && last && !c->result)
        c->result = r;
    else
        PQclear(r);
}

static void receive(struct pg_link *l)
{
    while (l->state == PG_LINK_BUSY && !PQisBusy(l->conn)) {
        struct pg_result *r = PQgetResult(l->conn);
        if (r && PQresultStatus(r) == PGRES_PIPELINE_SYNC) {
            PQclear(r);
            finish(l);
        } else if (r) {
            take_result(l, r);
        } else if (++l->item > l->items) {
            pg_link_drop(l, CONNECTION_LOST, NULL);
        }
    }
}

static void flush(struct pg_link *l)
{
    int unsent = PQflush(l->conn);
    if (unsent < 0)
        pg_link_drop(l, CONNECTION_LOST, NULL);
    else if (unsent > 0)
        (void)event_add(l->write, NULL);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct pg_link *l = arg;
    struct pg_pool *pool = l->pool;
    pg_pool_enter(pool);
    bool open = PQconsumeInput(l->conn) != 0;
    if (open && l->state == PG_LINK_BUSY)
        receive(l);
    else if (open)
        (void)PQisBusy(l->conn); /* reads notices, and the last words of a server that leaves */
    if (!open)
        pg_link_drop(l, CONNECTION_LOST, NULL);
    else if (l->state == PG_LINK_BUSY)
        flush(l); /* what we read may have made room for what we send */
    pg_pool_leave(pool);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct pg_link *l = arg;
    struct pg_pool *pool = l->pool;
    pg_pool_enter(pool);
    flush(l);
    pg_pool_leave(pool);
}

/* Sending */

static bool send_prepare(struct pg_link *l, struct pg_statement *s, const struct pg_wire *wire)
{
    if (!PQsendPrepare(l->conn, s->server_name, s->sql, s->param_count, wire->oids))
        return false;
    s->state = PG_PREPARING;
    l->prepares[l->items++] = s;
    return true;
}

static bool transmit(struct pg_link *l, const struct pg_stmt *stmt, const struct pg_params *p)
{
    struct pg_wire wire;
    int count = p ? p->count : 0;
    if (p)
        pg_params_wire(p, &wire);
    if (!PQenterPipelineMode(l->conn))
        return false;
    if (l->call->begin) {
        if (!PQsendQueryParams(l->conn, PG_BEGIN.sql, 0, NULL, NULL, NULL, NULL, 1))
            return false;
        l->prepares[l->items++] = NULL;
    }
    struct pg_statement *s = pg_statements_get(&l->statements, stmt, p);
    if (s && s->state != PG_PREPARED && !send_prepare(l, s, &wire))
        return false;
    int sent = s ? PQsendQueryPrepared(l->conn, s->server_name, count, wire.values, wire.lengths,
                                       wire.formats, 1)
                 : PQsendQueryParams(l->conn, stmt->sql, count, wire.oids, wire.values,
                                     wire.lengths, wire.formats, 1);
    l->prepares[l->items++] = NULL;
    return sent && PQpipelineSync(l->conn);
}

void pg_link_send(struct pg_link *l, struct pg_call *c, const struct pg_stmt *stmt,
                  const struct pg_params *p)
{
    (void)snprintf(c->label, sizeof c->label, "%s", stmt->name ? stmt->name : stmt->sql);
    l->call = c;
    l->state = PG_LINK_BUSY;
    l->items = l->item = 0;
    c->started_us = clock_mono_us();
    pg_pool_watch(l->pool, c->deadline_ms);
    if (!transmit(l, stmt, p))
        pg_link_drop(l, CONNECTION_LOST, NULL);
    else
        flush(l);
}

bool pg_link_in_transaction(const struct pg_link *l)
{
    return PQtransactionStatus(l->conn) != PQTRANS_IDLE;
}

/* Connecting */

static void connect_failed(struct pg_link *l, const char *reason)
{
    char text[160], sqlstate[6] = "08001";
    (void)snprintf(text, sizeof text, "%.159s", reason ? reason : "");
    if (!reason)
        pg_session_login_error(l->conn, sqlstate, text, sizeof text);
    pg_metrics_connect(pg_error_class(sqlstate));
    pg_link_drop(l, sqlstate, text);
}

static void connected(struct pg_link *l)
{
    struct event_base *base = loop_base(l->pool->loop);
    int fd = PQsocket(l->conn);
    free_events(l);
    (void)PQsetErrorVerbosity(l->conn, PQERRORS_DEFAULT);
    l->read = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, l);
    l->write = event_new(base, fd, EV_WRITE, on_writable, l);
    if (!l->read || !l->write || event_add(l->read, NULL) != 0 ||
        PQsetnonblocking(l->conn, 1) != 0) {
        connect_failed(l, "no memory for a connection");
        return;
    }
    loop_timer_stop(l->timer);
    pg_metrics_connect(PG_CLASS_NONE);
    l->state = PG_LINK_IDLE;
    l->ready_ms = l->answered_ms = clock_mono_ms();
    pg_pool_on_up(l);
}

static void on_step(evutil_socket_t fd, short what, void *arg);

/* libpq may change its socket from step to step: each step has an event of its own. */
static void await(struct pg_link *l, short events)
{
    free_events(l);
    l->read = event_new(loop_base(l->pool->loop), PQsocket(l->conn), events, on_step, l);
    if (!l->read || event_add(l->read, NULL) != 0)
        connect_failed(l, "no memory for a connection");
}

static void on_step(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct pg_link *l = arg;
    struct pg_pool *pool = l->pool;
    pg_pool_enter(pool);
    switch (PQconnectPoll(l->conn)) {
    case PGRES_POLLING_OK:
        connected(l);
        break;
    case PGRES_POLLING_READING:
        await(l, EV_READ);
        break;
    case PGRES_POLLING_WRITING:
        await(l, EV_WRITE);
        break;
    default:
        connect_failed(l, NULL);
    }
    pg_pool_leave(pool);
}

static void start_session(struct pg_link *l, const struct resolve_answer *found)
{
    l->conn = pg_session_start(&l->pool->session, found);
    if (!l->conn) {
        connect_failed(l, "no memory for a connection");
        return;
    }
    (void)PQsetErrorVerbosity(l->conn, PQERRORS_VERBOSE);
    if (PQstatus(l->conn) == CONNECTION_BAD)
        connect_failed(l, NULL);
    else
        await(l, EV_WRITE);
}

static void on_resolved(const struct resolve_answer *answer, void *arg)
{
    struct pg_link *l = arg;
    struct pg_pool *pool = l->pool;
    pg_pool_enter(pool);
    l->resolve = NULL;
    if (answer->count > 0)
        start_session(l, answer);
    else
        connect_failed(l, answer->reason);
    pg_pool_leave(pool);
}

static void connect_now(struct pg_link *l)
{
    char names[RESOLVE_NAMES_MAX];
    struct fault f;
    l->state = PG_LINK_CONNECTING;
    loop_timer_start(l->timer, l->pool->session.connect_timeout_ms, 0);
    if (!pg_session_names(&l->pool->session, names, sizeof names))
        start_session(l, NULL);
    else if (resolve_start(l->pool->loop, names, on_resolved, l, &l->resolve, &f) != 0)
        connect_failed(l, f.text);
}

static void on_timer(void *arg)
{
    struct pg_link *l = arg;
    struct pg_pool *pool = l->pool;
    pg_pool_enter(pool);
    if (l->state == PG_LINK_APART)
        connect_now(l);
    else if (l->state == PG_LINK_CONNECTING)
        connect_failed(l,
                       l->resolve ? "no address while connecting" : "no answer while connecting");
    pg_pool_leave(pool);
}

int pg_link_init(struct pg_link *l, struct pg_pool *p, struct fault *f)
{
    l->pool = p;
    backoff_init(&l->backoff, BACKOFF_BASE_MS, p->options.backoff_max_ms, 0);
    return loop_timer_new(p->loop, on_timer, l, &l->timer, f);
}

void pg_link_done(struct pg_link *l)
{
    if (!l->timer)
        return;
    if (close_link(l, CONNECTION_LOST, "the pool is closed"))
        pg_metrics_pool_connections(-1);
    loop_timer_free(l->timer);
    l->timer = NULL;
    pg_statements_done(&l->statements);
}

void pg_link_start(struct pg_link *l)
{
    loop_timer_start(l->timer, 0, 0);
}

/* pg.c - libpq without its waits: statements are sent in pipeline mode, and the socket is polled
 * with a deadline. COPY and scripts are in pg_copy.c; both share pg_internal.h. */
#include "runtime/pg_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"
#include "runtime/pg_metrics.h"

const struct pg_stmt PG_BEGIN = {NULL, "BEGIN"};
const struct pg_stmt PG_COMMIT = {NULL, "COMMIT"};
static const char CONNECTION_LOST[] = "08006";

/* Errors */

static void clear_error(struct pg *c)
{
    c->error = (struct pg_error){.class = PG_CLASS_NONE};
}

static int set_error(struct pg *c, const char *sqlstate, struct fault *f, const char *label,
                     const char *message)
{
    clear_error(c);
    c->error.class = pg_error_class(sqlstate);
    (void)snprintf(c->error.sqlstate, sizeof c->error.sqlstate, "%s", sqlstate);
    return fault_set(f, pg_error_rc(c->error.class), "%s%s%s (%s)", label ? label : "",
                     label ? ": " : "", message, sqlstate);
}

void pg_disconnect(struct pg *c)
{
    if (!c->conn)
        return;
    /* PQfinish() says good-bye first; a frozen peer must not make it wait. */
    (void)shutdown(PQsocket(c->conn), SHUT_RDWR);
    PQfinish(c->conn);
    c->conn = NULL;
    c->item_count = 0;
    c->piping = c->copying = false;
    pg_statements_forget(&c->statements);
}

int pg_lost(struct pg *c, const char *label, const char *message, struct fault *f)
{
    char text[160];
    if (message)
        (void)snprintf(text, sizeof text, "%s", message);
    else
        pg_session_message(c->conn, text, sizeof text);
    pg_disconnect(c);
    return set_error(c, CONNECTION_LOST, f, label, text[0] ? text : "connection lost");
}

int pg_refused(struct pg *c, const struct pg_result *r, const char *label, struct fault *f)
{
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (!sqlstate && PQstatus(c->conn) == CONNECTION_BAD)
        return pg_lost(c, label, NULL, f);
    const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    char line[160];
    (void)snprintf(line, sizeof line, "%s", message ? message : PQresultErrorMessage(r));
    line[strcspn(line, "\n")] = '\0';
    int rc = set_error(c, sqlstate ? sqlstate : "XX000", f, label, line);
    const char *constraint = PQresultErrorField(r, PG_DIAG_CONSTRAINT_NAME);
    if (constraint)
        (void)snprintf(c->error.constraint, sizeof c->error.constraint, "%s", constraint);
    if (strcmp(c->error.sqlstate, "26000") == 0 || strcmp(c->error.sqlstate, "0A000") == 0)
        pg_statements_forget(&c->statements);
    return rc;
}

int pg_not_connected(struct pg *c, struct fault *f)
{
    return set_error(c, CONNECTION_LOST, f, NULL, "not connected to PostgreSQL");
}

/* Waiting */

/* 1: ready, 0: the deadline has passed, -1: the kernel refuses. */
static int wait_fd(int fd, short events, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - clock_mono_ms();
        if (left <= 0)
            return 0;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left > 60000 ? 60000 : (int)left);
        if (n > 0)
            return 1;
        if (n < 0 && errno != EINTR)
            return -1;
    }
}

/* One round of sending and receiving: 0, or the connection is gone. */
static int turn(struct pg *c, short events, int64_t deadline_ms, const char *label, struct fault *f)
{
    int unsent = PQflush(c->conn);
    if (unsent < 0)
        return pg_lost(c, label, NULL, f);
    int ready = wait_fd(PQsocket(c->conn), (short)(events | (unsent ? POLLOUT : 0)), deadline_ms);
    if (ready <= 0) {
        char text[80];
        (void)snprintf(text, sizeof text, "no answer within %d ms", c->session.reply_timeout_ms);
        return pg_lost(c, label, text, f);
    }
    if (PQconsumeInput(c->conn) == 0)
        return pg_lost(c, label, NULL, f);
    return 0;
}

int64_t pg_deadline(const struct pg *c)
{
    return clock_mono_ms() + c->session.reply_timeout_ms;
}

int pg_next_result(struct pg *c, const char *label, struct pg_result **out, struct fault *f)
{
    int64_t deadline_ms = pg_deadline(c);
    int rc = PQflush(c->conn) < 0 ? pg_lost(c, label, NULL, f) : 0;
    while (rc == 0 && PQisBusy(c->conn))
        rc = turn(c, POLLIN, deadline_ms, label, f);
    if (rc == 0)
        *out = PQgetResult(c->conn);
    return rc;
}

int pg_drain_output(struct pg *c, const char *label, struct fault *f)
{
    int64_t deadline_ms = pg_deadline(c);
    for (;;) {
        int unsent = PQflush(c->conn);
        if (unsent == 0)
            return 0;
        int rc = unsent < 0 ? pg_lost(c, label, NULL, f)
                            : turn(c, POLLIN | POLLOUT, deadline_ms, label, f);
        if (rc != 0)
            return rc;
    }
}

/* Connecting */

int pg_new(const struct pg_session *session, struct pg **out, struct fault *f)
{
    struct pg *c = calloc(1, sizeof *c);
    if (!c)
        return fault_set(f, RC_FATAL, "no memory for a database connection");
    int rc = pg_session_init(&c->session, session, f);
    if (rc != 0) {
        free(c);
        return rc;
    }
    pg_session_target(&c->session, c->target, sizeof c->target);
    *out = c;
    return 0;
}

void pg_free(struct pg *c)
{
    if (!c)
        return;
    pg_disconnect(c);
    pg_statements_done(&c->statements);
    pg_session_done(&c->session);
    free(c);
}

static int connect_failed(struct pg *c, const char *reason, struct fault *f)
{
    char text[160], sqlstate[6] = "08001";
    (void)snprintf(text, sizeof text, "%s", reason ? reason : "");
    if (!reason)
        pg_session_login_error(c->conn, sqlstate, text, sizeof text);
    pg_disconnect(c);
    int rc = set_error(c, sqlstate, f, reason ? c->target : NULL, text);
    pg_metrics_connect(c->error.class);
    return rc;
}

int pg_connect(struct pg *c, struct fault *f)
{
    pg_disconnect(c);
    c->queued = 0;
    c->queue_rc = 0;
    clear_error(c);
    int64_t deadline_ms = clock_mono_ms() + c->session.connect_timeout_ms;
    c->conn = pg_session_start(&c->session, NULL);
    if (!c->conn)
        return connect_failed(c, "no memory for a connection", f);
    (void)PQsetErrorVerbosity(c->conn, PQERRORS_VERBOSE);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (next != PGRES_POLLING_OK) {
        if (next == PGRES_POLLING_FAILED || PQstatus(c->conn) == CONNECTION_BAD)
            return connect_failed(c, NULL, f);
        short events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        if (wait_fd(PQsocket(c->conn), events, deadline_ms) <= 0)
            return connect_failed(c, "no answer while connecting", f);
        next = PQconnectPoll(c->conn);
    }
    (void)PQsetErrorVerbosity(c->conn, PQERRORS_DEFAULT);
    if (PQsetnonblocking(c->conn, 1) != 0)
        return connect_failed(c, NULL, f);
    pg_metrics_connect(PG_CLASS_NONE);
    return 0;
}

bool pg_connected(const struct pg *c)
{
    return c->conn && PQstatus(c->conn) == CONNECTION_OK;
}

int pg_probe(const struct pg *c, struct fault *f)
{
    static const struct pg_stmt ASK = {NULL, "SELECT 1"};
    struct pg *fresh = NULL;
    struct pg_session session = c->session;
    session.reply_timeout_ms = c->session.connect_timeout_ms;
    int rc = pg_new(&session, &fresh, f);
    if (!fresh)
        return rc;
    rc = pg_connect(fresh, f);
    if (rc == 0)
        rc = pg_exec(fresh, &ASK, NULL, NULL, f);
    pg_free(fresh);
    return rc;
}

const struct pg_error *pg_error(const struct pg *c)
{
    return &c->error;
}

const char *pg_target(const struct pg *c)
{
    return c->target;
}

/* Statements */

static struct queue_item *add_item(struct pg *c, const struct pg_stmt *stmt,
                                   struct pg_statement *prepares)
{
    struct queue_item *item = &c->item[c->item_count++];
    *item = (struct queue_item){.prepares = prepares, .commit = stmt == &PG_COMMIT};
    (void)snprintf(item->label, sizeof item->label, "%s", stmt->name ? stmt->name : stmt->sql);
    return item;
}

static bool send_statement(struct pg *c, const struct pg_stmt *stmt, const struct pg_params *p)
{
    struct pg_wire wire;
    int count = p ? p->count : 0;
    if (p)
        pg_params_wire(p, &wire);
    struct pg_statement *s = pg_statements_get(&c->statements, stmt, p);
    if (s && s->state == PG_NOT_PREPARED) {
        if (!PQsendPrepare(c->conn, s->server_name, s->sql, count, wire.oids))
            return false;
        s->state = PG_PREPARING;
        (void)add_item(c, stmt, s);
    }
    int sent = s ? PQsendQueryPrepared(c->conn, s->server_name, count, wire.values, wire.lengths,
                                       wire.formats, 1)
                 : PQsendQueryParams(c->conn, stmt->sql, count, wire.oids, wire.values,
                                     wire.lengths, wire.formats, 1);
    if (sent)
        (void)add_item(c, stmt, NULL);
    return sent != 0;
}

/* Remembers the failure for pg_collect(). */
static int queue_failed(struct pg *c, int rc, const struct fault *f)
{
    c->queue_rc = rc;
    if (f)
        c->queue_fault = *f;
    return rc;
}

int pg_queue(struct pg *c, const struct pg_stmt *stmt, const struct pg_params *p, struct fault *f)
{
    struct fault local;
    f = f ? f : &local;
    if (c->queue_rc != 0) {
        *f = c->queue_fault;
        return c->queue_rc;
    }
    if (!c->conn)
        return queue_failed(c, pg_not_connected(c, f), f);
    const char *label = stmt->name ? stmt->name : stmt->sql;
    if (p && p->failed)
        return queue_failed(c, set_error(c, "22000", f, label, "a parameter cannot be encoded"), f);
    if (c->queued == PG_MAX_QUEUE || c->copying)
        return queue_failed(c, set_error(c, "55000", f, label, "queue full, or COPY under way"), f);
    if (!c->piping && !PQenterPipelineMode(c->conn))
        return queue_failed(c, pg_lost(c, label, NULL, f), f);
    c->piping = true;
    if (!send_statement(c, stmt, p))
        return queue_failed(c, pg_lost(c, label, NULL, f), f);
    c->queued++;
    return 0;
}

/* One item's results up to the NULL that ends them. The first failure stays in *rc. */
static int collect_item(struct pg *c, struct queue_item *item, size_t index, struct pg_result **out,
                        int *rc, struct fault *f)
{
    for (bool first = true;; first = false) {
        struct pg_result *r;
        struct pg_error error = c->error;
        if (pg_next_result(c, item->label, &r, *rc == 0 ? f : NULL) != 0) {
            if (*rc != 0)
                c->error = error; /* the server said why before it hung up */
            else
                c->error.index = index;
            return RC_RETRY;
        }
        if (!r)
            return 0;
        ExecStatusType status = PQresultStatus(r);
        bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
        bool undone = good && item->commit && strcmp(PQcmdStatus(r), "ROLLBACK") == 0;
        if (undone && *rc == 0) {
            *rc = set_error(c, "25P02", f, item->label, "the transaction had failed before");
        } else if (good && first && out) {
            *out = r;
            continue;
        } else if (!good && status != PGRES_PIPELINE_ABORTED && *rc == 0) {
            *rc = pg_refused(c, r, item->label, f);
            c->error.index = index;
        }
        if (item->prepares && item->prepares->state == PG_PREPARING)
            item->prepares->state = good ? PG_PREPARED : PG_NOT_PREPARED;
        PQclear(r);
        if (!c->conn)
            return RC_RETRY;
    }
}

/* Results of the queue's items, in order; prepares have none of their own. */
static int collect_items(struct pg *c, struct pg_result **results, struct fault *f)
{
    int rc = 0;
    size_t index = 0, items = c->item_count;
    for (size_t i = 0; i < items; i++) {
        struct queue_item *item = &c->item[i];
        struct pg_result **out = results && !item->prepares ? &results[index] : NULL;
        if (collect_item(c, item, index, out, &rc, f) != 0)
            return rc != 0 ? rc : RC_RETRY;
        index += item->prepares ? 0 : 1;
    }
    return rc;
}

/* The mark that ends a pipeline; then back to plain mode. */
static int leave_pipeline(struct pg *c, struct fault *f)
{
    struct pg_result *r = NULL;
    int rc = pg_next_result(c, "pipeline", &r, f);
    if (rc != 0)
        return rc;
    bool synced = PQresultStatus(r) == PGRES_PIPELINE_SYNC;
    PQclear(r);
    c->piping = false;
    c->item_count = 0;
    if (!synced || !PQexitPipelineMode(c->conn))
        return pg_lost(c, "pipeline", synced ? NULL : "out of step with the server", f);
    return 0;
}

static void free_results(struct pg_result **results, size_t count)
{
    for (size_t i = 0; results && i < count; i++) {
        PQclear(results[i]);
        results[i] = NULL;
    }
}

int pg_collect(struct pg *c, struct pg_result **results, size_t count, struct fault *f)
{
    struct fault local;
    f = f ? f : &local;
    int rc = c->queue_rc;
    size_t queued = c->queued;
    c->queue_rc = 0;
    c->queued = 0;
    for (size_t i = 0; results && i < count; i++)
        results[i] = NULL;
    if (rc != 0) { /* what was sent before the failure must not take effect */
        *f = c->queue_fault;
        pg_disconnect(c);
        return rc;
    }
    if (results && count != queued) {
        pg_disconnect(c);
        return set_error(c, "55000", f, NULL, "as many results as statements are needed");
    }
    if (queued == 0)
        return 0;
    int64_t started_us = clock_mono_us();
    clear_error(c);
    rc = PQpipelineSync(c->conn) ? collect_items(c, results, f) : pg_lost(c, "sync", NULL, f);
    struct pg_error error = c->error;
    int left = c->conn ? leave_pipeline(c, rc == 0 ? f : NULL) : 0;
    if (rc == 0)
        rc = left;
    else
        c->error = error;
    if (rc != 0)
        free_results(results, count);
    pg_metrics_statement(c->error.class, clock_mono_us() - started_us);
    return rc;
}

int pg_exec(struct pg *c, const struct pg_stmt *stmt, const struct pg_params *p,
            struct pg_result **out, struct fault *f)
{
    struct pg_result *result = NULL;
    if (c->queued > 0)
        return set_error(c, "55000", f, stmt->name, "statements are queued: collect them first");
    if (pg_queue(c, stmt, p, f) != 0) {
        int rc = c->queue_rc; /* nothing was sent: the connection, if any, is as it was */
        c->queue_rc = 0;
        return rc;
    }
    int rc = pg_collect(c, &result, 1, f);
    if (rc == 0 && out)
        *out = result;
    else
        PQclear(result);
    return rc;
}

/* Transactions */

int pg_begin(struct pg *c, struct fault *f)
{
    return pg_exec(c, &PG_BEGIN, NULL, NULL, f);
}

int pg_commit(struct pg *c, struct fault *f)
{
    return pg_exec(c, &PG_COMMIT, NULL, NULL, f);
}

bool pg_in_transaction(const struct pg *c)
{
    return c->conn && PQtransactionStatus(c->conn) != PQTRANS_IDLE;
}

void pg_rollback(struct pg *c)
{
    static const struct pg_stmt ROLLBACK = {NULL, "ROLLBACK"};
    struct pg_error error = c->error;
    if (c->queued > 0 || c->queue_rc != 0)
        (void)pg_collect(c, NULL, 0, NULL);
    pg_copy_abort(c);
    if (pg_in_transaction(c) && pg_exec(c, &ROLLBACK, NULL, NULL, NULL) != 0)
        pg_disconnect(c);
    c->error = error;
}

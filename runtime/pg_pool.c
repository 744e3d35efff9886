/* pg_pool.c - who gets which connection, for how long, and who hears of it. */
#include "runtime/pg_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/loop.h"
#include "runtime/pg_metrics.h"
#include "runtime/pg_pool_internal.h"

enum {
    CONNECTIONS = 4,
    MAX_WAITING = 256,
    MAX_QUERY_BYTES = 1024 * 1024,
    PROBE_MS = 1000,
    BACKOFF_MAX_MS = 2000,
    PROBE_TIMEOUT_MS = 2000, /* for probes and rollbacks */
};

static const struct pg_stmt PROBE = {NULL, "SELECT 1"};
static const struct pg_stmt ROLLBACK = {NULL, "ROLLBACK"};

/* State */

static void set_state(struct pg_pool *p, enum pg_pool_state state, const char *reason)
{
    if (p->state == state && strcmp(p->reason, reason) == 0)
        return;
    p->state = state;
    (void)snprintf(p->reason, sizeof p->reason, "%s", reason);
    p->state_changed = true;
    pg_pool_due(p);
}

void pg_pool_on_up(struct pg_link *l)
{
    struct pg_pool *p = l->pool;
    p->ready++;
    pg_metrics_pool_connections(1);
    set_state(p, PG_POOL_UP, "");
}

void pg_pool_on_down(struct pg_link *l, bool was_up, enum pg_class why, const char *reason)
{
    struct pg_pool *p = l->pool;
    if (was_up) {
        p->ready--;
        pg_metrics_pool_connections(-1);
    }
    char text[sizeof p->reason];
    (void)snprintf(text, sizeof text, "%.60s: %.120s", p->target, reason);
    if (p->ready == 0)
        set_state(p, why == PG_CLASS_BROKEN ? PG_POOL_REFUSED : PG_POOL_DOWN, text);
}

/* Handing out */

static bool is_free(const struct pg_link *l)
{
    return l->state == PG_LINK_IDLE && !l->lease && !pg_link_in_transaction(l);
}

static struct pg_link *free_link(struct pg_pool *p)
{
    for (uint32_t i = 0; i < p->options.connections; i++)
        if (is_free(&p->link[i]))
            return &p->link[i];
    return NULL;
}

/* A statement of our own, that nobody waits for. Without memory it is simply not sent. */
static void send_own(struct pg_link *l, const struct pg_stmt *stmt)
{
    struct pg_call *c = pg_call_new(PROBE_TIMEOUT_MS, NULL);
    if (c)
        pg_link_send(l, c, stmt, NULL);
}

static void roll_back_leftovers(struct pg_pool *p)
{
    for (uint32_t i = 0; i < p->options.connections; i++) {
        struct pg_link *l = &p->link[i];
        if (l->state == PG_LINK_IDLE && !l->lease && pg_link_in_transaction(l))
            send_own(l, &ROLLBACK);
    }
}

static void give(struct pg_link *l, struct pg_call *c)
{
    pg_metrics_pool_waiting(-1);
    pg_metrics_pool_waited(clock_mono_us() - c->started_us);
    if (!c->lease_fn) {
        pg_link_send(l, c, &c->stmt, c->params);
        return;
    }
    pg_lease_give(c->lease, l);
    pg_calls_append(&l->pool->settled, c);
    pg_pool_due(l->pool);
}

static void hand_out(struct pg_pool *p)
{
    roll_back_leftovers(p);
    struct pg_link *l;
    while (p->waiting.first && (l = free_link(p)))
        give(l, pg_calls_take(&p->waiting));
}

static void fire_settled(struct pg_pool *p)
{
    struct pg_call *c;
    while ((c = pg_calls_take(&p->settled)))
        pg_call_fire(c);
}

static void destroy(struct pg_pool *p)
{
    for (uint32_t i = 0; p->link && i < p->options.connections; i++)
        pg_link_done(&p->link[i]);
    loop_timer_free(p->deadline_timer);
    loop_timer_free(p->probe_timer);
    loop_timer_free(p->due_timer);
    pg_session_done(&p->session);
    free(p->link);
    free(p);
}

static void release(struct pg_pool *p)
{
    if (--p->refs == 0)
        destroy(p);
}

void pg_pool_enter(struct pg_pool *p)
{
    p->refs++;
}

void pg_pool_leave(struct pg_pool *p)
{
    if (!p->closing)
        hand_out(p);
    fire_settled(p);
    if (p->state_changed && !p->closing) {
        char reason[sizeof p->reason]; /* the callback may change it */
        (void)snprintf(reason, sizeof reason, "%s", p->reason);
        p->state_changed = false;
        if (p->options.on_state)
            p->options.on_state(p->state, reason, p->options.arg);
    }
    release(p);
}

static void on_due(void *arg)
{
    pg_pool_enter(arg);
    pg_pool_leave(arg);
}

void pg_pool_due(struct pg_pool *p)
{
    if (!p->closing)
        loop_timer_start(p->due_timer, 0, 0);
}

/* Deadlines */

void pg_pool_watch(struct pg_pool *p, int64_t deadline_ms)
{
    if (p->deadline_armed_ms != 0 && p->deadline_armed_ms <= deadline_ms)
        return;
    int64_t delay_ms = deadline_ms - clock_mono_ms();
    p->deadline_armed_ms = deadline_ms;
    loop_timer_start(p->deadline_timer, delay_ms > 0 ? delay_ms : 0, 0);
}

static void expire_waiting(struct pg_pool *p, int64_t now_ms)
{
    struct pg_calls late = {0};
    int64_t next_ms = pg_calls_expire(&p->waiting, now_ms, &late);
    for (struct pg_call *c; (c = pg_calls_take(&late));) {
        char text[80];
        (void)snprintf(text, sizeof text, "no connection within %lld ms", (long long)c->timeout_ms);
        pg_call_fail(c, "08001", text);
        pg_metrics_pool_waiting(-1);
        pg_metrics_pool_refused(PG_REFUSED_TIMEOUT);
        pg_calls_append(&p->settled, c);
    }
    if (next_ms != 0)
        pg_pool_watch(p, next_ms);
}

/* A lease without a statement under way is late by the lease's own deadline. */
static void expire_link(struct pg_link *l, int64_t now_ms)
{
    if (!l->call && !l->lease)
        return;
    int64_t deadline_ms = l->call ? l->call->deadline_ms : l->lease->deadline_ms;
    if (deadline_ms > now_ms) {
        pg_pool_watch(l->pool, deadline_ms);
        return;
    }
    char text[80];
    int64_t timeout_ms = l->call ? l->call->timeout_ms : l->lease->timeout_ms;
    (void)snprintf(text, sizeof text, "no answer within %lld ms", (long long)timeout_ms);
    pg_link_drop(l, "08006", text);
}

static void on_deadline(void *arg)
{
    struct pg_pool *p = arg;
    pg_pool_enter(p);
    int64_t now_ms = clock_mono_ms();
    p->deadline_armed_ms = 0;
    expire_waiting(p, now_ms);
    for (uint32_t i = 0; i < p->options.connections; i++)
        expire_link(&p->link[i], now_ms);
    pg_pool_leave(p);
}

static void on_probe(void *arg)
{
    struct pg_pool *p = arg;
    pg_pool_enter(p);
    int64_t before_ms = clock_mono_ms() - (int64_t)p->options.probe_ms;
    for (uint32_t i = 0; i < p->options.connections; i++)
        if (is_free(&p->link[i]) && p->link[i].answered_ms <= before_ms)
            send_own(&p->link[i], &PROBE);
    pg_pool_leave(p);
}

/* Life */

static uint32_t or_default(uint32_t given, uint32_t fallback)
{
    return given ? given : fallback;
}

static void fill_options(struct pg_pool_options *to, const struct pg_pool_options *from)
{
    *to = *from;
    to->session = (struct pg_session){0};
    to->connections = or_default(from->connections, CONNECTIONS);
    if (to->connections > PG_POOL_MAX_CONNECTIONS)
        to->connections = PG_POOL_MAX_CONNECTIONS;
    to->max_waiting = or_default(from->max_waiting, MAX_WAITING);
    to->max_query_bytes = or_default(from->max_query_bytes, MAX_QUERY_BYTES);
    to->probe_ms = or_default(from->probe_ms, PROBE_MS);
    to->backoff_max_ms = or_default(from->backoff_max_ms, BACKOFF_MAX_MS);
}

static int open_parts(struct pg_pool *p, const struct pg_session *session, struct fault *f)
{
    int rc = pg_session_init(&p->session, session, f);
    if (rc == 0)
        rc = loop_timer_new(p->loop, on_deadline, p, &p->deadline_timer, f);
    if (rc == 0)
        rc = loop_timer_new(p->loop, on_probe, p, &p->probe_timer, f);
    if (rc == 0)
        rc = loop_timer_new(p->loop, on_due, p, &p->due_timer, f);
    p->link = calloc(p->options.connections, sizeof *p->link);
    if (rc == 0 && !p->link)
        rc = fault_set(f, RC_FATAL, "no memory for database connections");
    for (uint32_t i = 0; rc == 0 && i < p->options.connections; i++)
        rc = pg_link_init(&p->link[i], p, f);
    return rc;
}

int pg_pool_open(struct loop *l, const struct pg_pool_options *o, struct pg_pool **out,
                 struct fault *f)
{
    struct pg_pool *p = calloc(1, sizeof *p);
    if (!p)
        return fault_set(f, RC_FATAL, "no memory for database connections");
    p->loop = l;
    p->refs = 1;
    fill_options(&p->options, o);
    int rc = open_parts(p, &o->session, f);
    if (rc != 0) {
        p->closing = true;
        destroy(p);
        return rc;
    }
    pg_session_target(&p->session, p->target, sizeof p->target);
    (void)snprintf(p->reason, sizeof p->reason, "%.60s: not connected yet", p->target);
    for (uint32_t i = 0; i < p->options.connections; i++)
        pg_link_start(&p->link[i]);
    loop_timer_start(p->probe_timer, p->options.probe_ms, p->options.probe_ms);
    *out = p;
    return 0;
}

void pg_pool_close(struct pg_pool *p)
{
    if (!p || p->closing)
        return;
    p->closing = true;
    loop_timer_stop(p->deadline_timer);
    loop_timer_stop(p->probe_timer);
    loop_timer_stop(p->due_timer);
    for (uint32_t i = 0; i < p->options.connections; i++)
        pg_link_done(&p->link[i]);
    p->ready = 0;
    p->state = PG_POOL_DOWN;
    for (struct pg_call *c; (c = pg_calls_take(&p->waiting));) {
        pg_call_fail(c, "08001", "the pool is closed");
        pg_metrics_pool_waiting(-1);
        pg_metrics_pool_refused(PG_REFUSED_CLOSED);
        pg_calls_append(&p->settled, c);
    }
    fire_settled(p);
    release(p);
}

enum pg_pool_state pg_pool_state(const struct pg_pool *p)
{
    return p->state;
}

const char *pg_pool_target(const struct pg_pool *p)
{
    return p->target;
}

uint32_t pg_pool_waiting(const struct pg_pool *p)
{
    return p->waiting.count;
}

uint32_t pg_pool_ready(const struct pg_pool *p)
{
    return p->ready;
}

/* Calls */

/* May one more call wait? */
static int check_room(struct pg_pool *p, struct fault *f)
{
    if (p->closing)
        return fault_set(f, RC_RETRY, "the pool is closed");
    if (p->waiting.count < p->options.max_waiting)
        return 0;
    pg_metrics_pool_refused(PG_REFUSED_FULL);
    return fault_set(f, RC_RETRY, "%u queries wait for a connection already", p->waiting.count);
}

static void enqueue(struct pg_pool *p, struct pg_call *c)
{
    pg_calls_append(&p->waiting, c);
    pg_metrics_pool_waiting(1);
    pg_pool_watch(p, c->deadline_ms);
    pg_pool_due(p);
}

int pg_pool_query(struct pg_pool *pool, const struct pg_stmt *stmt, const struct pg_params *p,
                  int64_t timeout_ms, pg_answer_fn fn, void *arg, struct fault *f)
{
    if (p && p->failed)
        return fault_set(f, RC_REJECT, "a parameter cannot be encoded");
    struct pg_link *l = pool->closing || pool->waiting.first ? NULL : free_link(pool);
    int rc = l ? 0 : check_room(pool, f);
    if (rc != 0)
        return rc;
    struct pg_call *c = pg_call_new(timeout_ms, arg);
    if (!c)
        return fault_set(f, RC_RETRY, "no memory for a query");
    c->fn = fn;
    if (l) { /* at once, without a copy */
        pg_metrics_pool_waited(0);
        pg_link_send(l, c, stmt, p);
        return 0;
    }
    rc = pg_call_keep(c, stmt, p, pool->options.max_query_bytes, f);
    if (rc == 0)
        enqueue(pool, c);
    else
        pg_call_free(c);
    return rc;
}

int pg_pool_begin(struct pg_pool *pool, int64_t timeout_ms, pg_lease_fn fn, void *arg,
                  struct fault *f)
{
    int rc = check_room(pool, f);
    if (rc != 0)
        return rc;
    struct pg_call *c = pg_call_new(timeout_ms, arg);
    struct pg_lease *lease = calloc(1, sizeof *lease);
    if (!c || !lease) {
        free(lease);
        pg_call_free(c);
        return fault_set(f, RC_RETRY, "no memory for a transaction");
    }
    *lease =
        (struct pg_lease){.pool = pool, .deadline_ms = c->deadline_ms, .timeout_ms = c->timeout_ms};
    c->lease = lease;
    c->lease_fn = fn;
    enqueue(pool, c);
    return 0;
}

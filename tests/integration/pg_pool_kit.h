/* pg_pool_kit.h - one pool on a loop of its own, and everything it was told. */
#ifndef PG_POOL_KIT_H
#define PG_POOL_KIT_H
#include "loop_kit.h"
#include "server_kit.h"

#include <string.h>

#include "runtime/fault.h"
#include "runtime/pg.h"
#include "runtime/pg_pool.h"

enum { PATIENCE_MS = 30000, LONG_MS = 10000 };

static const struct pg_stmt ECHO = {"echo", "SELECT $1::bigint"};
static const struct pg_stmt SLEEP = {"sleep", "SELECT pg_sleep($1::float8)"};
static const struct pg_stmt PUT = {"put", "INSERT INTO pool_test (id) VALUES ($1::bigint)"};
static const struct pg_stmt COUNT = {"count", "SELECT count(*) FROM pool_test"};
static const struct pg_stmt BACKEND = {"backend", "SELECT pg_backend_pid()"};

static inline void control(const char *action)
{
    server_control(action, "pg");
}

/* One pool on a loop of its own. */
struct bench {
    struct loop_kit kit;
    struct pg_pool *pool;
    struct pg_pool_options options;
    enum pg_pool_state state;
    char reason[256];
    int ups, downs;
    int accepted, calls, good, retries;
    bool inside; /* a call of ours is on the stack: no callback may fire */
    int64_t last, sum;
    enum pg_class class;
    char sqlstate[6], text[256];
    struct pg_lease *lease;
    int leases;
};

static inline void on_state(enum pg_pool_state state, const char *reason, void *arg)
{
    struct bench *b = arg;
    assert_false(b->inside);
    b->ups += state == PG_POOL_UP;
    b->downs += state != PG_POOL_UP && b->state == PG_POOL_UP;
    b->state = state;
    (void)snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static inline void count_answer(struct bench *b, const struct pg_answer *a)
{
    assert_false(b->inside);
    b->calls++;
    b->good += a->rc == 0;
    b->retries += a->rc == RC_RETRY;
    b->class = a->error.class;
    assert_int_equal(a->rc, pg_error_rc(a->error.class));
    assert_true((a->text[0] == '\0') == (a->rc == 0));
    (void)snprintf(b->sqlstate, sizeof b->sqlstate, "%s", a->error.sqlstate);
    (void)snprintf(b->text, sizeof b->text, "%s", a->text);
}

static inline void on_answer(const struct pg_answer *a, void *arg)
{
    struct bench *b = arg;
    count_answer(b, a);
    assert_true((a->result != NULL) == (a->rc == 0));
    if (a->rc == 0 && pg_result_rows(a->result) > 0)
        b->sum += b->last = pg_result_int(a->result, 0, 0);
}

static inline void on_void(const struct pg_answer *a, void *arg)
{
    count_answer(arg, a);
}

static inline void on_lease(struct pg_lease *lease, const struct pg_answer *a, void *arg)
{
    struct bench *b = arg;
    count_answer(b, a);
    assert_true((lease != NULL) == (a->rc == 0));
    b->lease = lease;
    b->leases += lease != NULL;
}

static inline void run_until(struct bench *b, bool (*condition)(struct bench *))
{
    if (!loop_kit_run(&b->kit, condition, PATIENCE_MS))
        fail_msg("waited in vain; state %d (%s), %d of %d answered, last: %s", (int)b->state,
                 b->reason, b->calls, b->accepted, b->text);
}

static inline bool is_up(struct bench *b)
{
    return b->state == PG_POOL_UP;
}

static inline bool is_down(struct bench *b)
{
    return b->state == PG_POOL_DOWN;
}

static inline bool is_refused(struct bench *b)
{
    return b->state == PG_POOL_REFUSED;
}

static inline bool all_ready(struct bench *b)
{
    return pg_pool_ready(b->pool) == (b->options.connections ? b->options.connections : 4);
}

static inline bool all_called(struct bench *b)
{
    return b->calls == b->accepted;
}

static inline void open_bench(struct bench *b)
{
    struct fault f;
    if (!b->options.session.uri)
        b->options.session = pg_session_http(need("URR_TEST_PG_URL"), "test_pg_pool");
    b->options.on_state = on_state;
    b->options.arg = b;
    loop_kit_open(&b->kit, b);
    assert_int_equal(pg_pool_open(b->kit.loop, &b->options, &b->pool, &f), 0);
}

static inline void close_bench(struct bench *b)
{
    pg_pool_close(b->pool);
    assert_int_equal(b->calls, b->accepted);
    loop_kit_close(&b->kit);
}

static inline int issue(struct bench *b, const struct pg_stmt *stmt, int64_t value,
                        int64_t timeout_ms)
{
    struct fault f;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, value);
    b->inside = true;
    int rc = pg_pool_query(b->pool, stmt, &p, timeout_ms, on_answer, b, &f);
    b->inside = false;
    b->accepted += rc == 0;
    return rc;
}

static inline int sleep_for(struct bench *b, double seconds, int64_t timeout_ms)
{
    struct fault f;
    struct pg_params p;
    char text[32];
    (void)snprintf(text, sizeof text, "%.3f", seconds);
    pg_params_init(&p);
    pg_params_text(&p, text);
    b->inside = true;
    int rc = pg_pool_query(b->pool, &SLEEP, &p, timeout_ms, on_void, b, &f);
    b->inside = false;
    b->accepted += rc == 0;
    memset(text, '?', sizeof text); /* borrowed parameters must have been copied */
    return rc;
}

/* One statement without parameters and its answer. */
static inline void ask(struct bench *b, const struct pg_stmt *stmt)
{
    struct fault f;
    assert_int_equal(pg_pool_query(b->pool, stmt, NULL, LONG_MS, on_answer, b, &f), 0);
    b->accepted++;
    run_until(b, all_called);
}

static inline void execute(struct bench *b, const char *sql)
{
    ask(b, &(struct pg_stmt){NULL, sql});
    if (b->class != PG_CLASS_NONE)
        fail_msg("%s: %s", sql, b->text);
}

static inline void fresh_table(struct bench *b)
{
    execute(b, "DROP TABLE IF EXISTS pool_test");
    execute(b, "CREATE TABLE pool_test (id bigint PRIMARY KEY)");
}

static inline int64_t count_rows(struct bench *b)
{
    ask(b, &COUNT);
    assert_int_equal(b->class, PG_CLASS_NONE);
    return b->last;
}

static inline void begin(struct bench *b, int64_t timeout_ms)
{
    struct fault f;
    b->inside = true;
    assert_int_equal(pg_pool_begin(b->pool, timeout_ms, on_lease, b, &f), 0);
    b->inside = false;
    b->accepted++;
    run_until(b, all_called);
    assert_non_null(b->lease);
}

static inline int lease_put(struct bench *b, int64_t id)
{
    struct fault f;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, id);
    b->inside = true;
    int rc = pg_lease_query(b->lease, &PUT, &p, on_answer, b, &f);
    b->inside = false;
    b->accepted += rc == 0;
    return rc;
}

#endif

/* The connection pool against a real server that is killed, frozen and slow. */
#include "../unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/metrics.h"
#include "runtime/pg.h"
#include "runtime/pg_metrics.h"
#include "runtime/pg_pool.h"

enum { PATIENCE_MS = 30000, LONG_MS = 10000 };

static const struct pg_stmt ECHO = {"echo", "SELECT $1::bigint"};
static const struct pg_stmt SLEEP = {"sleep", "SELECT pg_sleep($1::float8)"};
static const struct pg_stmt PUT = {"put", "INSERT INTO pool_test (id) VALUES ($1::bigint)"};
static const struct pg_stmt COUNT = {"count", "SELECT count(*) FROM pool_test"};
static const struct pg_stmt BACKEND = {"backend", "SELECT pg_backend_pid()"};

static const char *need(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fail_msg("%s is not set: run me through tests/run integration", name);
    return value;
}

static void control(const char *action)
{
    char command[512];
    (void)snprintf(command, sizeof command, "%s %s pg", need("URR_TEST_CONTROL"), action);
    assert_int_equal(system(command), 0);
}

/* One pool on a loop of its own. */
struct bench {
    struct loop *loop;
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
    bool (*until)(struct bench *);
    int64_t give_up_ms;
    struct loop_timer *watch;
};

static void on_state(enum pg_pool_state state, const char *reason, void *arg)
{
    struct bench *b = arg;
    assert_false(b->inside);
    b->ups += state == PG_POOL_UP;
    b->downs += state != PG_POOL_UP && b->state == PG_POOL_UP;
    b->state = state;
    (void)snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static void count_answer(struct bench *b, const struct pg_answer *a)
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

static void on_answer(const struct pg_answer *a, void *arg)
{
    struct bench *b = arg;
    count_answer(b, a);
    assert_true((a->result != NULL) == (a->rc == 0));
    if (a->rc == 0 && pg_result_rows(a->result) > 0)
        b->sum += b->last = pg_result_int(a->result, 0, 0);
}

static void on_void(const struct pg_answer *a, void *arg)
{
    count_answer(arg, a);
}

static void on_lease(struct pg_lease *lease, const struct pg_answer *a, void *arg)
{
    struct bench *b = arg;
    count_answer(b, a);
    assert_true((lease != NULL) == (a->rc == 0));
    b->lease = lease;
    b->leases += lease != NULL;
}

static void on_watch(void *arg)
{
    struct bench *b = arg;
    if (b->until(b) || clock_mono_ms() > b->give_up_ms)
        loop_stop(b->loop);
}

static void run_until(struct bench *b, bool (*condition)(struct bench *))
{
    struct fault f;
    b->until = condition;
    b->give_up_ms = clock_mono_ms() + PATIENCE_MS;
    loop_timer_start(b->watch, 0, 1);
    assert_int_equal(loop_run(b->loop, &f), 0);
    loop_timer_stop(b->watch);
    if (!condition(b))
        fail_msg("waited in vain; state %d (%s), %d of %d answered, last: %s", (int)b->state,
                 b->reason, b->calls, b->accepted, b->text);
}

static bool is_up(struct bench *b)
{
    return b->state == PG_POOL_UP;
}

static bool is_down(struct bench *b)
{
    return b->state == PG_POOL_DOWN;
}

static bool is_refused(struct bench *b)
{
    return b->state == PG_POOL_REFUSED;
}

static bool all_ready(struct bench *b)
{
    return pg_pool_ready(b->pool) == (b->options.connections ? b->options.connections : 4);
}

static bool all_called(struct bench *b)
{
    return b->calls == b->accepted;
}

static void open_bench(struct bench *b)
{
    struct fault f;
    if (!b->options.session.uri)
        b->options.session = pg_session_http(need("URR_TEST_PG_URL"), "test_pg_pool");
    b->options.on_state = on_state;
    b->options.arg = b;
    assert_int_equal(loop_new(&b->loop, &f), 0);
    assert_int_equal(loop_timer_new(b->loop, on_watch, b, &b->watch, &f), 0);
    assert_int_equal(pg_pool_open(b->loop, &b->options, &b->pool, &f), 0);
}

static void close_bench(struct bench *b)
{
    pg_pool_close(b->pool);
    assert_int_equal(b->calls, b->accepted);
    loop_timer_free(b->watch);
    loop_free(b->loop);
}

static int issue(struct bench *b, const struct pg_stmt *stmt, int64_t value, int64_t timeout_ms)
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

static int sleep_for(struct bench *b, double seconds, int64_t timeout_ms)
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
static void ask(struct bench *b, const struct pg_stmt *stmt)
{
    struct fault f;
    assert_int_equal(pg_pool_query(b->pool, stmt, NULL, LONG_MS, on_answer, b, &f), 0);
    b->accepted++;
    run_until(b, all_called);
}

static void execute(struct bench *b, const char *sql)
{
    ask(b, &(struct pg_stmt){NULL, sql});
    if (b->class != PG_CLASS_NONE)
        fail_msg("%s: %s", sql, b->text);
}

static void fresh_table(struct bench *b)
{
    execute(b, "DROP TABLE IF EXISTS pool_test");
    execute(b, "CREATE TABLE pool_test (id bigint PRIMARY KEY)");
}

static int64_t count_rows(struct bench *b)
{
    ask(b, &COUNT);
    assert_int_equal(b->class, PG_CLASS_NONE);
    return b->last;
}

static void answers_queries_asked_before_it_is_connected(void **state)
{
    (void)state;
    struct bench b = {0};
    open_bench(&b);
    assert_int_equal(pg_pool_state(b.pool), PG_POOL_DOWN);
    for (int i = 0; i < 100; i++)
        assert_int_equal(issue(&b, &ECHO, i, LONG_MS), 0);
    run_until(&b, all_called);
    assert_int_equal(b.good, 100);
    assert_int_equal(b.sum, 99 * 100 / 2);
    assert_int_equal(b.state, PG_POOL_UP);
    close_bench(&b);
}

static void says_what_kind_of_error_it_was(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    (void)issue(&b, &PUT, 7, LONG_MS);
    (void)issue(&b, &PUT, 7, LONG_MS);
    run_until(&b, all_called);
    assert_string_equal(b.sqlstate, "23505");
    assert_int_equal(b.class, PG_CLASS_DATA);
    ask(&b, &(struct pg_stmt){"wrong", "SELECT nothing FROM nowhere"});
    assert_string_equal(b.sqlstate, "42P01");
    assert_int_equal(b.class, PG_CLASS_BROKEN);
    assert_non_null(strstr(b.text, "wrong: "));
    assert_int_equal(count_rows(&b), 1); /* and the connection goes on */
    assert_int_equal(b.downs, 0);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_queries_asked_before_it_is_connected),
        cmocka_unit_test(says_what_kind_of_error_it_was),
    };
    (void)is_up, (void)is_down, (void)is_refused, (void)all_ready, (void)on_lease, (void)sleep_for;
    (void)BACKEND, (void)control;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

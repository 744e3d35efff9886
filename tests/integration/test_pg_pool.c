/* The connection pool against a real server that is killed, frozen and slow. */
#include "check.h"

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

/* Time and room */

static void refuses_what_the_queue_cannot_hold(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1, .options.max_waiting = 3};
    struct metric *full =
        metrics_series(&PG_METRICS[PG_METRIC_POOL_REFUSED], (const char *[]){"full"});
    double before = metric_value(full);
    open_bench(&b);
    run_until(&b, all_ready);
    assert_int_equal(sleep_for(&b, 0.3, LONG_MS), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(issue(&b, &ECHO, i, LONG_MS), 0);
    assert_int_equal(pg_pool_waiting(b.pool), 3);
    assert_int_equal(issue(&b, &ECHO, 3, LONG_MS), RC_RETRY);
    assert_true(metric_value(full) == before + 1);
    run_until(&b, all_called);
    assert_int_equal(b.good, 4);
    assert_int_equal(issue(&b, &ECHO, 4, LONG_MS), 0);
    run_until(&b, all_called);
    close_bench(&b);
}

static void refuses_a_waiting_query_that_is_too_long_or_broken(void **state)
{
    (void)state;
    struct bench b = {.options.max_query_bytes = 1000};
    struct fault f;
    struct pg_params p;
    char big[1001];
    memset(big, 'x', 1000);
    big[1000] = '\0';
    open_bench(&b);
    pg_params_init(&p);
    pg_params_text(&p, big);
    assert_int_equal(pg_pool_query(b.pool, &ECHO, &p, LONG_MS, on_answer, &b, &f), RC_REJECT);
    pg_params_init(&p);
    pg_params_uuid(&p, "no uuid");
    assert_int_equal(pg_pool_query(b.pool, &ECHO, &p, LONG_MS, on_answer, &b, &f), RC_REJECT);
    close_bench(&b);
}

static void a_late_query_is_answered_once_and_costs_its_connection(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    ask(&b, &BACKEND);
    int64_t first = b.last, started_ms = clock_mono_ms();
    assert_int_equal(sleep_for(&b, 2, 200), 0);
    run_until(&b, all_called);
    assert_in_range(clock_mono_ms() - started_ms, 190, 1000);
    assert_int_equal(b.class, PG_CLASS_AWAY);
    assert_non_null(strstr(b.text, "no answer within 200 ms"));
    ask(&b, &BACKEND);
    assert_int_not_equal(b.last, first);
    close_bench(&b);
}

static void a_query_that_gets_no_connection_in_time_is_answered(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    run_until(&b, all_ready);
    assert_int_equal(sleep_for(&b, 0.5, LONG_MS), 0);
    assert_int_equal(issue(&b, &ECHO, 2, LONG_MS), 0);
    int64_t started_ms = clock_mono_ms();
    assert_int_equal(issue(&b, &ECHO, 1, 100), 0);
    b.accepted -= 2;
    run_until(&b, all_called);
    assert_in_range(clock_mono_ms() - started_ms, 90, 400);
    assert_int_equal(b.retries, 1);
    assert_non_null(strstr(b.text, "no connection within 100 ms"));
    b.accepted += 2;
    run_until(&b, all_called);
    assert_int_equal(b.good, 2);
    assert_int_equal(b.downs, 0);
    close_bench(&b);
}

static void the_server_limits_statements_and_locks(void **state)
{
    (void)state;
    static const struct pg_stmt LIMIT = {
        NULL, "SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'"};
    static const struct pg_stmt LOCKS = {
        NULL, "SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'"};
    struct bench b = {0};
    open_bench(&b);
    ask(&b, &LIMIT);
    assert_int_equal(b.last, 3000);
    ask(&b, &LOCKS);
    assert_int_equal(b.last, 1000);
    close_bench(&b);
}

static void a_changed_table_costs_one_retry(void **state)
{
    (void)state;
    static const struct pg_stmt ALL = {"all", "SELECT * FROM pool_test"};
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    ask(&b, &ALL);
    execute(&b, "ALTER TABLE pool_test ADD COLUMN note text");
    ask(&b, &ALL);
    assert_int_equal(b.class, PG_CLASS_CONFLICT);
    ask(&b, &ALL);
    assert_int_equal(b.class, PG_CLASS_NONE);
    close_bench(&b);
}

static void large_parameters_and_results_go_through(void **state)
{
    (void)state;
    enum { BIG = 900 * 1000 };
    static const struct pg_stmt MIRROR = {"mirror", "SELECT length(repeat($1::text, 8))"};
    static const struct pg_stmt LOTS = {NULL, "SELECT n, repeat('x', 1000) FROM "
                                              "generate_series(1::bigint, 5000) AS n"};
    struct bench b = {0};
    struct fault f;
    char *big = malloc(BIG + 1);
    memset(big, 'x', BIG);
    big[BIG] = '\0';
    open_bench(&b);
    for (int i = 0; i < 20; i++) { /* four straight away later on, the others as copies */
        struct pg_params p;
        pg_params_init(&p);
        pg_params_text(&p, big);
        assert_int_equal(pg_pool_query(b.pool, &MIRROR, &p, LONG_MS, on_answer, &b, &f), 0);
        b.accepted++;
    }
    memset(big, '\0', BIG);
    run_until(&b, all_called);
    assert_int_equal(b.good, 20);
    assert_int_equal(b.sum, 20LL * 8 * BIG);
    ask(&b, &LOTS);
    assert_int_equal(b.last, 1);
    free(big);
    close_bench(&b);
}

/* Servers that leave */

static void comes_back_after_a_killed_server(void **state)
{
    (void)state;
    struct bench b = {0};
    open_bench(&b);
    run_until(&b, all_ready);
    control("kill");
    run_until(&b, is_down);
    assert_true(b.reason[0] != '\0');
    assert_int_equal(issue(&b, &ECHO, 1, 100), 0);
    run_until(&b, all_called);
    assert_int_equal(b.class, PG_CLASS_AWAY);
    control("start");
    run_until(&b, is_up);
    assert_string_equal(b.reason, "");
    assert_int_equal(issue(&b, &ECHO, 5, LONG_MS), 0);
    run_until(&b, all_called);
    assert_int_equal(b.last, 5);
    run_until(&b, all_ready);
    close_bench(&b);
}

static void a_frozen_server_holds_nobody(void **state)
{
    (void)state;
    struct bench b = {0};
    open_bench(&b);
    run_until(&b, all_ready);
    control("freeze");
    int64_t started_ms = clock_mono_ms();
    for (int i = 0; i < 20; i++)
        assert_int_equal(issue(&b, &ECHO, i, 300), 0);
    run_until(&b, all_called);
    assert_in_range(clock_mono_ms() - started_ms, 250, 1500);
    assert_int_equal(b.retries, 20);
    run_until(&b, is_down);
    control("thaw");
    run_until(&b, is_up);
    assert_int_equal(issue(&b, &ECHO, 9, LONG_MS), 0);
    run_until(&b, all_called);
    assert_int_equal(b.last, 9);
    close_bench(&b);
}

static void an_idle_pool_notices_a_frozen_server(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 2, .options.probe_ms = 100};
    open_bench(&b);
    run_until(&b, all_ready);
    control("freeze");
    run_until(&b, is_down);
    control("thaw");
    run_until(&b, is_up);
    close_bench(&b);
}

static void a_missing_database_needs_an_operator(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    b.options.session = pg_session_http(need("URR_TEST_PG_URL"), "test_pg_pool");
    char uri[512];
    (void)snprintf(uri, sizeof uri, "%s", need("URR_TEST_PG_URL"));
    char *database = strrchr(uri, '/');
    assert_non_null(database);
    (void)snprintf(database, 40, "/no_such_database");
    b.options.session.uri = uri;
    open_bench(&b);
    run_until(&b, is_refused);
    assert_non_null(strstr(b.reason, "no_such_database"));
    close_bench(&b);
}

/* Transactions */

static void begin(struct bench *b, int64_t timeout_ms)
{
    struct fault f;
    b->inside = true;
    assert_int_equal(pg_pool_begin(b->pool, timeout_ms, on_lease, b, &f), 0);
    b->inside = false;
    b->accepted++;
    run_until(b, all_called);
    assert_non_null(b->lease);
}

static int lease_put(struct bench *b, int64_t id)
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

static void put(struct bench *b, int64_t id)
{
    assert_int_equal(lease_put(b, id), 0);
    run_until(b, all_called);
}

static void commit(struct bench *b)
{
    struct fault f;
    assert_int_equal(pg_lease_commit(b->lease, on_answer, b, &f), 0);
    b->accepted++;
    run_until(b, all_called);
}

static void a_committed_transaction_stays_and_an_ended_one_does_not(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    put(&b, 1);
    put(&b, 2);
    commit(&b);
    assert_int_equal(b.class, PG_CLASS_NONE);
    put(&b, 3); /* another transaction */
    pg_lease_end(b.lease);
    assert_int_equal(count_rows(&b), 2);
    begin(&b, LONG_MS);
    put(&b, 3);
    assert_int_equal(b.class, PG_CLASS_NONE);
    pg_lease_end(b.lease);
    assert_int_equal(count_rows(&b), 2); /* on the same connection, which was rolled back first */
    assert_int_equal(b.downs, 0);
    close_bench(&b);
}

static void others_wait_while_a_connection_is_leased(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    begin(&b, LONG_MS);
    assert_int_equal(issue(&b, &ECHO, 1, 150), 0);
    run_until(&b, all_called);
    assert_int_equal(b.retries, 1);
    assert_int_equal(issue(&b, &ECHO, 2, LONG_MS), 0);
    pg_lease_end(b.lease);
    run_until(&b, all_called);
    assert_int_equal(b.last, 2);
    close_bench(&b);
}

static void a_failed_statement_fails_the_commit(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    put(&b, 1);
    put(&b, 1);
    assert_string_equal(b.sqlstate, "23505");
    put(&b, 2);
    assert_string_equal(b.sqlstate, "25P02");
    commit(&b);
    assert_int_equal(b.class, PG_CLASS_CONFLICT);
    pg_lease_end(b.lease);
    assert_int_equal(count_rows(&b), 0);
    close_bench(&b);
}

static void statements_of_a_transaction_go_one_after_the_other(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    assert_int_equal(lease_put(&b, 1), 0);
    assert_int_equal(lease_put(&b, 2), RC_REJECT);
    run_until(&b, all_called);
    pg_lease_end(b.lease);
    close_bench(&b);
}

static void a_lease_ended_under_way_is_answered_and_rolled_back(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    assert_int_equal(lease_put(&b, 1), 0);
    pg_lease_end(b.lease);
    run_until(&b, all_called);
    assert_int_equal(b.class, PG_CLASS_NONE);
    assert_int_equal(count_rows(&b), 0);
    close_bench(&b);
}

static bool lease_is_broken(struct bench *b)
{
    struct fault f;
    return pg_lease_query(b->lease, &COUNT, NULL, on_answer, b, &f) == RC_RETRY;
}

static void a_lease_past_its_deadline_is_rolled_back(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 1};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, 300);
    put(&b, 1);
    int64_t started_ms = clock_mono_ms();
    assert_int_equal(issue(&b, &ECHO, 4, LONG_MS), 0); /* waits for the leased connection */
    run_until(&b, all_called);
    assert_in_range(clock_mono_ms() - started_ms, 100, 2000);
    assert_true(lease_is_broken(&b));
    pg_lease_end(b.lease);
    assert_int_equal(count_rows(&b), 0);
    close_bench(&b);
}

static void a_transaction_whose_server_dies_is_broken(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 2};
    open_bench(&b);
    fresh_table(&b);
    begin(&b, LONG_MS);
    put(&b, 1);
    control("kill");
    assert_int_equal(lease_put(&b, 2), 0);
    run_until(&b, all_called);
    assert_int_equal(b.class, PG_CLASS_AWAY);
    assert_true(lease_is_broken(&b));
    pg_lease_end(b.lease);
    control("start");
    run_until(&b, is_up);
    assert_int_equal(count_rows(&b), 0);
    close_bench(&b);
}

/* Closing */

static void close_answers_everything_that_is_outstanding(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 2};
    struct fault f;
    open_bench(&b);
    run_until(&b, all_ready);
    fresh_table(&b);
    begin(&b, LONG_MS);
    assert_int_equal(lease_put(&b, 1), 0);
    assert_int_equal(sleep_for(&b, 1, LONG_MS), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(issue(&b, &ECHO, i, LONG_MS), 0);
    struct pg_lease *lease = b.lease;
    assert_int_equal(pg_pool_begin(b.pool, LONG_MS, on_lease, &b, &f), 0);
    b.accepted++;
    int before = b.retries;
    close_bench(&b); /* checks that every callback has fired */
    assert_int_equal(b.retries - before, 13);
    assert_null(b.lease);
    assert_int_equal(pg_lease_query(lease, &COUNT, NULL, on_answer, &b, &f), RC_RETRY);
    pg_lease_end(lease);
}

static void on_answer_close(const struct pg_answer *a, void *arg)
{
    struct bench *b = arg;
    count_answer(b, a);
    pg_pool_close(b->pool);
    b->pool = NULL;
}

static void on_answer_reopen(const struct pg_answer *a, void *arg)
{
    struct bench *b = arg;
    struct fault f;
    count_answer(b, a);
    if (b->pool && pg_pool_query(b->pool, &COUNT, NULL, LONG_MS, on_answer, b, &f) == 0)
        b->accepted++; /* refused while closing, not lost */
}

static void may_be_closed_from_a_callback(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 2};
    struct fault f;
    open_bench(&b);
    assert_int_equal(pg_pool_query(b.pool, &BACKEND, NULL, LONG_MS, on_answer_close, &b, &f), 0);
    assert_int_equal(pg_pool_query(b.pool, &BACKEND, NULL, LONG_MS, on_answer_reopen, &b, &f), 0);
    b.accepted = 2;
    for (int i = 0; i < 10; i++)
        assert_int_equal(issue(&b, &ECHO, i, LONG_MS), 0);
    run_until(&b, all_called);
    assert_null(b.pool);
    close_bench(&b);
}

/* The storm: chains of queries and transactions that go on whatever happens to the server. */

enum { CHAINS = 48, STORM_TIMEOUT_MS = 400 };

struct chain {
    struct storm *storm;
    struct pg_lease *lease;
    int64_t id;
    bool committing;
};

struct storm {
    struct bench *bench;
    struct chain chain[CHAINS];
    int64_t next_id;
    int committed, unknown, wanted, wanted_good;
    bool stopping;
};

static struct storm *storm_of; /* run_until() conditions know only the bench */

static void next_step(struct chain *c);

static void end_transaction(struct chain *c)
{
    pg_lease_end(c->lease);
    c->lease = NULL;
    c->committing = false;
    next_step(c);
}

static void on_storm_query(const struct pg_answer *a, void *arg)
{
    struct chain *c = arg;
    count_answer(c->storm->bench, a);
    next_step(c);
}

static void on_storm_commit(const struct pg_answer *a, void *arg)
{
    struct chain *c = arg;
    count_answer(c->storm->bench, a);
    c->storm->committed += a->rc == 0;
    c->storm->unknown += a->rc != 0;
    end_transaction(c);
}

static void on_storm_put(const struct pg_answer *a, void *arg);

static int storm_put(struct chain *c)
{
    struct fault f;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, c->id++);
    return pg_lease_query(c->lease, &PUT, &p, on_storm_put, c, &f);
}

static void on_storm_put(const struct pg_answer *a, void *arg)
{
    struct chain *c = arg;
    struct fault f;
    count_answer(c->storm->bench, a);
    bool second = c->id % 2 == 0;
    int rc = a->rc;
    if (rc == 0)
        rc = second ? pg_lease_commit(c->lease, on_storm_commit, c, &f) : storm_put(c);
    if (rc == 0)
        c->storm->bench->accepted++;
    else
        end_transaction(c);
}

static void on_storm_lease(struct pg_lease *lease, const struct pg_answer *a, void *arg)
{
    struct chain *c = arg;
    count_answer(c->storm->bench, a);
    c->lease = lease;
    c->id = c->storm->next_id;
    c->storm->next_id += 2;
    if (a->rc == 0 && storm_put(c) == 0)
        c->storm->bench->accepted++;
    else
        end_transaction(c);
}

static void next_step(struct chain *c)
{
    struct fault f;
    struct storm *s = c->storm;
    if (s->stopping)
        return;
    bool transaction = (c - s->chain) % 3 == 0;
    int rc = transaction ? pg_pool_begin(s->bench->pool, STORM_TIMEOUT_MS, on_storm_lease, c, &f)
                         : pg_pool_query(s->bench->pool, &COUNT, NULL, STORM_TIMEOUT_MS,
                                         on_storm_query, c, &f);
    assert_int_equal(rc, 0); /* the queue has room for every chain */
    s->bench->accepted++;
}

static bool storm_went_on(struct bench *b)
{
    return b->calls >= storm_of->wanted && b->good >= storm_of->wanted_good;
}

static void storm_until(struct storm *s, int calls, int good)
{
    s->wanted = s->bench->calls + calls;
    s->wanted_good = s->bench->good + good;
    run_until(s->bench, storm_went_on);
}

static void a_storm_of_kills_and_freezes_loses_and_repeats_nothing(void **state)
{
    (void)state;
    struct bench b = {.options.connections = 6, .options.backoff_max_ms = 300};
    struct storm s = {.bench = &b};
    storm_of = &s;
    open_bench(&b);
    fresh_table(&b);
    for (int i = 0; i < CHAINS; i++) {
        s.chain[i].storm = &s;
        next_step(&s.chain[i]);
    }
    for (int round = 0; round < 2; round++) {
        storm_until(&s, 0, 1000);
        control("freeze");
        storm_until(&s, 2 * CHAINS, 0);
        control("thaw");
        storm_until(&s, 0, 1000);
        control("kill");
        storm_until(&s, 2 * CHAINS, 0);
        control("start");
        storm_until(&s, 0, 1000);
    }
    s.stopping = true;
    run_until(&b, all_called);
    int64_t rows = count_rows(&b);
    print_message("%d calls, %d good; %d commits known, %d unknown, %d rows\n", b.calls, b.good,
                  s.committed, s.unknown, (int)rows);
    assert_true(s.committed > 100);
    assert_int_equal(rows % 2, 0); /* no half transaction */
    assert_in_range(rows, 2 * s.committed, 2 * (s.committed + s.unknown));
    assert_true(b.downs >= 2);
    close_bench(&b);
}

static void gauges_return_to_zero_when_all_pools_are_closed(void **state)
{
    (void)state;
    struct metric *connections = metrics_series(&PG_METRICS[PG_METRIC_POOL_CONNECTIONS], NULL);
    struct metric *waiting = metrics_series(&PG_METRICS[PG_METRIC_POOL_WAITING], NULL);
    assert_true(metric_value(connections) == 0);
    assert_true(metric_value(waiting) == 0);
    struct bench b = {.options.connections = 3};
    open_bench(&b);
    run_until(&b, all_ready);
    assert_true(metric_value(connections) == 3);
    close_bench(&b);
    assert_true(metric_value(connections) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_queries_asked_before_it_is_connected),
        cmocka_unit_test(says_what_kind_of_error_it_was),
        cmocka_unit_test(refuses_what_the_queue_cannot_hold),
        cmocka_unit_test(refuses_a_waiting_query_that_is_too_long_or_broken),
        cmocka_unit_test(a_late_query_is_answered_once_and_costs_its_connection),
        cmocka_unit_test(a_query_that_gets_no_connection_in_time_is_answered),
        cmocka_unit_test(the_server_limits_statements_and_locks),
        cmocka_unit_test(a_changed_table_costs_one_retry),
        cmocka_unit_test(large_parameters_and_results_go_through),
        cmocka_unit_test(comes_back_after_a_killed_server),
        cmocka_unit_test(a_frozen_server_holds_nobody),
        cmocka_unit_test(an_idle_pool_notices_a_frozen_server),
        cmocka_unit_test(a_missing_database_needs_an_operator),
        cmocka_unit_test(a_committed_transaction_stays_and_an_ended_one_does_not),
        cmocka_unit_test(others_wait_while_a_connection_is_leased),
        cmocka_unit_test(a_failed_statement_fails_the_commit),
        cmocka_unit_test(statements_of_a_transaction_go_one_after_the_other),
        cmocka_unit_test(a_lease_ended_under_way_is_answered_and_rolled_back),
        cmocka_unit_test(a_lease_past_its_deadline_is_rolled_back),
        cmocka_unit_test(a_transaction_whose_server_dies_is_broken),
        cmocka_unit_test(close_answers_everything_that_is_outstanding),
        cmocka_unit_test(may_be_closed_from_a_callback),
        cmocka_unit_test(a_storm_of_kills_and_freezes_loses_and_repeats_nothing),
        cmocka_unit_test(gauges_return_to_zero_when_all_pools_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

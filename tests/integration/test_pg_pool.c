/* The connection pool against a real server that is killed, frozen and slow. */
#include "pg_pool_kit.h"

#include "runtime/buf.h"
#include "runtime/metrics.h"
#include "runtime/pg_metrics.h"

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

static void finds_its_server_by_name(void **state)
{
    (void)state;
    char url[512];
    server_by_name(need("URR_TEST_PG_URL"), url, sizeof url);
    struct bench b = {.options.session = pg_session_http(url, "test_pg_pool")};
    open_bench(&b);
    run_until(&b, all_ready);
    assert_int_equal(issue(&b, &ECHO, 7, LONG_MS), 0);
    run_until(&b, all_called);
    assert_int_equal(b.last, 7);
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
        cmocka_unit_test(finds_its_server_by_name),
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
        cmocka_unit_test(close_answers_everything_that_is_outstanding),
        cmocka_unit_test(may_be_closed_from_a_callback),
        cmocka_unit_test(gauges_return_to_zero_when_all_pools_are_closed),
    };
    return cmocka_run_group_tests_name("pg_pool", tests, NULL, NULL);
}

/* The blocking connection against a real server: types, classes, and every way a server goes away.
 */
#include "server_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/pg.h"

static void control(const char *action)
{
    server_control(action, "pg");
}

static struct pg *new_connection(struct pg_session session)
{
    struct pg *c;
    struct fault f = {0};
    session.uri = need("URR_TEST_PG_URL");
    session.application_name = "test_pg";
    assert_int_equal(pg_new(&session, &c, &f), 0);
    if (pg_connect(c, &f) != 0) {
        print_error("%s\n", f.text);
        fail();
    }
    return c;
}

static struct pg *connection(void)
{
    return new_connection((struct pg_session){0});
}

static void script(struct pg *c, const char *sql)
{
    struct fault f = {0};
    if (pg_script(c, "setup", sql, &f) != 0) {
        print_error("%s\n", f.text);
        fail();
    }
}

static int64_t ask_int(struct pg *c, const char *sql)
{
    struct fault f = {0};
    struct pg_result *r = NULL;
    struct pg_stmt stmt = {NULL, sql};
    if (pg_exec(c, &stmt, NULL, &r, &f) != 0) {
        print_error("%s\n", f.text);
        fail();
    }
    int64_t value = pg_result_int(r, 0, 0);
    pg_result_free(r);
    return value;
}

/* Settings and types */

static void sessions_carry_their_time_outs(void **state)
{
    (void)state;
    struct pg *c = new_connection((struct pg_session){.statement_timeout_ms = 7000});
    static const struct pg_stmt ASK = {NULL,
                                       "SELECT setting::bigint FROM pg_settings WHERE name = $1"};
    static const struct {
        const char *name;
        int64_t value;
    } WANTED[] = {{"statement_timeout", 7000},
                  {"lock_timeout", 5000},
                  {"idle_in_transaction_session_timeout", 10000},
                  {"client_connection_check_interval", 5000},
                  {"tcp_user_timeout", 10000}};
    for (size_t i = 0; i < sizeof WANTED / sizeof WANTED[0]; i++) {
        struct pg_params p;
        struct pg_result *r = NULL;
        pg_params_init(&p);
        pg_params_text(&p, WANTED[i].name);
        assert_int_equal(pg_exec(c, &ASK, &p, &r, NULL), 0);
        assert_int_equal(pg_result_int(r, 0, 0), WANTED[i].value);
        pg_result_free(r);
    }
    pg_free(c);
}

static void scalars_come_back_as_they_went(void **state)
{
    (void)state;
    struct pg *c = connection();
    static const struct pg_stmt ECHO = {
        "echo", "SELECT $1::text, $2::bigint, $3::int, $4::bool, $5::bytea, $6::timestamptz, "
                "$7::uuid, $8::text, $9::jsonb, 1.5::float8, 7::smallint"};
    struct pg_params p;
    struct pg_result *r = NULL;
    struct fault f = {0};
    pg_params_init(&p);
    pg_params_text(&p, "héllo");
    pg_params_int8(&p, INT64_MIN);
    pg_params_int4(&p, -5);
    pg_params_bool(&p, true);
    pg_params_bytes(&p, "a\0b", 3);
    pg_params_time_ms(&p, 1763470271042);
    pg_params_uuid(&p, "019A95F4-0000-7000-8000-00000000000a");
    pg_params_null(&p);
    pg_params_text(&p, "{\"a\": 1}");
    assert_int_equal(pg_exec(c, &ECHO, &p, &r, &f), 0);
    assert_string_equal(pg_result_text(r, 0, 0), "héllo");
    assert_true(pg_result_int(r, 0, 1) == INT64_MIN);
    assert_int_equal(pg_result_int(r, 0, 2), -5);
    assert_true(pg_result_bool(r, 0, 3));
    size_t len;
    assert_memory_equal(pg_result_bytes(r, 0, 4, &len), "a\0b", 3);
    assert_int_equal(len, 3);
    assert_int_equal(pg_result_time_ms(r, 0, 5), 1763470271042);
    char uuid[PG_UUID_LEN + 1];
    pg_result_uuid(r, 0, 6, uuid);
    assert_string_equal(uuid, "019a95f4-0000-7000-8000-00000000000a");
    assert_true(pg_result_null(r, 0, 7));
    assert_null(pg_result_text(r, 0, 7));
    assert_string_equal(pg_result_text(r, 0, 8), "{\"a\": 1}");
    assert_true(pg_result_real(r, 0, 9) == 1.5);
    assert_int_equal(pg_result_int(r, 0, 10), 7);
    pg_result_free(r);
    pg_free(c);
}

static const struct pg_stmt UNNEST = {
    "unnest",
    "SELECT a, b, c, d, e, f, g FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::int[], "
    "$5::uuid[], $6::bool[], $7::timestamptz[]) WITH ORDINALITY AS t(a, b, c, d, e, f, g, n) "
    "ORDER BY n"};

static const enum pg_type TYPES[7] = {PG_TEXT, PG_BYTEA, PG_INT8,       PG_INT4,
                                      PG_UUID, PG_BOOL,  PG_TIMESTAMPTZ};

static void fill_row(struct pg_array a[7], int i)
{
    char uuid[37], text[16];
    (void)snprintf(uuid, sizeof uuid, "00000000-0000-7000-8000-%012x", (unsigned)i);
    (void)snprintf(text, sizeof text, "row %d", i);
    if (i % 10 == 9) {
        for (int k = 0; k < 7; k++)
            assert_int_equal(pg_array_null(&a[k]), 0);
        return;
    }
    assert_int_equal(pg_array_text(&a[0], text), 0);
    assert_int_equal(pg_array_bytes(&a[1], "\0\1", 2), 0);
    assert_int_equal(pg_array_int8(&a[2], i * INT64_C(-10000000000)), 0);
    assert_int_equal(pg_array_int4(&a[3], i), 0);
    assert_int_equal(pg_array_uuid(&a[4], uuid), 0);
    assert_int_equal(pg_array_bool(&a[5], i % 2 == 1), 0);
    assert_int_equal(pg_array_time_ms(&a[6], i * INT64_C(1000) - 1), 0);
}

static void arrays_of_every_type_come_back_with_their_nulls(void **state)
{
    (void)state;
    struct pg *c = connection();
    struct pg_array a[7];
    struct pg_params p;
    pg_params_init(&p);
    for (int k = 0; k < 7; k++)
        pg_array_init(&a[k], TYPES[k], 1 << 20);
    for (int i = 0; i < 1000; i++)
        fill_row(a, i);
    for (int k = 0; k < 7; k++)
        pg_params_array(&p, &a[k]);
    struct pg_result *r = NULL;
    assert_int_equal(pg_exec(c, &UNNEST, &p, &r, NULL), 0);
    assert_int_equal(pg_result_rows(r), 1000);
    assert_true(pg_result_null(r, 999, 0));
    assert_true(pg_result_null(r, 9, 6));
    assert_string_equal(pg_result_text(r, 998, 0), "row 998");
    assert_true(pg_result_int(r, 998, 2) == INT64_C(-9980000000000));
    assert_int_equal(pg_result_int(r, 998, 3), 998);
    assert_true(pg_result_bool(r, 997, 5));
    assert_int_equal(pg_result_time_ms(r, 0, 6), -1);
    pg_result_free(r);
    pg_params_init(&p);
    for (int k = 0; k < 7; k++) {
        pg_array_reset(&a[k]);
        pg_params_array(&p, &a[k]);
    }
    assert_int_equal(pg_exec(c, &UNNEST, &p, &r, NULL), 0);
    assert_int_equal(pg_result_rows(r), 0);
    pg_result_free(r);
    for (int k = 0; k < 7; k++)
        pg_array_done(&a[k]);
    pg_free(c);
}

static void a_parameter_that_cannot_be_encoded_costs_nothing(void **state)
{
    (void)state;
    struct pg *c = connection();
    static const struct pg_stmt ASK = {NULL, "SELECT $1::uuid"};
    struct pg_params p;
    pg_params_init(&p);
    pg_params_uuid(&p, "not-a-uuid");
    assert_int_equal(pg_begin(c, NULL), 0);
    assert_int_equal(pg_exec(c, &ASK, &p, NULL, NULL), RC_REJECT);
    assert_true(pg_in_transaction(c));
    assert_int_equal(pg_commit(c, NULL), 0);
    pg_free(c);
}

/* Queues */

static void a_queue_runs_in_one_round_trip_and_in_order(void **state)
{
    (void)state;
    struct pg *c = connection();
    script(c, "DROP TABLE IF EXISTS q; CREATE TABLE q (id bigint PRIMARY KEY)");
    static const struct pg_stmt ADD = {"q_add", "INSERT INTO q VALUES ($1)"};
    static const struct pg_stmt COUNT = {"q_count", "SELECT count(*) FROM q"};
    struct pg_result *r[6];
    assert_int_equal(pg_queue(c, &PG_BEGIN, NULL, NULL), 0);
    for (int i = 0; i < 3; i++) {
        struct pg_params p;
        pg_params_init(&p);
        pg_params_int8(&p, i);
        assert_int_equal(pg_queue(c, &ADD, &p, NULL), 0);
    }
    assert_int_equal(pg_queue(c, &COUNT, NULL, NULL), 0);
    assert_int_equal(pg_queue(c, &PG_COMMIT, NULL, NULL), 0);
    assert_int_equal(pg_collect(c, r, 6, NULL), 0);
    assert_int_equal(pg_result_int(r[4], 0, 0), 3);
    assert_int_equal(pg_result_affected(r[1]), 1);
    for (int i = 0; i < 6; i++)
        pg_result_free(r[i]);
    assert_false(pg_in_transaction(c));
    pg_free(c);
}

static void a_failure_in_a_queue_names_its_statement_and_undoes_all(void **state)
{
    (void)state;
    struct pg *c = connection();
    script(c, "DROP TABLE IF EXISTS q; CREATE TABLE q (id bigint PRIMARY KEY)");
    static const struct pg_stmt ADD = {"q_add", "INSERT INTO q VALUES ($1)"};
    struct pg_result *r[5];
    static const int64_t VALUES[] = {1, 2, 2, 3};
    struct fault f = {0};
    for (int round = 0; round < 2; round++) { /* the second with the statement prepared */
        assert_int_equal(pg_queue(c, &PG_BEGIN, NULL, NULL), 0);
        for (int i = 0; i < 4; i++) {
            struct pg_params p;
            pg_params_init(&p);
            pg_params_int8(&p, VALUES[i]);
            assert_int_equal(pg_queue(c, &ADD, &p, NULL), 0);
        }
        assert_int_equal(pg_collect(c, r, 5, &f), RC_REJECT);
        assert_int_equal(pg_error(c)->class, PG_CLASS_DATA);
        assert_int_equal(pg_error(c)->index, 3);
        assert_string_equal(pg_error(c)->sqlstate, "23505");
        assert_string_equal(pg_error(c)->constraint, "q_pkey");
        assert_null(r[1]);
        assert_true(pg_in_transaction(c));
        pg_rollback(c);
        assert_false(pg_in_transaction(c));
        assert_int_equal(pg_error(c)->class, PG_CLASS_DATA);
        assert_int_equal(ask_int(c, "SELECT count(*) FROM q"), 0);
    }
    pg_free(c);
}

static void a_commit_that_the_server_turns_into_a_rollback_is_an_error(void **state)
{
    (void)state;
    struct pg *c = connection();
    static const struct pg_stmt BAD = {NULL, "SELECT 1 / 0"};
    assert_int_equal(pg_begin(c, NULL), 0);
    assert_int_equal(pg_exec(c, &BAD, NULL, NULL, NULL), RC_REJECT);
    assert_int_equal(pg_commit(c, NULL), RC_RETRY);
    assert_string_equal(pg_error(c)->sqlstate, "25P02");
    pg_free(c);
}

static void a_large_queue_does_not_stall_on_full_buffers(void **state)
{
    (void)state;
    struct pg *c = connection();
    static const struct pg_stmt ECHO = {"echo_big", "SELECT repeat($1, 10)"};
    enum { STATEMENTS = 64, SIZE = 200000 };
    char *big = malloc(SIZE + 1);
    assert_non_null(big);
    memset(big, 'x', SIZE);
    big[SIZE] = '\0';
    struct pg_result *r[STATEMENTS];
    for (int i = 0; i < STATEMENTS; i++) {
        struct pg_params p;
        pg_params_init(&p);
        pg_params_text(&p, big);
        assert_int_equal(pg_queue(c, &ECHO, &p, NULL), 0);
    }
    assert_int_equal(pg_collect(c, r, STATEMENTS, NULL), 0);
    for (int i = 0; i < STATEMENTS; i++) {
        assert_int_equal(strlen(pg_result_text(r[i], 0, 0)), SIZE * 10);
        pg_result_free(r[i]);
    }
    free(big);
    pg_free(c);
}

/* COPY */

static void copies_rows_with_awkward_bytes(void **state)
{
    (void)state;
    struct pg *c = connection();
    script(c, "DROP TABLE IF EXISTS cp; CREATE TABLE cp (id bigint, t text)");
    struct buf row;
    buf_init(&row, 1 << 24);
    for (int i = 0; i < 50000; i++) {
        (void)buf_printf(&row, "%d\t", i);
        (void)pg_copy_field(&row, i == 7 ? NULL : "a\tb\nc\\d", 7);
        (void)buf_putc(&row, '\n');
    }
    int64_t rows = 0;
    assert_int_equal(pg_copy_begin(c, "COPY cp FROM STDIN", NULL), 0);
    assert_int_equal(pg_copy_data(c, row.data, row.len, NULL), 0);
    assert_int_equal(pg_copy_end(c, &rows, NULL), 0);
    assert_int_equal(rows, 50000);
    assert_int_equal(ask_int(c, "SELECT count(*) FROM cp WHERE t = E'a\\tb\\nc\\\\d'"), 49999);
    struct fault f = {0};
    assert_int_equal(pg_copy_begin(c, "COPY cp FROM STDIN", NULL), 0);
    assert_int_equal(pg_copy_data(c, "no number\tx\n", 12, NULL), 0);
    assert_int_equal(pg_copy_end(c, NULL, &f), RC_REJECT);
    assert_int_equal(pg_copy_begin(c, "COPY nowhere FROM STDIN", &f), RC_FATAL);
    assert_int_equal(pg_copy_begin(c, "COPY cp FROM STDIN", NULL), 0);
    pg_copy_abort(c);
    assert_int_equal(ask_int(c, "SELECT count(*) FROM cp"), 50000);
    buf_done(&row);
    pg_free(c);
}

/* Classes as the server gives them */

static void expect_class(struct pg *c, const char *sql, enum pg_class class, const char *sqlstate)
{
    struct fault f = {0};
    struct pg_stmt stmt = {NULL, sql};
    assert_int_equal(pg_exec(c, &stmt, NULL, NULL, &f), pg_error_rc(class));
    assert_string_equal(pg_error(c)->sqlstate, sqlstate);
    assert_int_equal(pg_error(c)->class, class);
    assert_true(strstr(f.text, sqlstate) != NULL);
}

static void the_servers_errors_fall_into_their_classes(void **state)
{
    (void)state;
    struct pg *c = connection();
    script(c,
           "DROP TABLE IF EXISTS k; CREATE TABLE k (id bigint CONSTRAINT positive CHECK (id > 0))");
    expect_class(c, "INSERT INTO k VALUES (-1)", PG_CLASS_DATA, "23514");
    assert_string_equal(pg_error(c)->constraint, "positive");
    expect_class(c, "SELECT 'x'::bigint", PG_CLASS_DATA, "22P02");
    expect_class(c, "DO $$ BEGIN RAISE 'no'; END $$", PG_CLASS_DATA, "P0001");
    expect_class(c, "SELECT * FROM nowhere", PG_CLASS_BROKEN, "42P01");
    expect_class(c, "DO $$ BEGIN RAISE 'full' USING ERRCODE = '53100'; END $$", PG_CLASS_AWAY,
                 "53100");
    script(c, "SET statement_timeout = 50");
    expect_class(c, "SELECT pg_sleep(5)", PG_CLASS_CONFLICT, "57014");
    assert_true(pg_connected(c));
    pg_free(c);
}

static void a_held_lock_is_a_conflict(void **state)
{
    (void)state;
    struct pg *holder = connection();
    struct pg *waiter = new_connection((struct pg_session){.lock_timeout_ms = 100});
    script(holder, "DROP TABLE IF EXISTS l; CREATE TABLE l (id int); INSERT INTO l VALUES (1)");
    script(holder, "BEGIN; SELECT * FROM l FOR UPDATE");
    expect_class(waiter, "UPDATE l SET id = 2", PG_CLASS_CONFLICT, "55P03");
    pg_free(waiter);
    pg_free(holder);
}

struct racer {
    struct pg *c;
    const char *second;
    int rc;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct pg_stmt stmt = {NULL, r->second};
    r->rc = pg_exec(r->c, &stmt, NULL, NULL, NULL);
    return NULL;
}

static void of_a_deadlock_one_loses_and_may_try_again(void **state)
{
    (void)state;
    struct racer a = {connection(), "UPDATE d SET v = v + 1 WHERE id = 2", 0};
    struct racer b = {connection(), "UPDATE d SET v = v + 1 WHERE id = 1", 0};
    script(a.c, "DROP TABLE IF EXISTS d; CREATE TABLE d (id int, v int); "
                "INSERT INTO d VALUES (1, 0), (2, 0)");
    script(a.c, "BEGIN; UPDATE d SET v = v + 1 WHERE id = 1");
    script(b.c, "BEGIN; UPDATE d SET v = v + 1 WHERE id = 2");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, race, &a), 0);
    (void)race(&b);
    /* Whoever did not lose waits for the loser's rows. */
    if (b.rc != 0)
        pg_rollback(b.c);
    assert_int_equal(pthread_join(thread, NULL), 0);
    struct racer *loser = a.rc != 0 ? &a : &b;
    assert_int_equal(a.rc + b.rc, RC_RETRY);
    assert_int_equal(pg_error(loser->c)->class, PG_CLASS_CONFLICT);
    assert_string_equal(pg_error(loser->c)->sqlstate, "40P01");
    pg_free(a.c);
    pg_free(b.c);
}

static void a_session_idle_in_its_transaction_is_ended_by_the_server(void **state)
{
    (void)state;
    struct pg *c = new_connection((struct pg_session){.idle_in_transaction_ms = 100});
    struct pg *watch = connection();
    assert_int_equal(pg_begin(c, NULL), 0);
    int64_t pid = ask_int(c, "SELECT pg_backend_pid()");
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d",
                   (int)pid);
    int64_t deadline_ms = clock_mono_ms() + 5000;
    while (ask_int(watch, sql) > 0 && clock_mono_ms() < deadline_ms)
        (void)usleep(10000);
    assert_int_equal(pg_commit(c, NULL), RC_RETRY);
    assert_false(pg_connected(c));
    assert_int_equal(pg_connect(c, NULL), 0);
    pg_free(watch);
    pg_free(c);
}

/* The server goes away */

static void a_changed_table_is_planned_anew(void **state)
{
    (void)state;
    struct pg *c = connection();
    static const struct pg_stmt ALL = {"all_of_s", "SELECT * FROM s"};
    script(c, "DROP TABLE IF EXISTS s; CREATE TABLE s (id bigint); INSERT INTO s VALUES (1)");
    assert_int_equal(pg_exec(c, &ALL, NULL, NULL, NULL), 0);
    script(c, "ALTER TABLE s ADD COLUMN more text");
    assert_int_equal(pg_exec(c, &ALL, NULL, NULL, NULL), RC_RETRY);
    assert_int_equal(pg_error(c)->class, PG_CLASS_CONFLICT);
    struct pg_result *r = NULL;
    assert_int_equal(pg_exec(c, &ALL, NULL, &r, NULL), 0);
    assert_int_equal(pg_result_columns(r), 2);
    pg_result_free(r);
    script(c, "DEALLOCATE ALL");
    assert_int_equal(pg_exec(c, &ALL, NULL, NULL, NULL), RC_RETRY);
    assert_int_equal(pg_exec(c, &ALL, NULL, NULL, NULL), 0);
    pg_free(c);
}

static void a_kill_in_a_transaction_is_away_and_undone(void **state)
{
    (void)state;
    struct pg *c = connection();
    static const struct pg_stmt ADD = {"g_add", "INSERT INTO g VALUES ($1)"};
    struct pg_params p;
    struct fault f = {0};
    pg_params_init(&p);
    pg_params_int8(&p, 1);
    script(c, "DROP TABLE IF EXISTS g; CREATE TABLE g (id bigint)");
    assert_int_equal(pg_exec(c, &ADD, &p, NULL, NULL), 0);
    assert_int_equal(pg_begin(c, NULL), 0);
    assert_int_equal(pg_exec(c, &ADD, &p, NULL, NULL), 0);
    control("kill");
    assert_int_equal(pg_exec(c, &ADD, &p, NULL, &f), RC_RETRY);
    assert_int_equal(pg_error(c)->class, PG_CLASS_AWAY);
    assert_false(pg_connected(c));
    pg_rollback(c);
    assert_int_equal(pg_exec(c, &ADD, &p, NULL, &f), RC_RETRY);
    assert_int_equal(pg_probe(c, &f), RC_RETRY);
    assert_int_equal(pg_connect(c, &f), RC_RETRY);
    assert_int_equal(pg_error(c)->class, PG_CLASS_AWAY);
    assert_null(strstr(f.text, "secret"));
    control("start");
    assert_int_equal(pg_probe(c, NULL), 0);
    assert_int_equal(pg_connect(c, NULL), 0);
    assert_int_equal(pg_exec(c, &ADD, &p, NULL, NULL), 0); /* prepared again */
    assert_int_equal(ask_int(c, "SELECT count(*) FROM g"), 2);
    pg_free(c);
}

static void a_frozen_server_costs_the_connection_not_the_process(void **state)
{
    (void)state;
    struct pg *c =
        new_connection((struct pg_session){.reply_timeout_ms = 300, .connect_timeout_ms = 300});
    struct fault f = {0};
    static const struct pg_stmt ASK = {NULL, "SELECT 1"};
    control("freeze");
    int64_t started_ms = clock_mono_ms();
    int rc = pg_exec(c, &ASK, NULL, NULL, &f);
    int probe = pg_probe(c, NULL), again = pg_connect(c, NULL);
    int64_t took_ms = clock_mono_ms() - started_ms;
    control("thaw");
    assert_int_equal(rc, RC_RETRY);
    assert_non_null(strstr(f.text, "no answer within 300 ms"));
    assert_int_equal(probe, RC_RETRY);
    assert_int_equal(again, RC_RETRY);
    assert_true(took_ms < 3000);
    assert_int_equal(pg_connect(c, NULL), 0);
    assert_int_equal(pg_exec(c, &ASK, NULL, NULL, NULL), 0);
    pg_free(c);
}

static void a_wrong_password_is_fatal_and_not_repeated(void **state)
{
    (void)state;
    char uri[512];
    const char *url = need("URR_TEST_PG_URL");
    const char *at = strchr(url, '@');
    assert_non_null(at);
    (void)snprintf(uri, sizeof uri, "postgresql://nobody_here:hunter2-hunter2@%s", at + 1);
    struct pg_session session = {.uri = uri};
    struct pg *c;
    struct fault f = {0};
    assert_int_equal(pg_new(&session, &c, &f), 0);
    assert_int_equal(pg_connect(c, &f), RC_FATAL);
    assert_int_equal(pg_error(c)->class, PG_CLASS_BROKEN);
    assert_null(strstr(f.text, "hunter2"));
    pg_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_carry_their_time_outs),
        cmocka_unit_test(scalars_come_back_as_they_went),
        cmocka_unit_test(arrays_of_every_type_come_back_with_their_nulls),
        cmocka_unit_test(a_parameter_that_cannot_be_encoded_costs_nothing),
        cmocka_unit_test(a_queue_runs_in_one_round_trip_and_in_order),
        cmocka_unit_test(a_failure_in_a_queue_names_its_statement_and_undoes_all),
        cmocka_unit_test(a_commit_that_the_server_turns_into_a_rollback_is_an_error),
        cmocka_unit_test(a_large_queue_does_not_stall_on_full_buffers),
        cmocka_unit_test(copies_rows_with_awkward_bytes),
        cmocka_unit_test(the_servers_errors_fall_into_their_classes),
        cmocka_unit_test(a_held_lock_is_a_conflict),
        cmocka_unit_test(of_a_deadlock_one_loses_and_may_try_again),
        cmocka_unit_test(a_session_idle_in_its_transaction_is_ended_by_the_server),
        cmocka_unit_test(a_changed_table_is_planned_anew),
        cmocka_unit_test(a_kill_in_a_transaction_is_away_and_undone),
        cmocka_unit_test(a_frozen_server_costs_the_connection_not_the_process),
        cmocka_unit_test(a_wrong_password_is_fatal_and_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Migrations against a real database: what is applied, what is refused, and two runs at once. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/embed.h"
#include "runtime/fault.h"
#include "runtime/migrate.h"
#include "runtime/pg.h"

#define FILE_OF(name, sql)                 \
    {                                      \
        name, sql, (sql) + sizeof(sql) - 1 \
    }
#define END              \
    {                    \
        NULL, NULL, NULL \
    }

static const char *const SET_A[] = {"a", NULL};
static const char ONE[] = "CREATE TABLE one (n bigint);";
static const char TWO[] = "CREATE TABLE two (n bigint);\nINSERT INTO one VALUES (2);";

static const struct embed_file BASE[] = {FILE_OF("a/001_one.sql", ONE),
                                         FILE_OF("a/002_two.sql", TWO), END};

static struct pg *connection(void)
{
    struct pg *c = NULL;
    struct fault f = {0};
    const char *uri = getenv("URR_TEST_PG_URL");
    if (!uri)
        fail_msg("URR_TEST_PG_URL is not set: run me through tests/run integration");
    struct pg_session session = migrate_session(uri);
    if (pg_new(&session, &c, &f) != 0 || pg_connect(c, &f) != 0)
        fail_msg("%s", f.text);
    return c;
}

static struct pg *empty_database(void)
{
    struct fault f = {0};
    struct pg *c = connection();
    if (pg_script(c, "setup", "DROP SCHEMA public CASCADE; CREATE SCHEMA public", &f) != 0)
        fail_msg("%s", f.text);
    return c;
}

static int64_t ask(struct pg *c, const char *sql)
{
    struct fault f = {0};
    struct pg_result *r = NULL;
    if (pg_exec(c, &(struct pg_stmt){NULL, sql}, NULL, &r, &f) != 0)
        fail_msg("%s: %s", sql, f.text);
    int64_t n = pg_result_int(r, 0, 0);
    pg_result_free(r);
    return n;
}

struct tally {
    int old, pending, done;
    char names[512]; /* of what was done, in order */
};

static void on_step(const struct migrate_step *step, void *arg)
{
    struct tally *t = arg;
    t->old += step->state == MIGRATE_OLD;
    t->pending += step->state == MIGRATE_PENDING;
    if (step->state != MIGRATE_DONE)
        return;
    t->done++;
    size_t len = strlen(t->names);
    (void)snprintf(t->names + len, sizeof t->names - len, "%s ", step->file);
}

static int run(struct pg *c, const struct embed_file *table, struct tally *t, struct fault *f)
{
    *t = (struct tally){0};
    struct migrate_options o = {.table = table, .sets = SET_A, .on_step = on_step, .arg = t};
    return migrate_run(c, &o, f);
}

static struct tally run_well(struct pg *c, const struct embed_file *table)
{
    struct tally t;
    struct fault f = {0};
    if (run(c, table, &t, &f) != 0)
        fail_msg("%s", f.text);
    return t;
}

/* The reason must name the file, and hold `word`. */
static void assert_refused(struct pg *c, const struct embed_file *table, int rc, const char *file,
                           const char *word)
{
    struct tally t;
    struct fault f = {0};
    assert_int_equal(run(c, table, &t, &f), rc);
    if (!strstr(f.text, file) || !strstr(f.text, word))
        fail_msg("'%s' should name %s and '%s'", f.text, file, word);
    assert_false(pg_in_transaction(c));
}

static void applies_files_in_order_and_only_once(void **state)
{
    (void)state;
    struct pg *c = empty_database();
    struct tally t = run_well(c, BASE);
    assert_string_equal(t.names, "a/001_one.sql a/002_two.sql ");
    t = run_well(c, BASE);
    assert_int_equal(t.done, 0);
    assert_int_equal(t.old, 2);
    assert_int_equal(ask(c, "SELECT count(*) FROM one"), 1);
    assert_int_equal(ask(c, "SELECT count(*) FROM schema_migrations WHERE length(checksum) = 64"),
                     2);
    pg_free(c);
}

static void a_dry_run_looks_and_writes_nothing(void **state)
{
    (void)state;
    struct pg *c = empty_database();
    struct tally t = {0};
    struct fault f = {0};
    struct migrate_options o = {
        .table = BASE, .sets = SET_A, .dry_run = true, .on_step = on_step, .arg = &t};
    assert_int_equal(migrate_run(c, &o, &f), 0);
    assert_int_equal(t.pending, 2);
    assert_int_equal(ask(c, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), 0);
    pg_free(c);
}

enum { MIGRATORS = 4 };
static const char SLOW[] = "SELECT pg_sleep(0.2);\nCREATE TABLE one (n bigint);";
static const struct embed_file RACED[] = {
    FILE_OF("a/001_one.sql", SLOW), FILE_OF("a/002_two.sql", TWO),
    FILE_OF("a/functions/f.sql", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'"),
    END};

struct racer {
    pthread_t thread;
    struct pg *c;
    struct tally tally;
    struct fault fault;
    int rc;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    r->rc = run(r->c, RACED, &r->tally, &r->fault);
    return NULL;
}

static void many_at_once_apply_each_file_once(void **state)
{
    (void)state;
    struct pg *c = empty_database();
    struct racer racers[MIGRATORS] = {0};
    int done = 0, old = 0;
    for (int i = 0; i < MIGRATORS; i++) {
        racers[i].c = connection();
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < MIGRATORS; i++) {
        (void)pthread_join(racers[i].thread, NULL);
        if (racers[i].rc != 0)
            fail_msg("%s", racers[i].fault.text);
        done += racers[i].tally.done;
        old += racers[i].tally.old;
        pg_free(racers[i].c);
    }
    assert_int_equal(done, 3);
    assert_int_equal(old, 3 * (MIGRATORS - 1));
    assert_int_equal(ask(c, "SELECT count(*) FROM one"), 1);
    pg_free(c);
}

static void waits_only_so_long_for_another_run(void **state)
{
    (void)state;
    struct pg *c = empty_database(), *other = connection();
    struct tally t = {0};
    struct fault f = {0};
    struct migrate_options o = {
        .table = BASE, .sets = SET_A, .lock_wait_ms = 200, .on_step = on_step, .arg = &t};
    (void)ask(other, "SELECT 1 FROM pg_advisory_lock(x'7572722d6d696772'::bigint)");
    assert_int_equal(migrate_run(c, &o, &f), RC_RETRY);
    assert_non_null(strstr(f.text, "still running"));
    pg_free(other); /* a session that ends gives its lock up */
    o.lock_wait_ms = 0;
    assert_int_equal(migrate_run(c, &o, &f), 0);
    pg_free(c);
}

static void refuses_a_file_that_changed_after_it_was_applied(void **state)
{
    (void)state;
    static const struct embed_file CHANGED[] = {
        FILE_OF("a/001_one.sql", "CREATE TABLE one (n bigint); "), FILE_OF("a/002_two.sql", TWO),
        FILE_OF("a/003_three.sql", "CREATE TABLE three ()"), END};
    struct pg *c = empty_database();
    (void)run_well(c, BASE);
    assert_refused(c, CHANGED, RC_REJECT, "a/001_one.sql", "changed");
    assert_int_equal(ask(c, "SELECT count(*) FROM pg_tables WHERE tablename = 'three'"), 0);
    pg_free(c);
}

static void refuses_gaps_and_numbers_used_twice(void **state)
{
    (void)state;
    static const struct embed_file GAP[] = {FILE_OF("a/001_one.sql", ONE),
                                            FILE_OF("a/003_two.sql", TWO), END};
    static const struct embed_file TWICE[] = {FILE_OF("a/001_one.sql", ONE),
                                              FILE_OF("a/001_two.sql", TWO), END};
    static const struct embed_file NO_NUMBER[] = {FILE_OF("a/one.sql", ONE), END};
    static const struct embed_file NONE[] = {FILE_OF("b/001_one.sql", ONE), END};
    struct pg *c = empty_database();
    assert_refused(c, GAP, RC_REJECT, "a/003_two.sql", "002");
    assert_refused(c, TWICE, RC_REJECT, "a/001_two.sql", "twice");
    assert_refused(c, NO_NUMBER, RC_REJECT, "a/one.sql", "NNN_name.sql");
    assert_refused(c, NONE, RC_REJECT, "set a", "no SQL");
    assert_int_equal(ask(c, "SELECT count(*) FROM pg_tables WHERE tablename = 'one'"), 0);
    pg_free(c);
}

static void refuses_a_database_newer_than_the_program(void **state)
{
    (void)state;
    static const struct embed_file OLDER[] = {FILE_OF("a/001_one.sql", ONE), END};
    struct pg *c = empty_database();
    (void)run_well(c, BASE);
    assert_refused(c, OLDER, RC_REJECT, "002_two.sql", "newer");
    pg_free(c);
}

static void refuses_a_file_that_comes_late(void **state)
{
    (void)state;
    struct pg *c = empty_database();
    (void)run_well(c, BASE);
    assert_int_equal(ask(c, "WITH gone AS (DELETE FROM schema_migrations WHERE version = 1 "
                            "RETURNING 1) SELECT count(*) FROM gone"),
                     1);
    assert_refused(c, BASE, RC_REJECT, "a/001_one.sql", "never applied");
    pg_free(c);
}

static void a_failing_file_leaves_nothing_and_says_where(void **state)
{
    (void)state;
    static const struct embed_file BAD[] = {
        FILE_OF("a/001_one.sql", ONE),
        FILE_OF("a/002_bad.sql", "CREATE TABLE two (n bigint);\n\nSELECT nothing FROM two;\n"),
        END};
    struct pg *c = empty_database();
    assert_refused(c, BAD, RC_FATAL, "a/002_bad.sql", "a/002_bad.sql:3:");
    assert_int_equal(ask(c, "SELECT count(*) FROM pg_tables WHERE tablename = 'two'"), 0);
    struct tally t = run_well(c, BASE); /* mended: goes on where it stopped */
    assert_string_equal(t.names, "a/002_two.sql ");
    pg_free(c);
}

static void refuses_a_file_that_ends_its_own_transaction(void **state)
{
    (void)state;
    static const struct embed_file COMMITS[] = {
        FILE_OF("a/001_one.sql",
                "CREATE TABLE one (n bigint); COMMIT; CREATE TABLE two (n bigint);"),
        END};
    static const struct embed_file ROLLS_BACK[] = {
        FILE_OF("a/001_one.sql", "CREATE TABLE other (n bigint); ROLLBACK;"), END};
    struct pg *c = empty_database();
    assert_refused(c, COMMITS, RC_FATAL, "a/001_one.sql", "COMMIT");
    assert_int_equal(ask(c, "SELECT count(*) FROM pg_tables WHERE tablename IN ('one', 'two')"), 0);
    assert_refused(c, ROLLS_BACK, RC_FATAL, "a/001_one.sql", "ROLLBACK");
    assert_int_equal(ask(c, "SELECT count(*) FROM schema_migrations"), 0);
    pg_free(c);
}

static void changed_functions_are_replaced_and_others_left_alone(void **state)
{
    (void)state;
#define FUNCTION(name, body) \
    "CREATE OR REPLACE FUNCTION " name "() RETURNS bigint LANGUAGE sql AS $$ SELECT " body " $$;"
    /* f calls g, whose file comes later. */
    static const struct embed_file BEFORE[] = {
        FILE_OF("a/001_one.sql", ONE), FILE_OF("a/functions/f.sql", FUNCTION("f", "g() + 1")),
        FILE_OF("a/functions/g.sql", FUNCTION("g", "1::bigint")), END};
    static const struct embed_file AFTER[] = {
        FILE_OF("a/001_one.sql", ONE), FILE_OF("a/functions/f.sql", FUNCTION("f", "g() + 1")),
        FILE_OF("a/functions/g.sql", FUNCTION("g", "10::bigint")), END};
    static const struct embed_file BROKEN[] = {
        FILE_OF("a/001_one.sql", ONE), FILE_OF("a/functions/f.sql", FUNCTION("f", "g() + 2")),
        FILE_OF("a/functions/g.sql", "CREATE OR REPLACE NONSENSE"), END};
#undef FUNCTION
    struct pg *c = empty_database();
    struct tally t = run_well(c, BEFORE);
    assert_int_equal(t.done, 3);
    assert_int_equal(ask(c, "SELECT f()"), 2);
    t = run_well(c, AFTER);
    assert_string_equal(t.names, "a/functions/g.sql ");
    assert_int_equal(t.old, 2);
    assert_int_equal(ask(c, "SELECT f()"), 11);
    assert_refused(c, BROKEN, RC_FATAL, "a/functions/g.sql", "a/functions/g.sql:1:");
    assert_int_equal(ask(c, "SELECT f()"), 11); /* all of a set, or none */
    t = run_well(c, BEFORE);
    assert_string_equal(t.names, "a/functions/g.sql ");
    pg_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(applies_files_in_order_and_only_once),
        cmocka_unit_test(a_dry_run_looks_and_writes_nothing),
        cmocka_unit_test(many_at_once_apply_each_file_once),
        cmocka_unit_test(waits_only_so_long_for_another_run),
        cmocka_unit_test(refuses_a_file_that_changed_after_it_was_applied),
        cmocka_unit_test(refuses_gaps_and_numbers_used_twice),
        cmocka_unit_test(refuses_a_database_newer_than_the_program),
        cmocka_unit_test(refuses_a_file_that_comes_late),
        cmocka_unit_test(a_failing_file_leaves_nothing_and_says_where),
        cmocka_unit_test(refuses_a_file_that_ends_its_own_transaction),
        cmocka_unit_test(changed_functions_are_replaced_and_others_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

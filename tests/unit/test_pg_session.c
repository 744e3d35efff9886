/* Defaults, and passwords that stay where they are. */
#include "check.h"

#include <string.h>

#include "runtime/fault.h"
#include "runtime/pg_session.h"

static void a_target_shows_no_user_and_no_password(void **state)
{
    (void)state;
    struct pg_session s,
        from = {.uri = "postgresql://bob:hunter2@db.example:6000/ticket_db?application_name=x"};
    char target[128];
    assert_int_equal(pg_session_init(&s, &from, NULL), 0);
    pg_session_target(&s, target, sizeof target);
    assert_string_equal(target, "db.example:6000/ticket_db");
    pg_session_done(&s);
}

static void an_unreadable_url_is_refused_without_being_repeated(void **state)
{
    (void)state;
    static const char *const BAD[] = {"postgresql://bob:hunter2%zz@host/db",
                                      "postgresql://bob:hunter2@host:port:/db?hunter2",
                                      "postgresql://bob@host/db?password=hunter2=1", "hunter2"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct pg_session s, from = {.uri = BAD[i]};
        struct fault f = {0};
        assert_int_equal(pg_session_init(&s, &from, &f), RC_FATAL);
        assert_null(strstr(f.text, "hunter2"));
    }
}

static void patience_is_longer_than_the_servers_and_never_endless(void **state)
{
    (void)state;
    struct pg_session s, from = {.uri = "postgresql://host/db"};
    assert_int_equal(pg_session_init(&s, &from, NULL), 0);
    assert_int_equal(s.statement_timeout_ms, 30000);
    assert_int_equal(s.reply_timeout_ms, 35000);
    pg_session_done(&s);
    from.statement_timeout_ms = -1;
    assert_int_equal(pg_session_init(&s, &from, NULL), 0);
    assert_int_equal(s.statement_timeout_ms, 0);
    assert_int_equal(s.reply_timeout_ms, 600000);
    pg_session_done(&s);
    from = pg_session_http("postgresql://host/db", "x");
    assert_int_equal(from.lock_timeout_ms, 1000);
    assert_int_equal(from.statement_timeout_ms, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_shows_no_user_and_no_password),
        cmocka_unit_test(an_unreadable_url_is_refused_without_being_repeated),
        cmocka_unit_test(patience_is_longer_than_the_servers_and_never_endless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

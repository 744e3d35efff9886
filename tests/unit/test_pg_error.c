/* SQLSTATEs fall into the class that says what to do next. */
#include "check.h"

#include "runtime/fault.h"
#include "runtime/pg_error.h"

static void expect(const char *const *states, enum pg_class class, int rc)
{
    for (; *states; states++) {
        if (pg_error_class(*states) != class)
            print_error("%s is %s\n", *states, pg_error_name(pg_error_class(*states)));
        assert_int_equal(pg_error_class(*states), class);
    }
    assert_int_equal(pg_error_rc(class), rc);
}

static void lost_races_may_be_run_again(void **state)
{
    (void)state;
    expect((const char *[]){"40001", "40P01", "55P03", "57014", "25P02", "25P03", "26000", NULL},
           PG_CLASS_CONFLICT, RC_RETRY);
}

static void a_server_away_or_full_blames_no_input(void **state)
{
    (void)state;
    expect((const char *[]){"08006", "08001", "57P01", "57P02", "57P03", "53100", "53200", "53300",
                            "58030", "25006", "", NULL},
           PG_CLASS_AWAY, RC_RETRY);
    assert_int_equal(pg_error_class(NULL), PG_CLASS_AWAY);
}

static void bad_input_is_rejected(void **state)
{
    (void)state;
    expect((const char *[]){"22P02", "22003", "23505", "23514", "23503", "21000", "P0001", "40002",
                            "54000", NULL},
           PG_CLASS_DATA, RC_REJECT);
}

static void a_wrong_schema_right_or_password_is_fatal(void **state)
{
    (void)state;
    expect((const char *[]){"42P01", "42501", "28P01", "3D000", "57P04", "XX001", "ZZZZZ", NULL},
           PG_CLASS_BROKEN, RC_FATAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_races_may_be_run_again),
        cmocka_unit_test(a_server_away_or_full_blames_no_input),
        cmocka_unit_test(bad_input_is_rejected),
        cmocka_unit_test(a_wrong_schema_right_or_password_is_fatal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

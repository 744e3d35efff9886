/* The planted fault is for test builds: this is the file as a release build compiles it. */
#include "check.h"

#include <stdlib.h>

#undef URR_TEST_HOOKS
#include "consumers/ticket/ticket_planted.c" /* NOLINT(bugprone-suspicious-include) */

static void a_release_build_refuses_the_planted_fault(void **state)
{
    (void)state;
    struct ticket_planted *p = NULL;
    struct fault f = {0};
    assert_int_equal(setenv("URR_TEST_PUBLISH_BEFORE_COMMIT", "1", 1), 0);
    assert_int_equal(ticket_planted_open("postgresql://127.0.0.1:1/none", &p, &f), RC_FATAL);
    assert_null(p);
    assert_non_null(strstr(f.text, "URR_TEST_PUBLISH_BEFORE_COMMIT"));
    /* "0" is no way around it: who sets it expects a test build. */
    assert_int_equal(setenv("URR_TEST_PUBLISH_BEFORE_COMMIT", "0", 1), 0);
    assert_int_equal(ticket_planted_open("postgresql://127.0.0.1:1/none", &p, &f), RC_FATAL);
    assert_int_equal(ticket_planted_publish(NULL, NULL, &f), RC_FATAL);
}

static void without_the_flag_it_plants_nothing(void **state)
{
    (void)state;
    struct ticket_planted *p = NULL;
    assert_int_equal(unsetenv("URR_TEST_PUBLISH_BEFORE_COMMIT"), 0);
    assert_int_equal(ticket_planted_open("postgresql://127.0.0.1:1/none", &p, NULL), 0);
    assert_null(p);
    ticket_planted_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_build_refuses_the_planted_fault),
        cmocka_unit_test(without_the_flag_it_plants_nothing),
    };
    return cmocka_run_group_tests_name("ticket_planted", tests, NULL, NULL);
}

#include "check.h"

#include <string.h>

#include "runtime/fault.h"

static void says_what_to_do_next(void **state)
{
    (void)state;
    struct fault f = {0};
    assert_int_equal(fault_set(&f, RC_RETRY, "server %s is away", "a"), RC_RETRY);
    assert_int_equal(f.rc, RC_RETRY);
    assert_string_equal(f.text, "server a is away");
    assert_int_equal(fault_wrap(&f, "batch %d", 7), RC_RETRY);
    assert_string_equal(f.text, "batch 7: server a is away");
}

static void cuts_text_that_does_not_fit(void **state)
{
    (void)state;
    struct fault f = {0};
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)fault_set(&f, RC_FATAL, "%s", text);
    (void)fault_wrap(&f, "%s", text);
    assert_int_equal(strlen(f.text), sizeof f.text - 1);
}

static void accepts_a_caller_who_does_not_care(void **state)
{
    (void)state;
    assert_int_equal(fault_set(NULL, RC_REJECT, "x"), RC_REJECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_to_do_next),
        cmocka_unit_test(cuts_text_that_does_not_fit),
        cmocka_unit_test(accepts_a_caller_who_does_not_care),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}

#include "check.h"

#include <stdio.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/id.h"

static void makes_version_7_of_the_given_time(void **state)
{
    (void)state;
    char id[ID_UUID_LEN + 1];
    unsigned char bytes[16];
    id_new_at(INT64_C(0x0192abcdef01), id);
    assert_memory_equal(id, "0192abcd-ef01-7", 15);
    assert_non_null(strchr("89ab", id[19]));
    assert_int_equal(id_parse(id, bytes), 0);
    char again[ID_UUID_LEN + 1];
    id_format(bytes, again);
    assert_string_equal(again, id);
}

static void ascends_within_a_millisecond_and_past_its_counter(void **state)
{
    (void)state;
    char last[ID_UUID_LEN + 1] = "", id[ID_UUID_LEN + 1];
    for (int i = 0; i < 20000; i++) {
        id_new_at(INT64_C(1900000000000), id);
        assert_true(strcmp(last, id) < 0);
        memcpy(last, id, sizeof id);
    }
}

static void ascends_when_the_clock_steps_back(void **state)
{
    (void)state;
    char a[ID_UUID_LEN + 1], b[ID_UUID_LEN + 1];
    id_new_at(INT64_C(2000000000000), a);
    id_new_at(INT64_C(1000000000000), b);
    assert_true(strcmp(a, b) < 0);
}

static void knows_a_uuid_from_what_looks_like_one(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "0192abcd-ef01-7000-8000-00000000000",
                                      "0192abcd-ef01-7000-8000-0000000000000",
                                      "0192abcdef01-7000-8000-000000000000-",
                                      "0192abcd-ef01-7000-8000-00000000000g",
                                      "{192abcd-ef01-7000-8000-00000000000}",
                                      "0192abcd_ef01_7000_8000_000000000000",
                                      " 192abcd-ef01-7000-8000-000000000000"};
    unsigned char out[16];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(id_parse(bad[i], out), RC_REJECT);
    assert_false(id_is_uuid(NULL));
    assert_true(id_is_uuid("0192ABCD-ef01-7000-8000-00000000000F"));
}

static void takes_only_request_ids_that_are_safe_everywhere(void **state)
{
    (void)state;
    char long_id[66];
    memset(long_id, 'a', 65);
    long_id[65] = '\0';
    assert_false(id_is_request_id(long_id));
    assert_true(id_is_request_id(long_id + 1));
    assert_true(id_is_request_id("Req-1.2_3"));
    assert_false(id_is_request_id(""));
    assert_false(id_is_request_id(NULL));
    assert_false(id_is_request_id("a b"));
    assert_false(id_is_request_id("a\r\nX: y"));
    assert_false(id_is_request_id("../etc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_version_7_of_the_given_time),
        cmocka_unit_test(ascends_within_a_millisecond_and_past_its_counter),
        cmocka_unit_test(ascends_when_the_clock_steps_back),
        cmocka_unit_test(knows_a_uuid_from_what_looks_like_one),
        cmocka_unit_test(takes_only_request_ids_that_are_safe_everywhere),
    };
    return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}

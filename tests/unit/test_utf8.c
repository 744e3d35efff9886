#include "check.h"

#include <string.h>

#include "runtime/utf8.h"

static void knows_well_formed_from_broken(void **state)
{
    (void)state;
    static const char *const good[] = {"", "plain", "é", "한", "🎫", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",         "\xc1\x81", "\xe0\x80\x80",
                                      "\xed\xbf\xbf", "\xe2\x82", "\xf5\x80\x80\x80",
                                      "\xf0\x80\x80", "a\xff"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(utf8_valid(bad[i], strlen(bad[i])));
}

static void never_cuts_a_character(void **state)
{
    (void)state;
    assert_int_equal(utf8_prefix("a한b", 5, 3), 1);
    assert_int_equal(utf8_prefix("a한b", 5, 4), 4);
    assert_int_equal(utf8_prefix("a한b", 5, 9), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_well_formed_from_broken),
        cmocka_unit_test(never_cuts_a_character),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}

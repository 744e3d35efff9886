/* What a visitor of the first room is told about the wait. */
#include "check.h"

#include "queue-core/advancer.h"
#include "queue-core/room.h"
#include "queue-core/vwr_api.h"

static void those_far_behind_ask_less_often(void **state)
{
    (void)state;
    static const int64_t steps[][2] = {{-5, 2},     {0, 2},      {500, 2},
                                       {501, 5},    {2000, 5},   {2001, 10},
                                       {10000, 10}, {10001, 15}, {1000000, 15}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        assert_int_equal(vwr_api_next_poll_s(steps[i][0]), steps[i][1]);
}

static void the_wait_is_rounded_up_and_never_negative(void **state)
{
    (void)state;
    assert_int_equal(vwr_api_wait_s(100, 0, 50), 2);
    assert_int_equal(vwr_api_wait_s(101, 0, 50), 3);
    assert_int_equal(vwr_api_wait_s(1, 0, 50), 1);
    assert_int_equal(vwr_api_wait_s(7, 7, 50), 0);
    assert_int_equal(vwr_api_wait_s(7, 9, 50), 0);
    assert_int_equal(vwr_api_wait_s(1000000, 0, 0.5), 2000000);
}

static void the_pace_is_the_settings_until_it_is_measured(void **state)
{
    (void)state;
    struct room_rules rules = ROOM_RULES;
    assert_true(advancer_rate(&rules) == 50);
    rules.vwr_batch = 0;
    assert_true(advancer_rate(&rules) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_far_behind_ask_less_often),
        cmocka_unit_test(the_wait_is_rounded_up_and_never_negative),
        cmocka_unit_test(the_pace_is_the_settings_until_it_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "check.h"

#include "runtime/backoff.h"

static void doubles_until_its_maximum(void **state)
{
    (void)state;
    const int64_t steps[] = {500, 1000, 2000, 4000, 5000, 5000};
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        /* `random` picks from step/2 .. step: 0 is the lowest, step - step/2 the highest. */
        int64_t half = steps[i] / 2;
        assert_int_equal(backoff_delay_ms(500, 5000, i, 0), half);
        assert_int_equal(backoff_delay_ms(500, 5000, i, (uint64_t)(steps[i] - half)), steps[i]);
    }
}

static void never_leaves_its_bounds(void **state)
{
    (void)state;
    struct backoff b;
    backoff_init(&b, 50, 2000, 42);
    int64_t step = 50;
    for (int i = 0; i < 1000; i++) {
        int64_t delay = backoff_next_ms(&b);
        assert_in_range(delay, step / 2, step);
        step = step * 2 > 2000 ? 2000 : step * 2;
    }
}

static void survives_numbers_that_would_overflow(void **state)
{
    (void)state;
    assert_in_range(backoff_delay_ms(1, INT64_MAX, UINT32_MAX, UINT64_MAX), INT64_MAX / 2,
                    INT64_MAX);
    struct backoff b;
    backoff_init(&b, -5, -7, 1);
    assert_in_range(backoff_next_ms(&b), 0, 1);
}

static void a_reset_starts_from_the_first_step(void **state)
{
    (void)state;
    struct backoff b;
    backoff_init(&b, 100, 100000, 7);
    for (int i = 0; i < 10; i++)
        (void)backoff_next_ms(&b);
    backoff_reset(&b);
    assert_in_range(backoff_next_ms(&b), 50, 100);
}

static void the_same_seed_gives_the_same_delays(void **state)
{
    (void)state;
    struct backoff a, b, c;
    backoff_init(&a, 1000, 1000, 99);
    backoff_init(&b, 1000, 1000, 99);
    backoff_init(&c, 1000, 1000, 100);
    int differ = 0;
    for (int i = 0; i < 50; i++) {
        int64_t first = backoff_next_ms(&a);
        assert_int_equal(first, backoff_next_ms(&b));
        differ += first != backoff_next_ms(&c);
    }
    assert_true(differ > 40);
}

static void clients_without_a_seed_do_not_march_in_step(void **state)
{
    (void)state;
    int differ = 0;
    for (int i = 0; i < 20; i++) {
        struct backoff a, b;
        backoff_init(&a, 1000000, 1000000, 0);
        backoff_init(&b, 1000000, 1000000, 0);
        differ += backoff_next_ms(&a) != backoff_next_ms(&b);
    }
    assert_true(differ >= 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_until_its_maximum),
        cmocka_unit_test(never_leaves_its_bounds),
        cmocka_unit_test(survives_numbers_that_would_overflow),
        cmocka_unit_test(a_reset_starts_from_the_first_step),
        cmocka_unit_test(the_same_seed_gives_the_same_delays),
        cmocka_unit_test(clients_without_a_seed_do_not_march_in_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

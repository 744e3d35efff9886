/* Percentiles of a histogram against a sorted list. */
#include "check.h"

#include <stdlib.h>

#include "runtime/histogram.h"

static void is_empty_at_first(void **state)
{
    (void)state;
    struct histogram h = {0};
    assert_int_equal(histogram_percentile(&h, 99), 0);
    assert_true(histogram_mean(&h) == 0);
}

static void small_values_are_exact(void **state)
{
    (void)state;
    struct histogram h = {0};
    for (int i = 1; i <= 60; i++)
        histogram_add(&h, i);
    assert_int_equal(histogram_percentile(&h, 50), 30);
    assert_int_equal(histogram_percentile(&h, 95), 57);
    assert_int_equal(histogram_percentile(&h, 100), 60);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void percentiles_are_within_two_in_a_hundred_of_the_truth(void **state)
{
    (void)state;
    enum { N = 20000 };
    static int64_t values[N];
    static struct histogram h;
    uint64_t x = 88172645463325252U;
    for (int i = 0; i < N; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        values[i] = (int64_t)(x % 1000) << (x % 25);
        histogram_add(&h, values[i]);
    }
    qsort(values, N, sizeof values[0], by_value);
    const double percents[] = {1, 50, 90, 95, 99, 99.9};
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        int64_t truth = values[(int)(N * percents[i] / 100.0) - 1];
        int64_t told = histogram_percentile(&h, percents[i]);
        assert_true(told >= truth && (double)told <= (double)truth * 1.02 + 1);
    }
}

static void values_out_of_bounds_count_at_the_bounds(void **state)
{
    (void)state;
    struct histogram h = {0};
    histogram_add(&h, -5);
    histogram_add(&h, INT64_MAX);
    assert_int_equal(histogram_percentile(&h, 50), 0);
    assert_int_equal(histogram_percentile(&h, 100), HISTOGRAM_MAX);
}

static void two_merge_into_what_one_would_hold(void **state)
{
    (void)state;
    struct histogram a = {0}, b = {0}, both = {0};
    for (int i = 0; i < 500; i++) {
        histogram_add(i % 2 ? &a : &b, i * 97);
        histogram_add(&both, i * 97);
    }
    histogram_merge(&a, &b);
    assert_memory_equal(&a, &both, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_empty_at_first),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(percentiles_are_within_two_in_a_hundred_of_the_truth),
        cmocka_unit_test(values_out_of_bounds_count_at_the_bounds),
        cmocka_unit_test(two_merge_into_what_one_would_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a crowd can prove from answers, and what it must not claim. */
#include "check.h"

#include "crowd/fairness.h"
#include "runtime/fault.h"

enum { SECOND = 1000000, PRESENT = 5 * SECOND };

static struct fairness *fair;
static struct fair_user a, b;

static int begin(void **state)
{
    (void)state;
    struct fault f = {0};
    a = (struct fair_user){.score = 10};
    b = (struct fair_user){.score = 20};
    return fairness_new(100, PRESENT, &fair, &f);
}

static int end(void **state)
{
    (void)state;
    fairness_free(fair);
    return 0;
}

static int64_t inversions(void)
{
    struct fair_report r;
    fairness_report(fair, &a, sizeof a, 1, &r);
    return r.inversions;
}

/* Both wait; b is let in; a asks again at `sent`. */
static bool b_passes_a(int64_t a_asks_at)
{
    (void)fairness_waits(fair, &a, 1, 2, true);
    (void)fairness_waits(fair, &b, 3, 4, true);
    fairness_enters(fair, &b, 10, 20, 0, 0);
    return fairness_waits(fair, &a, a_asks_at, a_asks_at + 5, true);
}

static void an_overtaken_user_is_counted_once(void **state)
{
    (void)state;
    assert_true(b_passes_a(30));
    assert_false(fairness_waits(fair, &a, 40, 45, true));
    assert_int_equal(inversions(), 1);
}

static void a_question_sent_before_the_other_was_told_proves_nothing(void **state)
{
    (void)state;
    assert_false(b_passes_a(15));
    assert_int_equal(inversions(), 0);
}

static void who_came_after_the_other_was_let_in_was_not_overtaken(void **state)
{
    (void)state;
    (void)fairness_waits(fair, &b, 1, 2, true);
    fairness_enters(fair, &b, 10, 20, 0, 0);
    (void)fairness_waits(fair, &a, 21, 22, true); /* a smaller number of Tier 1, brought late */
    assert_false(fairness_waits(fair, &a, 30, 31, true));
    assert_int_equal(inversions(), 0);
}

static void who_was_silent_may_have_been_parked(void **state)
{
    (void)state;
    (void)fairness_waits(fair, &a, 1, 2, true);
    (void)fairness_waits(fair, &b, 3, 4, true);
    fairness_enters(fair, &b, 10, 20, 0, 0);
    assert_false(fairness_waits(fair, &a, 2 * PRESENT, 2 * PRESENT + 1, true));
    fairness_silent(&a);
    assert_false(fairness_waits(fair, &a, 2 * PRESENT + 2, 2 * PRESENT + 3, true));
    assert_int_equal(inversions(), 0);
}

static void order_among_those_let_in_rightly_is_no_inversion(void **state)
{
    (void)state;
    (void)fairness_waits(fair, &a, 1, 2, true);
    (void)fairness_waits(fair, &b, 3, 4, true);
    fairness_enters(fair, &a, 10, 20, 0, 0);
    assert_false(fairness_waits(fair, &b, 30, 31, true));
    fairness_enters(fair, &b, 40, 41, 0, 0);
    assert_int_equal(inversions(), 0);
}

static void a_stream_only_raises_a_suspicion(void **state)
{
    (void)state;
    (void)fairness_waits(fair, &a, 1, 2, true);
    (void)fairness_waits(fair, &b, 3, 4, true);
    fairness_enters(fair, &b, 10, 20, 0, 0);
    assert_true(fairness_waits(fair, &a, 30, 30, false));
    assert_int_equal(inversions(), 0);
    assert_true(fairness_waits(fair, &a, 31, 35, true));
    assert_int_equal(inversions(), 1);
}

static void too_many_inside_is_an_overshoot(void **state)
{
    (void)state;
    struct fair_report r;
    struct fair_user users[3] = {{.score = 1}, {.score = 2}, {.score = 3}};
    fairness_threshold(fair, 2);
    fairness_enters(fair, &users[0], 1, 2, 0, 0);
    fairness_enters(fair, &users[1], 1, 2, 0, 0);
    fairness_leaves(fair, &users[0]);
    fairness_enters(fair, &users[2], 1, 2, 0, 0);
    fairness_report(fair, users, sizeof users[0], 3, &r);
    assert_int_equal(r.overshoot, 0);
    fairness_enters(fair, &users[0], 1, 2, 0, 0);
    fairness_report(fair, users, sizeof users[0], 3, &r);
    assert_int_equal(r.overshoot, 1);
    assert_int_equal(r.peak_inside, 3);
}

static void a_shared_place_is_found(void **state)
{
    (void)state;
    struct fair_report r;
    struct fair_user users[4] = {{.score = 5}, {.score = 6}, {.score = 5}, {0}};
    fairness_report(fair, users, sizeof users[0], 4, &r);
    assert_int_equal(r.doubles, 1);
}

static void a_place_tells_its_number(void **state)
{
    (void)state;
    assert_true(fairness_score("p.2.zz.abc.MAC") == 2 * (INT64_C(1) << 33) + 35 * 36 + 35);
    assert_true(fairness_score("p.0.1.1.x") == 1);
    assert_true(fairness_score("") == 0);
    assert_true(fairness_score("nonsense") == 0);
    assert_true(fairness_score("p.2") == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_overtaken_user_is_counted_once),
        TEST(a_question_sent_before_the_other_was_told_proves_nothing),
        TEST(who_came_after_the_other_was_let_in_was_not_overtaken),
        TEST(who_was_silent_may_have_been_parked),
        TEST(order_among_those_let_in_rightly_is_no_inversion),
        TEST(a_stream_only_raises_a_suspicion),
        TEST(too_many_inside_is_an_overshoot),
        TEST(a_shared_place_is_found),
        TEST(a_place_tells_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

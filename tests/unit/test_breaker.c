#include "check.h"

#include "runtime/breaker.h"

static struct breaker fresh(const struct breaker_rules *rules)
{
    struct breaker b;
    breaker_init(&b, rules);
    return b;
}

static void call(struct breaker *b, enum breaker_outcome outcome, int64_t took_ms, int64_t now_ms)
{
    uint32_t ticket = breaker_enter(b, now_ms);
    assert_int_not_equal(ticket, 0);
    breaker_leave(b, ticket, outcome, took_ms, now_ms);
}

static void calls(struct breaker *b, int n, enum breaker_outcome outcome, int64_t took_ms)
{
    for (int i = 0; i < n; i++)
        call(b, outcome, took_ms, 0);
}

/* Opened at 0, so closed to calls until 10,000. */
static struct breaker opened(const struct breaker_rules *rules)
{
    struct breaker b = fresh(rules);
    calls(&b, 10, BREAKER_NO_CONNECTION, 1);
    assert_int_equal(breaker_state(&b, 0), BREAKER_OPEN);
    return b;
}

static void opens_at_half_of_ten_calls_failed(void **state)
{
    (void)state;
    struct breaker b = fresh(&BREAKER_RULES);
    calls(&b, 5, BREAKER_OK, 1);
    calls(&b, 4, BREAKER_FAILED, 1);
    assert_int_equal(breaker_state(&b, 0), BREAKER_CLOSED);
    call(&b, BREAKER_FAILED, 1, 0);
    assert_int_equal(breaker_state(&b, 0), BREAKER_OPEN);
    assert_int_equal(b.opened, 1);
}

static void stays_closed_at_four_of_ten(void **state)
{
    (void)state;
    struct breaker b = fresh(&BREAKER_RULES);
    for (int i = 0; i < 100; i++)
        call(&b, i % 10 < 4 ? BREAKER_FAILED : BREAKER_OK, 1, i);
    assert_int_equal(breaker_state(&b, 100), BREAKER_CLOSED);
}

static void gives_no_verdict_before_the_window_is_full(void **state)
{
    (void)state;
    struct breaker b = fresh(&BREAKER_RULES);
    calls(&b, 9, BREAKER_FAILED, 1);
    assert_int_equal(breaker_state(&b, 0), BREAKER_CLOSED);
}

static void forgets_failures_older_than_the_window(void **state)
{
    (void)state;
    struct breaker b = fresh(&BREAKER_RULES);
    calls(&b, 4, BREAKER_FAILED, 1);
    calls(&b, 10, BREAKER_OK, 1);
    calls(&b, 4, BREAKER_FAILED, 1);
    assert_int_equal(breaker_state(&b, 0), BREAKER_CLOSED);
}

static void opens_when_eight_of_ten_are_slower_than_three_seconds(void **state)
{
    (void)state;
    struct breaker b = fresh(&BREAKER_RULES);
    calls(&b, 2, BREAKER_OK, 3000);
    calls(&b, 7, BREAKER_OK, 3001);
    calls(&b, 1, BREAKER_OK, 3000); /* exactly the limit is not slower than it */
    assert_int_equal(breaker_state(&b, 0), BREAKER_CLOSED);
    calls(&b, 1, BREAKER_OK, 3001);
    assert_int_equal(breaker_state(&b, 0), BREAKER_OPEN);
}

static void refuses_for_ten_seconds_then_lets_three_trials_pass(void **state)
{
    (void)state;
    struct breaker b = opened(&BREAKER_RULES);
    assert_int_equal(breaker_enter(&b, 9999), 0);
    assert_int_equal(breaker_wait_ms(&b, 9000), 1000);
    assert_int_equal(breaker_state(&b, 10000), BREAKER_HALF_OPEN);
    uint32_t tickets[3];
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(tickets[i] = breaker_enter(&b, 10000), 0);
    assert_int_equal(breaker_enter(&b, 10000), 0);
    for (int i = 0; i < 3; i++)
        breaker_leave(&b, tickets[i], BREAKER_OK, 1, 10001);
    assert_int_equal(breaker_state(&b, 10001), BREAKER_CLOSED);
    assert_int_equal(breaker_wait_ms(&b, 10001), 0);
}

static void trials_that_fail_open_it_for_another_ten_seconds(void **state)
{
    (void)state;
    struct breaker b = opened(&BREAKER_RULES);
    call(&b, BREAKER_OK, 1, 10000);
    call(&b, BREAKER_FAILED, 1, 10100);
    call(&b, BREAKER_FAILED, 1, 10200);
    assert_int_equal(breaker_state(&b, 20199), BREAKER_OPEN);
    assert_int_equal(breaker_state(&b, 20200), BREAKER_HALF_OPEN);
    assert_int_equal(b.opened, 2);
}

static void slow_trials_open_it_again(void **state)
{
    (void)state;
    struct breaker b = opened(&BREAKER_RULES);
    for (int i = 0; i < 3; i++)
        call(&b, BREAKER_OK, 5000, 10000);
    assert_int_equal(breaker_state(&b, 10000), BREAKER_OPEN);
}

static void a_result_from_before_it_opened_is_no_trial(void **state)
{
    (void)state;
    struct breaker b = fresh(&BREAKER_RULES);
    uint32_t old = breaker_enter(&b, 0);
    calls(&b, 10, BREAKER_FAILED, 1);
    call(&b, BREAKER_OK, 1, 10000);
    call(&b, BREAKER_OK, 1, 10000);
    breaker_leave(&b, old, BREAKER_OK, 1, 10000);
    assert_int_equal(breaker_state(&b, 10000), BREAKER_HALF_OPEN);
    call(&b, BREAKER_OK, 1, 10000);
    assert_int_equal(breaker_state(&b, 10000), BREAKER_CLOSED);
    breaker_leave(&b, old, BREAKER_FAILED, 1, 10000);
    assert_int_equal(b.failures, 0);
}

static void a_cancelled_trial_is_given_back(void **state)
{
    (void)state;
    struct breaker b = opened(&BREAKER_RULES);
    for (int i = 0; i < 20; i++)
        call(&b, BREAKER_CANCELLED, 1, 10000);
    for (int i = 0; i < 3; i++)
        call(&b, BREAKER_OK, 1, 10000);
    assert_int_equal(breaker_state(&b, 10000), BREAKER_CLOSED);
}

static void counts_only_connection_failures_where_told(void **state)
{
    (void)state;
    struct breaker b = fresh(&BREAKER_CONNECTION_RULES);
    calls(&b, 30, BREAKER_FAILED, 60000);
    assert_int_equal(breaker_state(&b, 0), BREAKER_CLOSED);
    calls(&b, 5, BREAKER_NO_CONNECTION, 1);
    assert_int_equal(breaker_state(&b, 0), BREAKER_OPEN);
}

static void closes_at_once_on_proof_of_health(void **state)
{
    (void)state;
    struct breaker b = opened(&BREAKER_CONNECTION_RULES);
    breaker_close(&b);
    assert_int_equal(breaker_state(&b, 1), BREAKER_CLOSED);
    calls(&b, 9, BREAKER_NO_CONNECTION, 1); /* the window began anew */
    assert_int_equal(breaker_state(&b, 1), BREAKER_CLOSED);
}

static void brings_absurd_rules_into_range(void **state)
{
    (void)state;
    struct breaker b = fresh(&(struct breaker_rules){.window = 0, .trials = 900, .open_ms = 1});
    call(&b, BREAKER_OK, 0, 0);
    assert_int_equal(breaker_state(&b, 0), BREAKER_CLOSED);
    call(&b, BREAKER_FAILED, 0, 0);
    assert_int_equal(breaker_state(&b, 0), BREAKER_OPEN);
    call(&b, BREAKER_OK, 0, 5);
    assert_int_equal(breaker_state(&b, 5), BREAKER_CLOSED);
    b = fresh(&(struct breaker_rules){.window = 5000, .failure_percent = 500, .slow_percent = 500});
    assert_int_equal(b.rules.window, BREAKER_MAX_WINDOW);
}

static void names_its_states(void **state)
{
    (void)state;
    assert_string_equal(breaker_state_name(BREAKER_CLOSED), "closed");
    assert_string_equal(breaker_state_name(BREAKER_HALF_OPEN), "half_open");
    assert_string_equal(breaker_state_name(BREAKER_OPEN), "open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_at_half_of_ten_calls_failed),
        cmocka_unit_test(stays_closed_at_four_of_ten),
        cmocka_unit_test(gives_no_verdict_before_the_window_is_full),
        cmocka_unit_test(forgets_failures_older_than_the_window),
        cmocka_unit_test(opens_when_eight_of_ten_are_slower_than_three_seconds),
        cmocka_unit_test(refuses_for_ten_seconds_then_lets_three_trials_pass),
        cmocka_unit_test(trials_that_fail_open_it_for_another_ten_seconds),
        cmocka_unit_test(slow_trials_open_it_again),
        cmocka_unit_test(a_result_from_before_it_opened_is_no_trial),
        cmocka_unit_test(a_cancelled_trial_is_given_back),
        cmocka_unit_test(counts_only_connection_failures_where_told),
        cmocka_unit_test(closes_at_once_on_proof_of_health),
        cmocka_unit_test(brings_absurd_rules_into_range),
        cmocka_unit_test(names_its_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "check.h"

#include <stdio.h>
#include <string.h>

#include "consumers/stats/answer_cache.h"
#include "runtime/fault.h"

struct told {
    int times;
    int status;
    char body[32];
};

static void deliver(void *waiter, int status, const char *body, size_t len)
{
    struct told *t = waiter;
    t->times++;
    t->status = status;
    (void)snprintf(t->body, sizeof t->body, "%.*s", (int)len, body);
}

static struct answer_cache *make(size_t entries)
{
    struct answer_cache *c = NULL;
    struct fault f;
    assert_int_equal(answer_cache_new(entries, 1000, deliver, &c, &f), 0);
    return c;
}

static void callers_of_one_question_share_one_look_up(void **state)
{
    (void)state;
    struct answer_cache *c = make(4);
    struct told a = {0}, b = {0}, late = {0};
    assert_int_equal(answer_cache_ask(c, "daily", 0, &a), ANSWER_LOAD);
    assert_int_equal(answer_cache_ask(c, "daily", 5, &b), ANSWER_JOINED);
    answer_cache_fill(c, "daily", 10, 200, "{}", 2);
    assert_int_equal(a.times, 1);
    assert_int_equal(b.times, 1);
    assert_string_equal(b.body, "{}");
    assert_int_equal(answer_cache_ask(c, "daily", 1009, &late), ANSWER_GIVEN);
    assert_string_equal(late.body, "{}");
    answer_cache_free(c);
}

static void an_answer_is_looked_up_again_after_its_time(void **state)
{
    (void)state;
    struct answer_cache *c = make(4);
    struct told a = {0};
    assert_int_equal(answer_cache_ask(c, "daily", 0, &a), ANSWER_LOAD);
    answer_cache_fill(c, "daily", 0, 200, "1", 1);
    assert_int_equal(answer_cache_ask(c, "daily", 1000, &a), ANSWER_LOAD);
    answer_cache_fill(c, "daily", 1000, 200, "2", 1);
    assert_string_equal(a.body, "2");
    answer_cache_free(c);
}

static void a_failure_reaches_its_waiters_and_is_not_kept(void **state)
{
    (void)state;
    struct answer_cache *c = make(4);
    struct told a = {0};
    assert_int_equal(answer_cache_ask(c, "daily", 0, &a), ANSWER_LOAD);
    answer_cache_fill(c, "daily", 0, 503, "away", 4);
    assert_int_equal(a.status, 503);
    assert_int_equal(answer_cache_ask(c, "daily", 1, &a), ANSWER_LOAD);
    answer_cache_free(c);
    assert_int_equal(a.times, 2); /* free() told the second wait */
}

static void stale_answers_make_room_and_fresh_ones_stay(void **state)
{
    (void)state;
    struct answer_cache *c = make(2);
    struct told a = {0};
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "b" : "a";
        assert_int_equal(answer_cache_ask(c, key, 0, &a), ANSWER_LOAD);
        answer_cache_fill(c, key, 0, 200, key, 1);
    }
    assert_int_equal(answer_cache_ask(c, "c", 500, &a), ANSWER_BUSY);
    assert_int_equal(answer_cache_ask(c, "c", 1001, &a), ANSWER_LOAD);
    answer_cache_free(c);
}

static void waiters_and_keys_are_bounded(void **state)
{
    (void)state;
    struct answer_cache *c = make(2);
    static struct told many[ANSWER_CACHE_MAX_WAITERS + 1];
    assert_int_equal(answer_cache_ask(c, "a", 0, &many[0]), ANSWER_LOAD);
    for (int i = 1; i < ANSWER_CACHE_MAX_WAITERS; i++)
        assert_int_equal(answer_cache_ask(c, "a", 0, &many[i]), ANSWER_JOINED);
    assert_int_equal(answer_cache_ask(c, "a", 0, &many[ANSWER_CACHE_MAX_WAITERS]), ANSWER_BUSY);
    char key[ANSWER_CACHE_KEY_MAX + 2];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    assert_int_equal(answer_cache_ask(c, key, 0, &many[0]), ANSWER_BUSY);
    answer_cache_free(c);
    for (int i = 0; i < ANSWER_CACHE_MAX_WAITERS; i++)
        assert_int_equal(many[i].times, 1);
    assert_int_equal(many[ANSWER_CACHE_MAX_WAITERS].times, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_of_one_question_share_one_look_up),
        cmocka_unit_test(an_answer_is_looked_up_again_after_its_time),
        cmocka_unit_test(a_failure_reaches_its_waiters_and_is_not_kept),
        cmocka_unit_test(stale_answers_make_room_and_fresh_ones_stay),
        cmocka_unit_test(waiters_and_keys_are_bounded),
    };
    return cmocka_run_group_tests_name("answer_cache", tests, NULL, NULL);
}

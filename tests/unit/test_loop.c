#include "check.h"

#include <pthread.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/loop.h"

enum { POSTS = 10000 };

struct seen {
    struct loop *loop;
    struct loop_timer *timer;
    int count;
    int next;
    int out_of_order;
};

static struct loop *make(void)
{
    struct loop *l = NULL;
    struct fault f;
    assert_int_equal(loop_new(&l, &f), 0);
    return l;
}

struct numbered {
    struct seen *seen;
    int number;
};

static void on_numbered(void *arg)
{
    struct numbered *n = arg;
    if (n->number != n->seen->next++)
        n->seen->out_of_order++;
    if (++n->seen->count == POSTS)
        loop_stop(n->seen->loop);
}

static struct numbered numbers[POSTS];

static void *post_all(void *arg)
{
    struct seen *s = arg;
    for (int i = 0; i < POSTS; i++) {
        numbers[i] = (struct numbered){s, i};
        while (loop_post(s->loop, on_numbered, &numbers[i]) != 0)
            continue;
    }
    return NULL;
}

static void runs_posts_of_another_thread_once_and_in_order(void **state)
{
    (void)state;
    struct seen s = {.loop = make()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_all, &s), 0);
    struct fault f;
    assert_int_equal(loop_run(s.loop, &f), 0);
    (void)pthread_join(thread, NULL);
    assert_int_equal(s.count, POSTS);
    assert_int_equal(s.out_of_order, 0);
    loop_free(s.loop);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void refuses_posts_past_its_bound(void **state)
{
    (void)state;
    struct loop *l = make();
    for (int i = 0; i < LOOP_MAX_POSTS; i++)
        assert_int_equal(loop_post(l, nothing, NULL), 0);
    assert_int_equal(loop_post(l, nothing, NULL), RC_RETRY);
    loop_free(l);
}

static void on_tick(void *arg)
{
    struct seen *s = arg;
    if (++s->count == 3) {
        loop_timer_free(s->timer);
        loop_stop(s->loop);
    }
}

static void repeats_a_timer_until_it_is_freed_in_its_own_callback(void **state)
{
    (void)state;
    struct seen s = {.loop = make()};
    struct fault f;
    assert_int_equal(loop_timer_new(s.loop, on_tick, &s, &s.timer, &f), 0);
    int64_t start = clock_mono_ms();
    loop_timer_start(s.timer, 5, 5);
    assert_int_equal(loop_run(s.loop, &f), 0);
    assert_int_equal(s.count, 3);
    assert_true(clock_mono_ms() - start >= 14);
    loop_free(s.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_posts_of_another_thread_once_and_in_order),
        cmocka_unit_test(refuses_posts_past_its_bound),
        cmocka_unit_test(repeats_a_timer_until_it_is_freed_in_its_own_callback),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}

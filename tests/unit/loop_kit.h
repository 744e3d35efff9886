/* loop_kit.h - a loop that turns until something has become true.
 *
 * A test's own `struct bench` embeds a struct loop_kit; conditions look at the bench. */
#ifndef LOOP_KIT_H
#define LOOP_KIT_H
#include "check.h"

#include <stdbool.h>
#include <stdint.h>

#include "runtime/clock.h"
#include "runtime/loop.h"

struct bench; /* the includer's */

struct loop_kit {
    struct loop *loop;
    struct loop_timer *watch;
    struct bench *bench;
    bool (*until)(struct bench *);
    int64_t give_up_ms;
    int rounds;
};

static inline void loop_kit_watch(void *arg)
{
    struct loop_kit *k = arg;
    k->rounds++;
    if (k->until(k->bench) || clock_mono_ms() > k->give_up_ms)
        loop_stop(k->loop);
}

static inline void loop_kit_open(struct loop_kit *k, struct bench *b)
{
    k->bench = b;
    assert_int_equal(loop_new(&k->loop, NULL), 0);
    assert_int_equal(loop_timer_new(k->loop, loop_kit_watch, k, &k->watch, NULL), 0);
}

static inline void loop_kit_close(struct loop_kit *k)
{
    loop_timer_free(k->watch);
    loop_free(k->loop);
}

/* Whether the condition came true within patience_ms. */
static inline bool loop_kit_run(struct loop_kit *k, bool (*condition)(struct bench *),
                                int64_t patience_ms)
{
    k->until = condition;
    k->give_up_ms = clock_mono_ms() + patience_ms;
    loop_timer_start(k->watch, 0, 1);
    assert_int_equal(loop_run(k->loop, NULL), 0);
    loop_timer_stop(k->watch);
    return condition(k->bench);
}

#endif

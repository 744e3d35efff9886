/* redis_kit.h - one Redis client on a loop of its own, and everything it was told. */
#ifndef REDIS_KIT_H
#define REDIS_KIT_H
#include "loop_kit.h"
#include "server_kit.h"

#include <string.h>

#include "runtime/fault.h"
#include "runtime/redis.h"

enum { PATIENCE_MS = 20000, LONG_MS = 5000, BIG = 900 * 1000 };

static inline void control(const char *action)
{
    server_control(action, "redis");
}

/* One client on a loop of its own. */
struct bench {
    struct loop_kit kit;
    struct redis *redis;
    struct redis_options options;
    enum redis_state state;
    char reason[512];
    int ups;
    int accepted, calls, outcomes[REDIS_CLOSED + 1];
    int64_t last; /* integer of the last reply */
    char text[256];
    int out_of_order;
};

static inline void on_state(enum redis_state state, const char *reason, void *arg)
{
    struct bench *b = arg;
    b->state = state;
    b->ups += state >= REDIS_UNSAFE;
    (void)snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static inline void on_done(const struct redis_result *res, void *arg)
{
    struct bench *b = arg;
    b->calls++;
    b->outcomes[res->outcome]++;
    assert_true((res->reply != NULL) == (res->outcome <= REDIS_ERROR));
    (void)redis_reply_int(res->reply, &b->last);
    const char *text = redis_reply_str(res->reply, NULL);
    (void)snprintf(b->text, sizeof b->text, "%s", text ? text : res->text);
}

static inline void run_until(struct bench *b, bool (*condition)(struct bench *))
{
    if (!loop_kit_run(&b->kit, condition, PATIENCE_MS))
        fail_msg("waited in vain; state %d, %s", (int)b->state, b->reason);
}

static inline bool is_up(struct bench *b)
{
    return b->state == REDIS_UP;
}

static inline bool is_down(struct bench *b)
{
    return b->ups > 0 && b->state == REDIS_DOWN;
}

static inline bool is_refused(struct bench *b)
{
    return b->state == REDIS_REFUSED;
}

static inline bool is_unsafe(struct bench *b)
{
    return b->state == REDIS_UNSAFE;
}

static inline bool all_called(struct bench *b)
{
    return b->calls == b->accepted;
}

static inline bool none_in_flight(struct bench *b)
{
    return redis_in_flight(b->redis) == 0;
}

static inline void open_bench(struct bench *b)
{
    struct fault f;
    if (!b->options.url)
        b->options.url = need("URR_TEST_REDIS_URL");
    b->options.on_state = on_state;
    b->options.arg = b;
    loop_kit_open(&b->kit, b);
    assert_int_equal(redis_open(b->kit.loop, &b->options, &b->redis, &f), 0);
}

static inline void close_bench(struct bench *b)
{
    redis_close(b->redis);
    assert_int_equal(b->calls, b->accepted);
    loop_kit_close(&b->kit);
}

static inline int issue(struct bench *b, const struct redis_arg *args, int64_t timeout_ms)
{
    struct fault f;
    int rc = redis_command(b->redis, NULL, args, timeout_ms, on_done, b, &f);
    b->accepted += rc == 0;
    return rc;
}

/* One command and its answer. */
static inline void ask(struct bench *b, const struct redis_arg *args)
{
    assert_int_equal(issue(b, args, LONG_MS), 0);
    run_until(b, all_called);
}

#endif

/* Channels heard from a real server that is killed and frozen. */
#include "redis_kit.h"

#include "runtime/redis_pubsub.h"

struct ears {
    struct bench *bench;
    struct redis_pubsub *pubsub;
    int subscribed, messages;
    char last[64];
    bool close_on_message;
};

static struct ears *ears_now; /* run_until's conditions see the bench only */

static void on_message(const char *channel, const char *data, size_t len, void *arg)
{
    struct ears *e = arg;
    e->messages++;
    (void)snprintf(e->last, sizeof e->last, "%s=%.*s", channel, (int)len, data);
    if (e->close_on_message)
        redis_pubsub_close(e->pubsub);
}

static void on_subscribed(const char *channel, void *arg)
{
    struct ears *e = arg;
    (void)channel;
    e->subscribed++;
}

static bool listening(struct bench *b)
{
    (void)b;
    return redis_pubsub_listening(ears_now->pubsub);
}

static bool deaf(struct bench *b)
{
    return !listening(b);
}

static bool heard(struct bench *b)
{
    (void)b;
    return ears_now->messages > 0;
}

static void open_ears(struct ears *e, struct bench *b)
{
    struct fault f;
    const struct redis_pubsub_events events = {on_message, on_subscribed, e};
    struct redis_options o = {.url = need("URR_TEST_REDIS_URL"),
                              .stall_ms = 500,
                              .probe_ms = 200,
                              .connect_timeout_ms = 500};
    *e = (struct ears){.bench = b};
    ears_now = e;
    assert_int_equal(redis_pubsub_open(b->kit.loop, &o, &events, &e->pubsub, &f), 0);
    assert_int_equal(redis_pubsub_subscribe(e->pubsub, "news", &f), 0);
    run_until(b, listening);
}

static void publish(struct bench *b, const char *channel, const char *text)
{
    run_until(b, is_up);
    ask(b, REDIS_ARGS(REDIS_STR("PUBLISH"), REDIS_STR(channel), REDIS_STR(text)));
}

static void hears_what_is_published_while_subscribed(void **state)
{
    (void)state;
    struct bench b = {0};
    struct ears e;
    struct fault f;
    open_bench(&b);
    open_ears(&e, &b);
    publish(&b, "news", "one");
    run_until(&b, heard);
    assert_string_equal(e.last, "news=one");
    assert_int_equal(redis_pubsub_subscribe(e.pubsub, "sport", &f), 0);
    assert_int_equal(redis_pubsub_subscribe(e.pubsub, "sport", &f), 0);
    run_until(&b, listening);
    assert_int_equal(e.subscribed, 2);
    redis_pubsub_unsubscribe(e.pubsub, "news");
    publish(&b, "news", "two");
    e.messages = 0;
    publish(&b, "sport", "three");
    run_until(&b, heard);
    assert_string_equal(e.last, "sport=three");
    redis_pubsub_close(e.pubsub);
    close_bench(&b);
}

static void subscriptions_survive_a_killed_server(void **state)
{
    (void)state;
    struct bench b = {0};
    struct ears e;
    open_bench(&b);
    open_ears(&e, &b);
    control("kill");
    run_until(&b, deaf);
    control("start");
    run_until(&b, listening);
    assert_int_equal(e.subscribed, 2); /* told again: something may have been missed */
    publish(&b, "news", "after");
    run_until(&b, heard);
    assert_string_equal(e.last, "news=after");
    redis_pubsub_close(e.pubsub);
    close_bench(&b);
}

static void a_frozen_server_makes_the_listener_look_again(void **state)
{
    (void)state;
    struct bench b = {0};
    struct ears e;
    open_bench(&b);
    open_ears(&e, &b);
    control("freeze");
    run_until(&b, deaf);
    control("thaw");
    run_until(&b, listening);
    e.close_on_message = true;
    publish(&b, "news", "bye");
    run_until(&b, heard);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hears_what_is_published_while_subscribed),
        cmocka_unit_test(subscriptions_survive_a_killed_server),
        cmocka_unit_test(a_frozen_server_makes_the_listener_look_again),
    };
    return cmocka_run_group_tests_name("redis_pubsub", tests, NULL, NULL);
}

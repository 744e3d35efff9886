/* What the Redis client does without a server: frames, slots, scripts, replies, refusals. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "runtime/embed.h"
#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/redis_private.h"

static struct redis_script script(const char *source)
{
    struct redis_script s;
    redis_script_init(&s, "test.lua", source, strlen(source));
    return s;
}

static void assert_frame(const struct redis_frame_parts *parts, const char *expected)
{
    struct redis_call *call;
    struct fault f;
    assert_int_equal(redis_frame_build(parts, 4096, &call, &f), 0);
    assert_int_equal(call->frame_len, strlen(expected));
    assert_memory_equal(call->frame, expected, call->frame_len);
    free(call);
}

static void writes_strings_numbers_and_bytes(void **state)
{
    (void)state;
    const struct redis_arg *args =
        REDIS_ARGS(REDIS_STR("SET"), REDIS_STR(""), REDIS_INT(INT64_MIN), REDIS_BYTES("a\r\nb", 4));
    assert_frame(&(struct redis_frame_parts){.args = args},
                 "*4\r\n$3\r\nSET\r\n$0\r\n\r\n$20\r\n-9223372036854775808\r\n$4\r\na\r\nb\r\n");
}

static void writes_a_script_with_its_keys_counted(void **state)
{
    (void)state;
    struct redis_script s = script("return 1");
    assert_string_equal(s.sha1, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    const struct redis_frame_parts parts = {&s, REDIS_KEYS(REDIS_STR("k")),
                                            REDIS_ARGS(REDIS_INT(10))};
    assert_frame(&parts,
                 "*5\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n"
                 "$1\r\n1\r\n$1\r\nk\r\n$2\r\n10\r\n");
}

static void turns_evalsha_into_eval_with_the_same_arguments(void **state)
{
    (void)state;
    struct redis_script s = script("return 1");
    struct redis_call *call;
    assert_int_equal(
        redis_frame_build(&(struct redis_frame_parts){&s, NULL, REDIS_ARGS(REDIS_STR("x"))}, 4096,
                          &call, NULL),
        0);
    size_t len = 0;
    char *frame = redis_frame_eval(call, &len);
    const char *expected = "*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n$1\r\nx\r\n";
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(frame, expected, len);
    free(frame);
    free(call);
}

static void leaves_forty_bytes_for_the_run_id(void **state)
{
    (void)state;
    struct redis_call *call;
    const struct redis_arg *args = REDIS_ARGS(REDIS_STR("ECHO"), REDIS_RUN_ID);
    assert_int_equal(
        redis_frame_build(&(struct redis_frame_parts){.args = args}, 4096, &call, NULL), 0);
    assert_memory_equal(call->frame + call->run_id_at - 5, "$40\r\n0", 6);
    assert_int_equal(call->run_id_at + 42, call->frame_len);
    free(call);
}

static void refuses_frames_that_are_empty_too_long_or_hold_null(void **state)
{
    (void)state;
    struct redis_call *call = NULL;
    struct fault f;
    const struct redis_arg *lists[] = {NULL, (const struct redis_arg[]){REDIS_END},
                                       REDIS_ARGS(REDIS_STR("GET"), REDIS_STR(NULL)),
                                       REDIS_ARGS(REDIS_STR("0123456789012345678901234567890"))};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        assert_int_equal(
            redis_frame_build(&(struct redis_frame_parts){.args = lists[i]}, 32, &call, &f),
            RC_REJECT);
    assert_null(call);
}

static void knows_the_slots_of_the_cluster_specification(void **state)
{
    (void)state;
    assert_int_equal(redis_slot("123456789", 9), 0x31C3);
    assert_int_equal(redis_slot("{user1000}.following", 20), redis_slot("user1000", 8));
    assert_int_equal(redis_slot("foo{}{bar}", 10), 8363);
    assert_int_equal(redis_slot("foo{{bar}}zap", 13), redis_slot("{bar", 4));
    assert_int_equal(redis_slot("foo{bar}{zap}", 13), redis_slot("bar", 3));
    assert_int_equal(redis_slot("", 0), 0);
}

static void finds_scripts_among_embedded_files(void **state)
{
    (void)state;
    static const char source[] = "return 1";
    const struct embed_file table[] = {{"a.lua", source, source + 8}, {NULL, NULL, NULL}};
    struct redis_script s;
    struct fault f;
    assert_int_equal(redis_script_load(&s, table, "a.lua", &f), 0);
    assert_string_equal(s.sha1, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    assert_int_equal(redis_script_load(&s, table, "b.lua", &f), RC_FATAL);
    assert_non_null(strstr(f.text, "b.lua"));
}

static void reads_replies_only_as_what_they_are(void **state)
{
    (void)state;
    redisReply number = {.type = REDIS_REPLY_INTEGER, .integer = -5};
    redisReply text = {.type = REDIS_REPLY_STRING, .str = (char[]){"9007199254740993"}, .len = 16};
    redisReply word = {.type = REDIS_REPLY_STRING, .str = (char[]){"12x"}, .len = 3};
    redisReply nil = {.type = REDIS_REPLY_NIL};
    redisReply *elements[] = {&number, &text};
    redisReply array = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};
    int64_t n = 77;
    assert_false(redis_reply_int(NULL, &n));
    assert_false(redis_reply_int(&word, &n));
    assert_false(redis_reply_int(&nil, &n));
    assert_int_equal(n, 77);
    assert_true(redis_reply_int(redis_reply_at(&array, 0), &n) && n == -5);
    assert_true(redis_reply_int(redis_reply_at(&array, 1), &n) && n == 9007199254740993);
    assert_null(redis_reply_at(&array, 2));
    assert_null(redis_reply_at(&number, 0));
    size_t len = 0;
    assert_string_equal(redis_reply_str(&word, &len), "12x");
    assert_int_equal(len, 3);
    assert_null(redis_reply_str(&number, NULL));
    assert_true(redis_reply_is_nil(&nil));
    assert_false(redis_reply_is_nil(NULL));
    assert_int_equal(redis_reply_count(&array), 2);
    assert_int_equal(redis_reply_count(&nil), 0);
}

struct tally {
    int calls;
    int outcomes[REDIS_CLOSED + 1];
    struct loop *loop;
    struct redis *redis;
    int states;
    char reason[256];
};

static void on_done(const struct redis_result *res, void *arg)
{
    struct tally *t = arg;
    t->calls++;
    t->outcomes[res->outcome]++;
    assert_true((res->rc == 0) == (res->outcome == REDIS_ANSWERED));
}

static void on_state(enum redis_state s, const char *reason, void *arg)
{
    struct tally *t = arg;
    assert_int_equal(s, REDIS_DOWN);
    t->states++;
    strncpy(t->reason, reason, sizeof t->reason - 1);
}

/* Port 1 of the loopback: nobody listens there. */
static void open_nowhere(struct tally *t, uint32_t max_in_flight)
{
    struct fault f;
    struct redis_options o = {.url = "redis://127.0.0.1:1",
                              .max_in_flight = max_in_flight,
                              .max_command_bytes = 100,
                              .on_state = on_state,
                              .arg = t};
    assert_int_equal(loop_new(&t->loop, &f), 0);
    assert_int_equal(redis_open(t->loop, &o, &t->redis, &f), 0);
}

static int ping(struct tally *t, int64_t timeout_ms)
{
    struct fault f;
    return redis_command(t->redis, NULL, REDIS_ARGS(REDIS_STR("PING")), timeout_ms, on_done, t, &f);
}

static void stop(void *arg)
{
    loop_stop(arg);
}

static void run_for(struct tally *t, int64_t ms)
{
    struct loop_timer *timer;
    struct fault f;
    assert_int_equal(loop_timer_new(t->loop, stop, t->loop, &timer, &f), 0);
    loop_timer_start(timer, ms, 0);
    assert_int_equal(loop_run(t->loop, &f), 0);
    loop_timer_free(timer);
}

static void refuses_commands_past_its_bound(void **state)
{
    (void)state;
    struct tally t = {0};
    open_nowhere(&t, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ping(&t, 1000), 0);
    assert_int_equal(ping(&t, 1000), RC_RETRY);
    assert_int_equal(redis_in_flight(t.redis), 3);
    redis_close(t.redis);
    assert_int_equal(t.calls, 3);
    assert_int_equal(t.outcomes[REDIS_CLOSED], 3);
    loop_free(t.loop);
}

static void refuses_commands_that_would_break_the_order(void **state)
{
    (void)state;
    struct tally t = {0};
    open_nowhere(&t, 0);
    const char *const names[] = {"subscribe", "PSUBSCRIBE", "Monitor", "QUIT", "hello"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(
            redis_command(t.redis, NULL, REDIS_ARGS(REDIS_STR(names[i])), 10, on_done, &t, NULL),
            RC_REJECT);
    redis_close(t.redis);
    assert_int_equal(t.calls, 0);
    loop_free(t.loop);
}

static void fires_at_the_deadline_without_a_server_then_fails_fast(void **state)
{
    (void)state;
    struct tally t = {0};
    open_nowhere(&t, 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(ping(&t, 20), 0);
    run_for(&t, 60);
    assert_int_equal(t.calls, 20);
    assert_int_equal(t.outcomes[REDIS_TIMED_OUT], 20);
    assert_true(t.states >= 1);
    assert_non_null(strstr(t.reason, "127.0.0.1:1"));
    assert_int_equal(ping(&t, 20), RC_RETRY); /* the breaker is open */
    assert_in_range(redis_retry_after_ms(t.redis), 5000, 10000);
    redis_close(t.redis);
    assert_int_equal(t.calls, 20);
    loop_free(t.loop);
}

static void on_done_close(const struct redis_result *res, void *arg)
{
    struct tally *t = arg;
    on_done(res, arg);
    redis_close(t->redis);
}

static void may_be_closed_inside_its_own_callback(void **state)
{
    (void)state;
    struct tally t = {0};
    struct fault f;
    open_nowhere(&t, 0);
    assert_int_equal(
        redis_command(t.redis, NULL, REDIS_ARGS(REDIS_STR("PING")), 10, on_done_close, &t, &f), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ping(&t, i % 2 ? 10 : 10000), 0);
    run_for(&t, 50);
    assert_int_equal(t.calls, 6);
    loop_free(t.loop);
}

static void refuses_keys_of_another_slot_in_test_builds(void **state)
{
    (void)state;
    struct tally t = {0};
    struct fault f;
    open_nowhere(&t, 0);
    struct redis_script s = script("return 1");
    int rc = redis_eval(t.redis, &s, "{e1}", REDIS_KEYS(REDIS_STR("{e1}:a"), REDIS_STR("{e2}:b")),
                        NULL, 10, on_done, &t, &f);
    assert_int_equal(rc, RC_REJECT);
    assert_non_null(strstr(f.text, "{e2}:b"));
    redis_close(t.redis);
    loop_free(t.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_strings_numbers_and_bytes),
        cmocka_unit_test(writes_a_script_with_its_keys_counted),
        cmocka_unit_test(turns_evalsha_into_eval_with_the_same_arguments),
        cmocka_unit_test(leaves_forty_bytes_for_the_run_id),
        cmocka_unit_test(refuses_frames_that_are_empty_too_long_or_hold_null),
        cmocka_unit_test(knows_the_slots_of_the_cluster_specification),
        cmocka_unit_test(finds_scripts_among_embedded_files),
        cmocka_unit_test(reads_replies_only_as_what_they_are),
        cmocka_unit_test(refuses_commands_past_its_bound),
        cmocka_unit_test(refuses_commands_that_would_break_the_order),
        cmocka_unit_test(fires_at_the_deadline_without_a_server_then_fails_fast),
        cmocka_unit_test(may_be_closed_inside_its_own_callback),
        cmocka_unit_test(refuses_keys_of_another_slot_in_test_builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

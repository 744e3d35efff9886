/* The Redis client against a real server that is killed, frozen and emptied. */
#include "redis_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static void on_counted(const struct redis_result *res, void *arg)
{
    struct bench *b = arg;
    int64_t before = b->last;
    on_done(res, arg);
    b->out_of_order += b->last != before + 1;
}

static void pipelined_replies_keep_their_order(void **state)
{
    (void)state;
    struct bench b = {0};
    struct fault f;
    open_bench(&b);
    ask(&b, REDIS_ARGS(REDIS_STR("DEL"), REDIS_STR("order")));
    b.last = 0;
    for (int i = 0; i < 4000; i++) {
        assert_int_equal(redis_command(b.redis, "order",
                                       REDIS_ARGS(REDIS_STR("INCR"), REDIS_STR("order")), LONG_MS,
                                       on_counted, &b, &f),
                         0);
        b.accepted++;
    }
    run_until(&b, all_called);
    assert_int_equal(b.last, 4000);
    assert_int_equal(b.out_of_order, 0);
    close_bench(&b);
}

static void finds_its_server_by_name(void **state)
{
    (void)state;
    char url[256];
    server_by_name(need("URR_TEST_REDIS_URL"), url, sizeof url);
    struct bench b = {.options.url = url};
    open_bench(&b);
    run_until(&b, is_up);
    ask(&b, REDIS_ARGS(REDIS_STR("PING")));
    assert_string_equal(b.text, "PONG");
    close_bench(&b);
}

static void error_replies_say_whether_to_try_again(void **state)
{
    (void)state;
    struct bench b = {0};
    open_bench(&b);
    ask(&b, REDIS_ARGS(REDIS_STR("SET"), REDIS_STR("word"), REDIS_STR("x")));
    assert_string_equal(b.text, "OK");
    ask(&b, REDIS_ARGS(REDIS_STR("LPUSH"), REDIS_STR("word"), REDIS_STR("x")));
    assert_int_equal(b.outcomes[REDIS_ERROR], 1);
    assert_non_null(strstr(b.text, "WRONGTYPE"));
    close_bench(&b);
}

static void commands_larger_than_the_socket_takes_go_through(void **state)
{
    (void)state;
    struct bench b = {0};
    open_bench(&b);
    char *big = malloc(BIG);
    memset(big, 'x', BIG);
    for (int i = 0; i < 20; i++)
        assert_int_equal(
            issue(&b, REDIS_ARGS(REDIS_STR("SET"), REDIS_STR("big"), REDIS_BYTES(big, BIG)),
                  LONG_MS),
            0);
    run_until(&b, all_called);
    assert_int_equal(b.outcomes[REDIS_ANSWERED], 20);
    for (int i = 0; i < 20; i++)
        assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("GET"), REDIS_STR("big")), LONG_MS), 0);
    run_until(&b, all_called);
    ask(&b, REDIS_ARGS(REDIS_STR("STRLEN"), REDIS_STR("big")));
    assert_int_equal(b.last, BIG);
    free(big);
    close_bench(&b);
}

static int eval(struct bench *b, const struct redis_script *s, int64_t n)
{
    struct fault f;
    int rc = redis_eval(b->redis, s, "{t}", REDIS_KEYS(REDIS_STR("{t}:sum")),
                        REDIS_ARGS(REDIS_INT(n), REDIS_RUN_ID), LONG_MS, on_done, b, &f);
    b->accepted += rc == 0;
    return rc;
}

/* Static: a script outlives its calls. */
static const struct redis_script *adder(void)
{
    static const char source[] = "redis.call('SET', '{t}:run' , ARGV[2]) "
                                 "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    static struct redis_script s;
    redis_script_init(&s, "adder", source, sizeof source - 1);
    return &s;
}

static void a_script_redis_forgot_is_sent_again_and_runs_once(void **state)
{
    (void)state;
    struct bench b = {0};
    const struct redis_script *s = adder();
    open_bench(&b);
    ask(&b, REDIS_ARGS(REDIS_STR("DEL"), REDIS_STR("{t}:sum")));
    for (int round = 0; round < 3; round++) {
        assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("SCRIPT"), REDIS_STR("FLUSH")), LONG_MS),
                         0);
        for (int i = 0; i < 500; i++)
            assert_int_equal(eval(&b, s, 1), 0);
        run_until(&b, all_called);
    }
    assert_int_equal(b.outcomes[REDIS_ANSWERED], b.accepted);
    ask(&b, REDIS_ARGS(REDIS_STR("GET"), REDIS_STR("{t}:sum")));
    assert_int_equal(b.last, 1500);
    close_bench(&b);
}

static void a_script_learns_the_run_id_of_its_server(void **state)
{
    (void)state;
    struct bench b = {0};
    const struct redis_script *s = adder();
    open_bench(&b);
    assert_string_equal(redis_run_id(b.redis), "");
    assert_int_equal(eval(&b, s, 1), 0); /* waits for the connection: no run_id is known yet */
    run_until(&b, all_called);
    assert_int_equal(strlen(redis_run_id(b.redis)), 40);
    ask(&b, REDIS_ARGS(REDIS_STR("GET"), REDIS_STR("{t}:run")));
    assert_string_equal(b.text, redis_run_id(b.redis));
    close_bench(&b);
}

static void a_frozen_server_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    struct bench b = {.options = {.stall_ms = 600, .probe_ms = 300, .connect_timeout_ms = 500}};
    open_bench(&b);
    run_until(&b, is_up);
    control("freeze");
    int64_t start_ms = clock_mono_ms();
    for (int i = 0; i < 20; i++)
        assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("PING")), 200), 0);
    run_until(&b, all_called);
    assert_in_range(clock_mono_ms() - start_ms, 195, 500);
    assert_int_equal(b.outcomes[REDIS_TIMED_OUT], 20);
    run_until(&b, is_down); /* it is dropped, and a new connection finds no greeting */
    assert_in_range(clock_mono_ms() - start_ms, 200, 3000);
    control("thaw");
    run_until(&b, is_up);
    ask(&b, REDIS_ARGS(REDIS_STR("ECHO"), REDIS_STR("back")));
    assert_string_equal(b.text, "back");
    close_bench(&b);
}

static void a_late_reply_goes_to_nobody_else(void **state)
{
    (void)state;
    struct bench b = {.options = {.stall_ms = 10000, .probe_ms = 20000}};
    open_bench(&b);
    run_until(&b, is_up);
    control("freeze");
    for (int i = 0; i < 10; i++)
        assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("ECHO"), REDIS_STR("late")), 50), 0);
    run_until(&b, all_called);
    assert_int_equal(redis_in_flight(b.redis), 10); /* their replies are still to come */
    control("thaw");
    ask(&b, REDIS_ARGS(REDIS_STR("ECHO"), REDIS_STR("mine")));
    assert_string_equal(b.text, "mine");
    assert_int_equal(b.ups, 1);
    assert_int_equal(redis_in_flight(b.redis), 0);
    close_bench(&b);
}

static void a_frozen_idle_server_is_noticed(void **state)
{
    (void)state;
    struct bench b = {.options = {.stall_ms = 500, .probe_ms = 200, .connect_timeout_ms = 300}};
    open_bench(&b);
    run_until(&b, is_up);
    control("freeze");
    run_until(&b, is_down);
    control("thaw");
    run_until(&b, is_up);
    close_bench(&b);
}

static void in_flight_is_bounded_also_by_what_timed_out(void **state)
{
    (void)state;
    struct bench b = {.options = {.max_in_flight = 10, .stall_ms = 10000, .probe_ms = 20000}};
    open_bench(&b);
    run_until(&b, is_up);
    control("freeze");
    for (int i = 0; i < 10; i++)
        assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("PING")), 50), 0);
    assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("PING")), 50), RC_RETRY);
    run_until(&b, all_called);
    assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("PING")), 50), RC_RETRY);
    control("thaw");
    run_until(&b, none_in_flight);
    ask(&b, REDIS_ARGS(REDIS_STR("PING")));
    assert_int_equal(b.outcomes[REDIS_ANSWERED], 1);
    close_bench(&b);
}

static void a_killed_server_is_lost_refused_and_found_again(void **state)
{
    (void)state;
    struct bench b = {0};
    const struct redis_script *s = adder();
    open_bench(&b);
    run_until(&b, is_up);
    char old_run_id[41];
    (void)snprintf(old_run_id, sizeof old_run_id, "%s", redis_run_id(b.redis));
    control("freeze"); /* so that the commands are on the wire when it dies */
    for (int i = 0; i < 50; i++)
        assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("PING")), LONG_MS), 0);
    control("kill");
    run_until(&b, all_called);
    assert_int_equal(b.outcomes[REDIS_LOST], 50);
    assert_int_equal(b.state, REDIS_DOWN);
    assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("PING")), LONG_MS), RC_RETRY); /* breaker */
    assert_true(redis_retry_after_ms(b.redis) > 1000);
    int64_t start_ms = clock_mono_ms();
    control("start");
    run_until(&b, is_up);
    assert_true(clock_mono_ms() - start_ms < 5000); /* the breaker does not outlive the outage */
    assert_string_not_equal(redis_run_id(b.redis), old_run_id);
    assert_int_equal(eval(&b, s, 1), 0); /* a new process knows no scripts */
    run_until(&b, all_called);
    assert_int_equal(b.outcomes[REDIS_ANSWERED], 1);
    close_bench(&b);
}

static void a_command_that_waited_runs_on_the_new_server_with_its_run_id(void **state)
{
    (void)state;
    struct bench b = {0};
    const struct redis_script *s = adder();
    open_bench(&b);
    run_until(&b, is_up);
    control("kill");
    run_until(&b, is_down);
    assert_int_equal(eval(&b, s, 1), 0);
    control("start");
    run_until(&b, all_called);
    assert_int_equal(b.outcomes[REDIS_ANSWERED], 1);
    ask(&b, REDIS_ARGS(REDIS_STR("GET"), REDIS_STR("{t}:run")));
    assert_string_equal(b.text, redis_run_id(b.redis));
    close_bench(&b);
}

static atomic_bool storm_over;

static void *break_things(void *arg)
{
    (void)arg;
    const char *const steps[] = {"kill", "start", "freeze", "thaw",
                                 "kill", "start", "kill",   "start"};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        control(steps[i]);
        (void)usleep(300 * 1000); /* between two faults, not instead of a condition */
    }
    atomic_store(&storm_over, true);
    return NULL;
}

/* Each command of the storm has a mark of its own: one call too many and one too few must not look
 * like two right ones. */
enum { MARKS = 200000 };
static struct mark {
    struct bench *bench;
    int fired;
} * marks;

static void on_marked(const struct redis_result *res, void *arg)
{
    struct mark *m = arg;
    m->fired++;
    on_done(res, m->bench);
}

static void issue_marked(struct bench *b, int i)
{
    struct fault f;
    const struct redis_script *s = adder();
    if (b->accepted == MARKS)
        return;
    struct mark *m = &marks[b->accepted];
    m->bench = b;
    int rc;
    if (i % 4 == 0)
        rc = redis_eval(b->redis, s, "{t}", REDIS_KEYS(REDIS_STR("{t}:sum")),
                        REDIS_ARGS(REDIS_INT(1), REDIS_RUN_ID), LONG_MS, on_marked, m, &f);
    else
        rc = redis_command(b->redis, "storm", REDIS_ARGS(REDIS_STR("INCR"), REDIS_STR("storm")),
                           5 + i * 20, on_marked, m, &f);
    b->accepted += rc == 0;
}

static bool storm_is_over(struct bench *b)
{
    for (int i = 0; i < 40; i++)
        issue_marked(b, i);
    return atomic_load(&storm_over);
}

static void every_callback_fires_once_in_a_storm_of_faults(void **state)
{
    (void)state;
    struct bench b = {
        .options = {.max_in_flight = 1000, .stall_ms = 200, .connect_timeout_ms = 200}};
    pthread_t thread;
    marks = calloc(MARKS, sizeof *marks);
    atomic_store(&storm_over, false);
    open_bench(&b);
    run_until(&b, is_up);
    assert_int_equal(pthread_create(&thread, NULL, break_things, NULL), 0);
    run_until(&b, storm_is_over);
    (void)pthread_join(thread, NULL);
    run_until(&b, all_called);
    run_until(&b, none_in_flight);
    run_until(&b, is_up);
    print_message("storm: %d accepted, %d answered, %d errors, %d timed out, %d lost\n", b.accepted,
                  b.outcomes[REDIS_ANSWERED], b.outcomes[REDIS_ERROR], b.outcomes[REDIS_TIMED_OUT],
                  b.outcomes[REDIS_LOST]);
    assert_true(b.outcomes[REDIS_ANSWERED] > 1000);
    assert_int_equal(b.outcomes[REDIS_ERROR], 0);
    assert_true(b.outcomes[REDIS_LOST] + b.outcomes[REDIS_TIMED_OUT] > 0);
    for (int i = 0; i < MARKS; i++)
        assert_int_equal(marks[i].fired, i < b.accepted);
    free(marks);
    close_bench(&b);
}

static void closing_answers_everything_outstanding(void **state)
{
    (void)state;
    struct bench b = {0};
    open_bench(&b);
    run_until(&b, is_up);
    for (int i = 0; i < 100; i++)
        assert_int_equal(issue(&b, REDIS_ARGS(REDIS_STR("PING")), LONG_MS), 0);
    redis_close(b.redis);
    b.redis = NULL;
    assert_int_equal(b.outcomes[REDIS_CLOSED], 100);
    close_bench(&b);
}

static void on_done_close(const struct redis_result *res, void *arg)
{
    struct bench *b = arg;
    on_done(res, arg);
    redis_close(b->redis);
    b->redis = NULL;
}

static void closing_inside_a_reply_is_fine(void **state)
{
    (void)state;
    struct bench b = {0};
    struct fault f;
    open_bench(&b);
    run_until(&b, is_up);
    for (int i = 0; i < 100; i++) {
        redis_fn fn = i == 10 ? on_done_close : on_done;
        assert_int_equal(
            redis_command(b.redis, NULL, REDIS_ARGS(REDIS_STR("PING")), LONG_MS, fn, &b, &f), 0);
        b.accepted++;
    }
    run_until(&b, all_called);
    assert_int_equal(b.outcomes[REDIS_ANSWERED], 11);
    assert_int_equal(b.outcomes[REDIS_CLOSED], 89);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipelined_replies_keep_their_order),
        cmocka_unit_test(finds_its_server_by_name),
        cmocka_unit_test(error_replies_say_whether_to_try_again),
        cmocka_unit_test(commands_larger_than_the_socket_takes_go_through),
        cmocka_unit_test(a_script_redis_forgot_is_sent_again_and_runs_once),
        cmocka_unit_test(a_script_learns_the_run_id_of_its_server),
        cmocka_unit_test(a_frozen_server_costs_no_more_than_the_deadline),
        cmocka_unit_test(a_late_reply_goes_to_nobody_else),
        cmocka_unit_test(a_frozen_idle_server_is_noticed),
        cmocka_unit_test(in_flight_is_bounded_also_by_what_timed_out),
        cmocka_unit_test(a_killed_server_is_lost_refused_and_found_again),
        cmocka_unit_test(a_command_that_waited_runs_on_the_new_server_with_its_run_id),
        cmocka_unit_test(every_callback_fires_once_in_a_storm_of_faults),
        cmocka_unit_test(closing_answers_everything_outstanding),
        cmocka_unit_test(closing_inside_a_reply_is_fine),
    };
    return cmocka_run_group_tests_name("redis", tests, NULL, NULL);
}

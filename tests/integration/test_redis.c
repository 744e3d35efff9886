/* The Redis client against a real server that is killed, frozen, emptied and misconfigured. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/redis.h"
#include "runtime/redis_pubsub.h"

enum { PATIENCE_MS = 20000, LONG_MS = 5000, BIG = 900 * 1000 };

static const char *need(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fail_msg("%s is not set: run me through tests/run integration", name);
    return value;
}

static void control(const char *action)
{
    char command[512];
    (void)snprintf(command, sizeof command, "%s %s redis", need("URR_TEST_CONTROL"), action);
    assert_int_equal(system(command), 0);
}

/* One client on a loop of its own. */
struct bench {
    struct loop *loop;
    struct redis *redis;
    struct redis_options options;
    enum redis_state state;
    char reason[512];
    int ups;
    int accepted, calls, outcomes[REDIS_CLOSED + 1];
    int64_t last; /* integer of the last reply */
    char text[256];
    int out_of_order;
    bool (*until)(struct bench *);
    int64_t give_up_ms;
    struct loop_timer *watch;
};

static void on_state(enum redis_state state, const char *reason, void *arg)
{
    struct bench *b = arg;
    b->state = state;
    b->ups += state >= REDIS_UNSAFE;
    (void)snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static void on_done(const struct redis_result *res, void *arg)
{
    struct bench *b = arg;
    b->calls++;
    b->outcomes[res->outcome]++;
    assert_true((res->reply != NULL) == (res->outcome <= REDIS_ERROR));
    (void)redis_reply_int(res->reply, &b->last);
    const char *text = redis_reply_str(res->reply, NULL);
    (void)snprintf(b->text, sizeof b->text, "%s", text ? text : res->text);
}

static void on_watch(void *arg)
{
    struct bench *b = arg;
    if (b->until(b) || clock_mono_ms() > b->give_up_ms)
        loop_stop(b->loop);
}

static void run_until(struct bench *b, bool (*condition)(struct bench *))
{
    struct fault f;
    b->until = condition;
    b->give_up_ms = clock_mono_ms() + PATIENCE_MS;
    loop_timer_start(b->watch, 0, 1);
    assert_int_equal(loop_run(b->loop, &f), 0);
    loop_timer_stop(b->watch);
    if (!condition(b))
        fail_msg("waited in vain; state %d, %s", (int)b->state, b->reason);
}

static bool is_up(struct bench *b)
{
    return b->state == REDIS_UP;
}

static bool is_down(struct bench *b)
{
    return b->ups > 0 && b->state == REDIS_DOWN;
}

static bool is_refused(struct bench *b)
{
    return b->state == REDIS_REFUSED;
}

static bool is_unsafe(struct bench *b)
{
    return b->state == REDIS_UNSAFE;
}

static bool all_called(struct bench *b)
{
    return b->calls == b->accepted;
}

static bool none_in_flight(struct bench *b)
{
    return redis_in_flight(b->redis) == 0;
}

static void open_bench(struct bench *b)
{
    struct fault f;
    if (!b->options.url)
        b->options.url = need("URR_TEST_REDIS_URL");
    b->options.on_state = on_state;
    b->options.arg = b;
    assert_int_equal(loop_new(&b->loop, &f), 0);
    assert_int_equal(loop_timer_new(b->loop, on_watch, b, &b->watch, &f), 0);
    assert_int_equal(redis_open(b->loop, &b->options, &b->redis, &f), 0);
}

static void close_bench(struct bench *b)
{
    redis_close(b->redis);
    assert_int_equal(b->calls, b->accepted);
    loop_timer_free(b->watch);
    loop_free(b->loop);
}

static int issue(struct bench *b, const struct redis_arg *args, int64_t timeout_ms)
{
    struct fault f;
    int rc = redis_command(b->redis, NULL, args, timeout_ms, on_done, b, &f);
    b->accepted += rc == 0;
    return rc;
}

/* One command and its answer. */
static void ask(struct bench *b, const struct redis_arg *args)
{
    assert_int_equal(issue(b, args, LONG_MS), 0);
    run_until(b, all_called);
}

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

/* A server of the test's own, with other settings than the harness gives. */
struct server {
    pid_t pid;
    int port;
    char dir[64];
    char url[128];
};

static int any_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

/* A cluster node also listens 10,000 higher, which must be a port too. */
static int free_port(void)
{
    int port;
    while ((port = any_port()) > 55000)
        continue;
    return port;
}

static struct server start_server(const char *setting, const char *value, const char *login)
{
    struct server s = {.port = free_port(), .dir = "/tmp/urr-test-redis-XXXXXX"};
    assert_non_null(mkdtemp(s.dir));
    (void)snprintf(s.url, sizeof s.url, "redis://%s127.0.0.1:%d/0", login, s.port);
    char port[8];
    (void)snprintf(port, sizeof port, "%d", s.port);
    s.pid = fork();
    assert_true(s.pid >= 0);
    if (s.pid == 0) {
        (void)execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1",
                     "--save", "", "--dir", s.dir, "--logfile", "/dev/null", setting, value,
                     (char *)NULL);
        _exit(127);
    }
    return s;
}

static void stop_server(struct server *s)
{
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, NULL, 0);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", s->dir);
    assert_int_equal(system(command), 0);
}

static void logs_in_with_the_right_password_only(void **state)
{
    (void)state;
    struct server s = start_server("--requirepass", "p@ss/word", ":p%40ss%2Fword@");
    struct bench right = {.options = {.url = s.url}};
    open_bench(&right);
    run_until(&right, is_up);
    close_bench(&right);
    char url[128];
    const char *const logins[] = {":sesame@", "nobody:sesame@", ""};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(url, sizeof url, "redis://%s127.0.0.1:%d", logins[i], s.port);
        struct bench wrong = {.options = {.url = url}};
        open_bench(&wrong);
        run_until(&wrong, is_refused);
        assert_non_null(strstr(wrong.reason, "refuses"));
        assert_null(strstr(wrong.reason, "sesame"));
        close_bench(&wrong);
    }
    stop_server(&s);
}

static void uses_the_database_of_the_url(void **state)
{
    (void)state;
    struct server s = start_server("--databases", "4", "");
    s.url[strlen(s.url) - 1] = '3';
    struct bench b = {.options = {.url = s.url}};
    open_bench(&b);
    ask(&b, REDIS_ARGS(REDIS_STR("CLIENT"), REDIS_STR("INFO")));
    assert_non_null(strstr(b.text, " db=3 "));
    close_bench(&b);
    s.url[strlen(s.url) - 1] = '9';
    struct bench beyond = {.options = {.url = s.url}};
    open_bench(&beyond);
    run_until(&beyond, is_refused);
    assert_non_null(strstr(beyond.reason, "out of range"));
    close_bench(&beyond);
    stop_server(&s);
}

static void refuses_a_cluster_node_with_a_plain_message(void **state)
{
    (void)state;
    struct server s = start_server("--cluster-enabled", "yes", "");
    struct bench b = {.options = {.url = s.url}};
    open_bench(&b);
    run_until(&b, is_refused);
    assert_non_null(strstr(b.reason, "Redis Cluster"));
    close_bench(&b);
    stop_server(&s);
}

static void refuses_a_replica(void **state)
{
    (void)state;
    struct server s = start_server("--replicaof", "127.0.0.1 1", "");
    struct bench b = {.options = {.url = s.url}};
    open_bench(&b);
    run_until(&b, is_refused);
    assert_non_null(strstr(b.reason, "replica"));
    close_bench(&b);
    stop_server(&s);
}

static void complains_about_a_forgetful_server_until_it_is_mended(void **state)
{
    (void)state;
    struct server s = start_server("--appendonly", "no", "");
    struct bench b = {.options = {.url = s.url, .require_durable = true, .probe_ms = 100}};
    open_bench(&b);
    run_until(&b, is_unsafe);
    assert_non_null(strstr(b.reason, "appendonly yes"));
    ask(&b, REDIS_ARGS(REDIS_STR("CONFIG"), REDIS_STR("SET"), REDIS_STR("appendonly"),
                       REDIS_STR("yes")));
    run_until(&b, is_up);
    ask(&b, REDIS_ARGS(REDIS_STR("CONFIG"), REDIS_STR("SET"), REDIS_STR("maxmemory-policy"),
                       REDIS_STR("allkeys-lru")));
    run_until(&b, is_unsafe);
    close_bench(&b);
    stop_server(&s);
}

static void rediss_is_refused_at_open(void **state)
{
    (void)state;
    struct loop *l;
    struct redis *r = NULL;
    struct fault f;
    assert_int_equal(loop_new(&l, &f), 0);
    struct redis_options o = {.url = "rediss://127.0.0.1:6379"};
    assert_int_equal(redis_open(l, &o, &r, &f), RC_REJECT);
    assert_non_null(strstr(f.text, "TLS"));
    assert_null(r);
    loop_free(l);
}

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
    assert_int_equal(redis_pubsub_open(b->loop, &o, &events, &e->pubsub, &f), 0);
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
        cmocka_unit_test(pipelined_replies_keep_their_order),
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
        cmocka_unit_test(logs_in_with_the_right_password_only),
        cmocka_unit_test(uses_the_database_of_the_url),
        cmocka_unit_test(refuses_a_cluster_node_with_a_plain_message),
        cmocka_unit_test(refuses_a_replica),
        cmocka_unit_test(complains_about_a_forgetful_server_until_it_is_mended),
        cmocka_unit_test(rediss_is_refused_at_open),
        cmocka_unit_test(hears_what_is_published_while_subscribed),
        cmocka_unit_test(subscriptions_survive_a_killed_server),
        cmocka_unit_test(a_frozen_server_makes_the_listener_look_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

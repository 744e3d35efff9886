/* Look-ups that take their time: getaddrinfo() is this file's own for names below .test. */
#include "loop_kit.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/pg_pool.h"
#include "runtime/redis.h"
#include "runtime/resolve.h"

enum { PATIENCE_MS = 10000 };

typedef int (*lookup_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* The name whose look-up waits. Each test has its own, so that a straggler of one before it, which
 * had not begun to wait when that one ended, is not held by the next. */
static const char *held = "";
static int waiting;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved */
__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **out)
{
    lookup_fn real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (host && strncmp(host, "slow-", 5) == 0) {
        pthread_mutex_lock(&lock);
        waiting++;
        while (strcmp(held, host) == 0)
            pthread_cond_wait(&changed, &lock);
        waiting--;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        host = "127.0.0.1";
    }
    if (host && strcmp(host, "none.test") == 0)
        return EAI_NONAME;
    return real(host && strcmp(host, "local.test") == 0 ? "127.0.0.1" : host, service, hints, out);
}

static void hold(const char *name)
{
    pthread_mutex_lock(&lock);
    held = name;
    pthread_mutex_unlock(&lock);
}

static void let_go(void)
{
    pthread_mutex_lock(&lock);
    held = "";
    pthread_cond_broadcast(&changed);
    while (waiting > 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* A loop with something to wait for. */
struct bench {
    struct loop_kit kit;
    struct resolve_answer answer;
    int answers;
    char reason[512];
    int downs;
};

static void open_bench(struct bench *b)
{
    *b = (struct bench){0};
    loop_kit_open(&b->kit, b);
}

static void close_bench(struct bench *b)
{
    loop_kit_close(&b->kit);
}

static void run_until(struct bench *b, bool (*condition)(struct bench *))
{
    assert_true(loop_kit_run(&b->kit, condition, PATIENCE_MS));
}

static bool answered(struct bench *b)
{
    return b->answers > 0;
}

static bool turned_fifty_times(struct bench *b)
{
    return b->kit.rounds >= 50;
}

static bool went_down(struct bench *b)
{
    return b->downs > 0;
}

static void on_answer(const struct resolve_answer *answer, void *arg)
{
    struct bench *b = arg;
    b->answers++;
    b->answer = *answer;
}

static void ask(struct bench *b, const char *hosts)
{
    struct resolve *r;
    b->answers = 0;
    assert_int_equal(resolve_start(b->kit.loop, hosts, on_answer, b, &r, NULL), 0);
    assert_int_equal(b->answers, 0);
    run_until(b, answered);
    assert_int_equal(b->answers, 1);
}

static void addresses_and_paths_need_no_look_up(void **state)
{
    (void)state;
    static const char *const DIRECT[] = {"127.0.0.1",    "::1",       "fe80::1%lo",   "/run/pg", "",
                                         "10.0.0.1,::1", "@abstract", "10.0.0.1,/run"};
    for (size_t i = 0; i < sizeof DIRECT / sizeof *DIRECT; i++)
        assert_false(resolve_needed(DIRECT[i]));
    assert_true(resolve_needed("localhost"));
    assert_true(resolve_needed("10.0.0.1,db.example"));
    assert_true(resolve_needed("1.2.3.4.5"));
}

static void names_become_addresses_with_their_place_in_the_list(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    ask(&b, "local.test,/run/pg,none.test,::1");
    assert_int_equal(b.answer.count, 3);
    assert_string_equal(b.answer.at[0].text, "127.0.0.1");
    assert_string_equal(b.answer.at[1].text, "");
    assert_int_equal(b.answer.at[1].host, 1);
    assert_string_equal(b.answer.at[2].text, "::1");
    assert_int_equal(b.answer.at[2].host, 3);
    ask(&b, "none.test");
    assert_int_equal(b.answer.count, 0);
    assert_non_null(strstr(b.answer.reason, "none.test"));
    close_bench(&b);
}

static void the_loop_turns_while_a_name_server_is_silent(void **state)
{
    (void)state;
    struct bench b;
    struct resolve *r;
    open_bench(&b);
    hold("slow-0.test");
    assert_int_equal(resolve_start(b.kit.loop, "slow-0.test", on_answer, &b, &r, NULL), 0);
    run_until(&b, turned_fifty_times);
    assert_int_equal(b.answers, 0);
    let_go();
    run_until(&b, answered);
    assert_string_equal(b.answer.at[0].text, "127.0.0.1");
    close_bench(&b);
}

static void a_cancelled_look_up_calls_nobody_and_may_outlive_its_loop(void **state)
{
    (void)state;
    struct bench b;
    struct resolve *r;
    open_bench(&b);
    hold("slow-1.test");
    assert_int_equal(resolve_start(b.kit.loop, "slow-1.test", on_answer, &b, &r, NULL), 0);
    resolve_cancel(r);
    close_bench(&b);
    let_go();
    assert_int_equal(b.answers, 0);
}

static void threads_that_do_not_come_back_are_bounded(void **state)
{
    (void)state;
    struct bench b;
    struct resolve *r[RESOLVE_MAX + 1];
    struct fault f;
    open_bench(&b);
    hold("slow-2.test");
    for (int i = 0; i < RESOLVE_MAX; i++) {
        int64_t give_up = clock_mono_ms() + PATIENCE_MS; /* one of the last test may be leaving */
        while (resolve_start(b.kit.loop, "slow-2.test", on_answer, &b, &r[i], NULL) != 0)
            assert_true(clock_mono_ms() < give_up);
    }
    assert_int_equal(resolve_start(b.kit.loop, "slow-2.test", on_answer, &b, &r[RESOLVE_MAX], &f),
                     RC_RETRY);
    for (int i = 0; i < RESOLVE_MAX; i++)
        resolve_cancel(r[i]);
    let_go();
    close_bench(&b);
}

static void on_redis(enum redis_state state, const char *reason, void *arg)
{
    struct bench *b = arg;
    b->downs += state == REDIS_DOWN;
    (void)snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static void redis_waits_for_a_name_no_longer_than_for_a_connection(void **state)
{
    (void)state;
    struct bench b;
    struct redis *redis;
    open_bench(&b);
    struct redis_options o = {.url = "redis://slow-3.test:1/0",
                              .connect_timeout_ms = 50,
                              .on_state = on_redis,
                              .arg = &b};
    hold("slow-3.test");
    assert_int_equal(redis_open(b.kit.loop, &o, &redis, NULL), 0);
    run_until(&b, went_down);
    assert_non_null(strstr(b.reason, "no address in time"));
    assert_true(b.kit.rounds > 10);
    redis_close(redis);
    let_go();
    close_bench(&b);
}

static void on_pool(enum pg_pool_state state, const char *reason, void *arg)
{
    struct bench *b = arg;
    b->downs += state == PG_POOL_DOWN;
    (void)snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static void the_pool_waits_for_a_name_no_longer_than_for_a_connection(void **state)
{
    (void)state;
    struct bench b;
    struct pg_pool *pool;
    open_bench(&b);
    struct pg_session session = pg_session_http("postgresql://u@slow-4.test:1/d", "test");
    session.connect_timeout_ms = 50;
    struct pg_pool_options o = {
        .session = session, .connections = 1, .on_state = on_pool, .arg = &b};
    hold("slow-4.test");
    assert_int_equal(pg_pool_open(b.kit.loop, &o, &pool, NULL), 0);
    run_until(&b, went_down);
    assert_non_null(strstr(b.reason, "no address"));
    assert_true(b.kit.rounds > 10);
    pg_pool_close(pool);
    let_go();
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_paths_need_no_look_up),
        cmocka_unit_test(names_become_addresses_with_their_place_in_the_list),
        cmocka_unit_test(the_loop_turns_while_a_name_server_is_silent),
        cmocka_unit_test(a_cancelled_look_up_calls_nobody_and_may_outlive_its_loop),
        cmocka_unit_test(threads_that_do_not_come_back_are_bounded),
        cmocka_unit_test(redis_waits_for_a_name_no_longer_than_for_a_connection),
        cmocka_unit_test(the_pool_waits_for_a_name_no_longer_than_for_a_connection),
    };
    return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}

/* The relay between a real PostgreSQL and a real Kafka, with relays, servers and leaders killed. */
#include "kafka_kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "producers/relay.h"
#include "runtime/pg.h"
#include "urr_sql.h"

enum { KEYS = 20, WRITERS = 12, WAIT_MS = 60000 };

static char self[512];
static pid_t started[64]; /* a failed test leaves relays behind: the next one ends them */
static int started_count;

static struct pg *database(void)
{
    struct pg_session s = {.uri = need_env("URR_TEST_PG_URL"), .application_name = "test"};
    struct pg *pg;
    OK(pg_new(&s, &pg, f));
    int64_t deadline = clock_mono_ms() + WAIT_MS;
    while (pg_connect(pg, NULL) != 0)
        assert_true(clock_mono_ms() < deadline);
    return pg;
}

static int64_t number(struct pg *pg, const char *sql)
{
    struct pg_stmt stmt = {NULL, sql};
    struct pg_result *r;
    struct fault why = {0};
    if (pg_exec(pg, &stmt, NULL, &r, &why) != 0)
        fail_msg("%s: %s", sql, why.text);
    int64_t n = pg_result_int(r, 0, 0);
    pg_result_free(r);
    return n;
}

static void script(struct pg *pg, const char *sql)
{
    OK(pg_script(pg, "test", sql, f));
}

static int schema(void **state)
{
    (void)state;
    while (started_count > 0)
        (void)kill(started[--started_count], SIGKILL);
    struct pg *pg = database();
    script(pg, "DROP TABLE IF EXISTS outbox, outbox_failed, entity; DROP SEQUENCE IF EXISTS "
               "outbox_id_seq");
    script(pg, embed_find(urr_sql, "outbox/001_outbox.sql")->data);
    script(pg, "CREATE TABLE entity (key int PRIMARY KEY, n int NOT NULL);"
               "INSERT INTO entity SELECT k, 0 FROM generate_series(0, 19) k");
    pg_free(pg);
    return 0;
}

/* The same program as a relay, because one must not fork beside librdkafka. */
static int relay_main(void)
{
    struct relay_options o = {
        .name = "test",
        .database_url = getenv("URR_TEST_PG_URL"),
        .client = {.brokers = getenv("URR_TEST_KAFKA"), .client_id = "test-relay"}};
    struct relay *r;
    struct fault why;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test must not leave it running */
    if (relay_new(&o, &r, &why) != 0)
        return 1;
    for (;;) {
        int wait_ms;
        (void)relay_step(r, &wait_ms, &why);
        if (wait_ms > 0)
            usleep((useconds_t)wait_ms * 1000);
    }
}

static pid_t start_relay(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "relay", (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0 && started_count < 64);
    started[started_count++] = pid;
    return pid;
}

static void end_relay(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    for (int i = 0; i < started_count; i++)
        if (started[i] == pid)
            started[i--] = started[--started_count];
}

struct writers {
    char topic[64];
    atomic_bool stop;
    atomic_int written;
    int seed;
};

static void *write_rows(void *arg)
{
    struct writers *w = arg;
    struct pg *pg = database();
    unsigned seed = (unsigned)(uintptr_t)&seed;
    static const struct pg_stmt ADD = {
        "add", "WITH e AS (UPDATE entity SET n = n + 1 WHERE key = $1 RETURNING key, n)"
               "INSERT INTO outbox (topic, key, value) SELECT $2, convert_to(key::text, 'UTF8'),"
               " convert_to(n::text, 'UTF8') FROM e"};
    while (!atomic_load(&w->stop)) {
        struct pg_params p;
        pg_params_init(&p);
        pg_params_int4(&p, rand_r(&seed) % KEYS);
        pg_params_text(&p, w->topic);
        bool fine = pg_connected(pg) || pg_connect(pg, NULL) == 0;
        fine = fine && pg_begin(pg, NULL) == 0 && pg_exec(pg, &ADD, &p, NULL, NULL) == 0;
        if (fine && rand_r(&seed) % 50 == 0)
            usleep(20000); /* ids become visible out of order */
        if (fine && rand_r(&seed) % 20 == 0)
            pg_rollback(pg);
        else if (fine && pg_commit(pg, NULL) == 0)
            atomic_fetch_add(&w->written, 1);
        else {
            pg_rollback(pg);
            usleep(50000);
        }
        usleep(1000);
    }
    pg_free(pg);
    return NULL;
}

static int from_start(void *arg, struct kafka_start *starts, size_t count, struct fault *f)
{
    (void)arg;
    (void)f;
    for (size_t i = 0; i < count; i++)
        starts[i].offset = KAFKA_OFFSET_BEGINNING;
    return 0;
}

/* Reads the topic to its ends: counts[k] = how many distinct rows of key k came; first appearances
 * must be 1, 2, 3 … per key. Returns the repetitions. */
static int check_order(const char *topic, int partitions, int counts[KEYS])
{
    const char *topics[] = {topic, NULL};
    struct kafka_consumer_options o = {.client = kit_client("kit-reader"),
                                       .group = topic,
                                       .topics = topics,
                                       .on_assign = from_start};
    struct kafka_consumer *c;
    OK(kafka_consumer_open(&o, &c, f));
    int ends = 0, repeated = 0;
    int64_t deadline = clock_mono_ms() + WAIT_MS;
    while (ends < partitions) {
        struct kafka_event e;
        struct fault why;
        assert_int_not_equal(kafka_consumer_poll(c, 500, &e, &why), RC_FATAL);
        assert_true(clock_mono_ms() < deadline);
        ends += e.kind == KAFKA_EVENT_EOF;
        if (e.kind != KAFKA_EVENT_MESSAGE)
            continue;
        char key[8] = "";
        memcpy(key, e.message.key, e.message.key_len < 7 ? e.message.key_len : 7);
        int n = value_number(&e.message), k = atoi(key);
        if (n > counts[k] + 1)
            fail_msg("key %d: %d came after %d", k, n, counts[k]);
        repeated += n <= counts[k];
        if (n == counts[k] + 1)
            counts[k] = n;
        kafka_message_free(&e.message);
    }
    kafka_consumer_close(c);
    return repeated;
}

static void wait_empty(struct pg *pg)
{
    int64_t deadline = clock_mono_ms() + WAIT_MS;
    while (number(pg, "SELECT count(*) FROM outbox") > 0) {
        assert_true(clock_mono_ms() < deadline);
        usleep(50000);
    }
}

static void every_row_arrives_in_order_whoever_is_killed(void **state)
{
    (void)state;
    struct writers w = {0};
    fresh_topic(w.topic, 3, NULL);
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_rows, &w), 0);
    pid_t relays[2] = {start_relay(), start_relay()};
    for (int round = 0; round < 4; round++) {
        usleep(1000000);
        pid_t old = relays[round % 2];
        end_relay(old);
        relays[round % 2] = start_relay();
    }
    for (int i = 0; i < 2; i++) { /* one of them leads */
        (void)kill(relays[i], SIGSTOP);
        usleep(2500000);
        (void)kill(relays[i], SIGCONT);
        usleep(500000);
    }
    char command[600];
    (void)snprintf(command, sizeof command, "%s restart pg", need_env("URR_TEST_CONTROL"));
    assert_int_equal(system(command), 0);
    usleep(1000000);
    control("restart");
    usleep(1000000);
    atomic_store(&w.stop, true);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    struct pg *pg = database();
    wait_empty(pg);
    end_relay(relays[0]);
    end_relay(relays[1]);
    int counts[KEYS] = {0};
    int repeated = check_order(w.topic, 3, counts);
    int64_t total = 0;
    for (int k = 0; k < KEYS; k++) {
        char sql[80];
        (void)snprintf(sql, sizeof sql, "SELECT n FROM entity WHERE key = %d", k);
        assert_int_equal(counts[k], number(pg, sql));
        total += counts[k];
    }
    print_message("%" PRId64 " rows, %d repeated\n", total, repeated);
    assert_true(total > 1000);
    assert_int_equal(number(pg, "SELECT count(*) FROM outbox_failed"), 0);
    pg_free(pg);
}

static void a_killed_and_a_stopped_leader_are_replaced_within_two_seconds(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    struct pg *pg = database();
    char insert[200];
    (void)snprintf(insert, sizeof insert,
                   "INSERT INTO outbox (topic, key, value) VALUES ('%s', '1', '1')", topic);
    for (int way = 0; way < 2; way++) {
        pid_t first = start_relay();
        script(pg, insert);
        wait_empty(pg);
        pid_t second = start_relay();
        usleep(500000);
        (void)kill(first, way == 0 ? SIGKILL : SIGSTOP);
        int64_t began = clock_mono_ms();
        script(pg, insert);
        wait_empty(pg);
        int64_t took = clock_mono_ms() - began;
        print_message("%s: next row left after %" PRId64 " ms\n", way == 0 ? "kill -9" : "SIGSTOP",
                      took);
        assert_true(took < 2000);
        end_relay(first);
        end_relay(second);
    }
    pg_free(pg);
}

/* The server ends a leader's session after 0.7 s of silence; Kafka may be silent for longer. */
static void a_leader_that_waits_for_kafka_stays_the_leader(void **state)
{
    (void)state;
    static const char SESSION[] =
        "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE application_name = 'urr-relay'";
    char topic[64], sql[300];
    fresh_topic(topic, 1, NULL);
    struct pg *pg = database();
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (topic, key, value) SELECT '%s', '1', "
                   "convert_to(repeat('x', 800000), 'UTF8') FROM generate_series(1, 40)",
                   topic);
    pid_t relay = start_relay();
    script(pg, sql);
    wait_empty(pg);
    int64_t session = number(pg, SESSION);
    control("freeze");
    script(pg, sql); /* more than may be on its way at once */
    usleep(2500000);
    assert_int_equal(number(pg, SESSION), session);
    control("thaw");
    wait_empty(pg);
    assert_int_equal(number(pg, SESSION), session);
    end_relay(relay);
    pg_free(pg);
}

static void a_refused_row_waits_with_its_key_and_the_rest_flows(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, (const char *const[]){"max.message.bytes", "100000", NULL});
    struct pg *pg = database();
    char sql[900];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (topic, key, value) SELECT '%s', (i %% 4)::text::bytea, "
                   "CASE i WHEN 21 THEN convert_to(repeat('x', 200000), 'UTF8') WHEN 42 THEN "
                   "convert_to(repeat('y', 2000000), 'UTF8') ELSE i::text::bytea END FROM "
                   "generate_series(1, 100) i",
                   topic);
    script(pg, sql);
    pid_t relay = start_relay();
    wait_empty(pg);
    /* Key 1 from row 21 on (20 rows), key 2 from row 42 on (15). */
    assert_int_equal(number(pg, "SELECT count(*) FROM outbox_failed"), 35);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (topic, key, value) VALUES ('%s', '1', 'late')", topic);
    script(pg, sql);
    wait_empty(pg);
    assert_int_equal(number(pg, "SELECT count(*) FROM outbox_failed"), 36);
    script(pg, "DELETE FROM outbox_failed WHERE length(value) > 100000;"
               "UPDATE outbox_failed SET retry_requested = true");
    int64_t deadline = clock_mono_ms() + WAIT_MS;
    while (number(pg, "SELECT count(*) FROM outbox_failed") > 0)
        assert_true(clock_mono_ms() < deadline);
    wait_empty(pg);
    end_relay(relay);
    pg_free(pg);
}

static void a_row_with_an_old_id_is_found_by_the_full_look(void **state)
{
    (void)state;
    char topic[64], sql[200];
    fresh_topic(topic, 1, NULL);
    struct pg *pg = database();
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (id, topic, key, value) VALUES (500, '%s', '1', '1')",
                   topic);
    script(pg, sql);
    pid_t relay = start_relay();
    wait_empty(pg);
    usleep(3500000); /* the gap below 500 is closed by now */
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (id, topic, key, value) VALUES (7, '%s', '1', '2')", topic);
    script(pg, sql);
    int64_t began = clock_mono_ms();
    wait_empty(pg);
    print_message("found after %" PRId64 " ms\n", clock_mono_ms() - began);
    assert_true(clock_mono_ms() - began < 7000);
    end_relay(relay);
    pg_free(pg);
}

/* One read is bounded in bytes as well as in rows, and goes on behind the bound. */
static void large_rows_flow_within_bounded_memory(void **state)
{
    (void)state;
    char topic[64], sql[300];
    fresh_topic(topic, 1, NULL);
    struct pg *pg = database();
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (topic, key, value) SELECT '%s', (i %% 3)::text::bytea, "
                   "convert_to(repeat('x', 800000), 'UTF8') FROM generate_series(1, 200) i",
                   topic);
    script(pg, sql);
    pid_t relay = start_relay();
    wait_empty(pg);
    char path[64], line[128];
    long peak_kb = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)relay);
    FILE *status = fopen(path, "r");
    assert_non_null(status);
    while (fgets(line, sizeof line, status))
        (void)sscanf(line, "VmHWM: %ld", &peak_kb);
    (void)fclose(status);
    print_message("160 MB of rows, peak %ld kB\n", peak_kb);
#ifndef __SANITIZE_ADDRESS__
    assert_in_range(peak_kb, 1, 64 * 1024);
#endif
    assert_int_equal(number(pg, "SELECT count(*) FROM outbox_failed"), 0);
    end_relay(relay);
    pg_free(pg);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "relay") == 0)
        return relay_main();
    (void)argv;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_killed_and_a_stopped_leader_are_replaced_within_two_seconds,
                               schema),
        cmocka_unit_test_setup(a_leader_that_waits_for_kafka_stays_the_leader, schema),
        cmocka_unit_test_setup(a_refused_row_waits_with_its_key_and_the_rest_flows, schema),
        cmocka_unit_test_setup(a_row_with_an_old_id_is_found_by_the_full_look, schema),
        cmocka_unit_test_setup(large_rows_flow_within_bounded_memory, schema),
        cmocka_unit_test_setup(every_row_arrives_in_order_whoever_is_killed, schema),
    };
    return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}

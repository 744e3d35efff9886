/* The consumer on a real broker: places, rebalances, pauses, and a broker that freezes and dies. */
#ifdef __clang__ /* librdkafka's RD_KAFKA_V_… macros */
#pragma clang diagnostic ignored "-Wgnu-statement-expression"
#endif
#include "kafka_kit.h"

#include <librdkafka/rdkafka.h>

enum { WAIT_MS = 30000 };

struct owner {
    struct kafka_consumer *c;
    bool follow;   /* a later assignment goes on where we are, as a database would say */
    int64_t start; /* offset every partition starts at */
    int refuse;    /* so many times on_assign says RC_RETRY */
    int assigns;   /* calls that gave an answer */
    int revokes;
    int lost;
    size_t held;
    int eofs;
    int64_t eof_offset;
    int next; /* the value expected next */
    int messages;
};

static int on_assign(void *arg, struct kafka_start *starts, size_t count, struct fault *f)
{
    struct owner *o = arg;
    if (o->refuse > 0) {
        o->refuse--;
        return fault_set(f, RC_RETRY, "the database is away");
    }
    for (size_t i = 0; i < count; i++)
        starts[i].offset = o->start;
    o->assigns++;
    o->held = count;
    return 0;
}

static void on_revoke(void *arg, bool lost)
{
    struct owner *o = arg;
    o->revokes++;
    o->lost += lost;
    o->held = 0;
}

static void join_as(struct owner *o, const char *topic, const char *group, const char *instance)
{
    const char *topics[] = {topic, NULL};
    struct kafka_consumer_options options = {.client = kit_client("kit-consumer"),
                                             .group = group,
                                             .instance_id = instance,
                                             .topics = topics,
                                             .session_timeout_ms = 6000,
                                             .assign_retry_ms = 100,
                                             .on_assign = on_assign,
                                             .on_revoke = on_revoke,
                                             .arg = o};
    OK(kafka_consumer_open(&options, &o->c, f));
}

/* One poll. Messages must come in order of their values; they are freed at once. */
static enum kafka_event_kind step(struct owner *o)
{
    struct kafka_event e;
    struct fault why;
    int rc = kafka_consumer_poll(o->c, 50, &e, &why);
    if (rc == RC_FATAL)
        fail_msg("%s", why.text);
    if (e.kind == KAFKA_EVENT_MESSAGE) {
        assert_int_equal(value_number(&e.message), o->next);
        o->next++;
        o->messages++;
        if (o->follow)
            o->start = o->next;
        kafka_message_free(&e.message);
    } else if (e.kind == KAFKA_EVENT_EOF) {
        o->eofs++;
        o->eof_offset = e.offset;
    }
    return e.kind;
}

#define UNTIL(owner, condition)                             \
    do {                                                    \
        int64_t until_deadline = clock_mono_ms() + WAIT_MS; \
        while (!(condition)) {                              \
            if (clock_mono_ms() > until_deadline)           \
                fail_msg("waited for %s", #condition);      \
            (void)step(owner);                              \
        }                                                   \
    } while (0)

static void starts_where_its_owner_says_and_tells_the_end(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    fill(topic, 0, 0, 100);
    struct owner o = {.start = 40, .next = 40, .refuse = 2};
    join_as(&o, topic, topic, NULL);
    UNTIL(&o, o.eofs == 1);
    assert_int_equal(o.messages, 60);
    assert_int_equal(o.eof_offset, 100);
    assert_int_equal(o.refuse, 0);
    struct kafka_start held;
    assert_int_equal(kafka_consumer_assignment(o.c, &held, 1), 1);
    assert_int_equal(held.offset, 100);
    fill(topic, 0, 100, 5);
    UNTIL(&o, o.eofs == 2);
    assert_int_equal(o.messages, 65);
    kafka_consumer_close(o.c);
    assert_int_equal(o.revokes, 1);
}

static void reads_a_place_outside_of_any_group(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 2, NULL);
    fill(topic, 1, 0, 10);
    struct owner o = {.next = 4};
    struct kafka_start place = {topic, 1, 4};
    struct kafka_consumer_options options = {
        .client = kit_client("kit-reader"), .places = &place, .place_count = 1};
    OK(kafka_consumer_open(&options, &o.c, f));
    int64_t until = clock_mono_ms() + WAIT_MS;
    while (o.eofs == 0 && clock_mono_ms() < until)
        step(&o);
    assert_int_equal(o.messages, 6);
    assert_int_equal(o.eof_offset, 10);
    OK(kafka_consumer_seek(o.c, topic, 1, 8, f));
    o.next = 8;
    while (o.messages < 8 && clock_mono_ms() < until)
        step(&o);
    assert_int_equal(o.messages, 8);
    kafka_consumer_close(o.c);
}

static void an_offset_outside_the_log_is_told_with_its_bounds(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    fill(topic, 0, 0, 20);
    struct kafka_client_options client = kit_client("kit-admin");
    struct kafka_admin *a;
    OK(kafka_admin_open(&client, &a, f));
    struct kafka_place cut = {topic, 0, 10};
    OK(kafka_admin_delete_records(a, &cut, 1, 10000, f));
    kafka_admin_close(a);
    const int64_t bad[] = {3, 500};
    for (int i = 0; i < 2; i++) {
        struct owner o = {.start = bad[i], .next = 10};
        char group[80];
        (void)snprintf(group, sizeof group, "%s-%d", topic, i);
        join_as(&o, topic, group, NULL);
        struct kafka_event e;
        int64_t deadline = clock_mono_ms() + WAIT_MS;
        do {
            struct fault why;
            assert_int_not_equal(kafka_consumer_poll(o.c, 100, &e, &why), RC_FATAL);
            assert_int_not_equal(e.kind, KAFKA_EVENT_MESSAGE);
            assert_true(clock_mono_ms() < deadline);
        } while (e.kind != KAFKA_EVENT_OUT_OF_RANGE);
        assert_int_equal(e.offset, bad[i]);
        assert_int_equal(e.low, 10);
        assert_int_equal(e.high, 20);
        OK(kafka_consumer_seek(o.c, topic, 0, 10, f));
        UNTIL(&o, o.messages == 10);
        kafka_consumer_close(o.c);
    }
}

static void seeks_back_stops_and_restarts_a_partition(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    fill(topic, 0, 0, 1000);
    struct owner o = {.start = 0};
    join_as(&o, topic, topic, NULL);
    for (int round = 0; round < 5; round++) {
        UNTIL(&o, o.next >= 300 + round);
        OK(kafka_consumer_seek(o.c, topic, 0, 100, f));
        o.next = 100; /* anything else next fails the test */
    }
    UNTIL(&o, o.next == 500);
    OK(kafka_consumer_seek(o.c, topic, 0, KAFKA_OFFSET_NONE, f));
    int64_t quiet = clock_mono_ms() + 500;
    while (clock_mono_ms() < quiet)
        assert_int_not_equal(step(&o), KAFKA_EVENT_MESSAGE);
    OK(kafka_consumer_seek(o.c, topic, 0, 500, f));
    UNTIL(&o, o.next == 1000);
    struct fault why;
    assert_int_equal(kafka_consumer_seek(o.c, topic, 9, 0, &why), RC_REJECT);
    kafka_consumer_close(o.c);
}

static void a_pause_keeps_membership_and_place(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    fill(topic, 0, 0, 500);
    struct owner o = {.start = 0};
    join_as(&o, topic, topic, NULL);
    UNTIL(&o, o.next == 200);
    kafka_consumer_pause(o.c);
    int64_t quiet = clock_mono_ms() + 7000; /* longer than the session */
    while (clock_mono_ms() < quiet)
        assert_int_not_equal(step(&o), KAFKA_EVENT_MESSAGE);
    assert_int_equal(o.revokes, 0);
    kafka_consumer_resume(o.c);
    UNTIL(&o, o.next == 500);
    kafka_consumer_close(o.c);
}

static void two_members_share_and_a_pause_holds_over_the_rebalance(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 4, NULL);
    struct owner a = {.start = 0}, b = {.start = 0};
    join_as(&a, topic, topic, NULL);
    UNTIL(&a, a.held == 4);
    kafka_consumer_pause(a.c);
    join_as(&b, topic, topic, NULL);
    int64_t deadline = clock_mono_ms() + WAIT_MS;
    while (a.held != 2 || b.held != 2) {
        assert_true(clock_mono_ms() < deadline);
        (void)step(&a);
        (void)step(&b);
    }
    assert_true(a.revokes >= 1);
    struct kafka_start held[4];
    assert_int_equal(kafka_consumer_assignment(a.c, held, 4), 2);
    fill(topic, held[0].partition, 0, 10);
    int64_t quiet = clock_mono_ms() + 500;
    while (clock_mono_ms() < quiet)
        assert_int_not_equal(step(&a), KAFKA_EVENT_MESSAGE);
    kafka_consumer_resume(a.c);
    UNTIL(&a, a.messages == 10);
    kafka_consumer_close(b.c);
    UNTIL(&a, a.held == 4);
    kafka_consumer_close(a.c);
}

static void a_static_member_is_taken_over_at_once_and_the_old_one_is_fenced(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    struct owner old = {.start = 0}, fresh = {.start = 0};
    join_as(&old, topic, topic, "member-1");
    UNTIL(&old, old.held == 1);
    int64_t began = clock_mono_ms();
    join_as(&fresh, topic, topic, "member-1");
    UNTIL(&fresh, fresh.held == 1);
    int64_t took = clock_mono_ms() - began;
    print_message("taken over after %" PRId64 " ms\n", took);
    assert_true(took < 3000);
    struct kafka_event e;
    struct fault why;
    int rc;
    do {
        rc = kafka_consumer_poll(old.c, 100, &e, &why);
        assert_true(clock_mono_ms() - began < WAIT_MS);
    } while (rc != RC_FATAL);
    assert_non_null(strstr(why.text, "FENCED"));
    kafka_consumer_close(old.c);
    kafka_consumer_close(fresh.c);
}

/* Control records take offsets: the end is past the last message + 1. */
static void transactional(const char *topic, bool commit, int first, int count)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", need_env("URR_TEST_KAFKA"), why, sizeof why);
    rd_kafka_conf_set(conf, "transactional.id", topic, why, sizeof why);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    assert_non_null(rk);
    assert_null(rd_kafka_init_transactions(rk, 30000));
    assert_null(rd_kafka_begin_transaction(rk));
    for (int i = first; i < first + count; i++) {
        char value[16];
        size_t len = (size_t)snprintf(value, sizeof value, "%d", i);
        assert_int_equal(rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(0),
                                           RD_KAFKA_V_VALUE(value, len),
                                           RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                           RD_KAFKA_V_END),
                         0);
    }
    if (commit)
        assert_null(rd_kafka_commit_transaction(rk, 30000));
    else {
        rd_kafka_flush(rk, 10000);
        assert_null(rd_kafka_abort_transaction(rk, 30000));
    }
    rd_kafka_destroy(rk);
}

static int64_t ask_end(struct owner *o)
{
    static int64_t tag;
    tag++;
    struct kafka_start end;
    size_t count = 0;
    int64_t got = 0, deadline = clock_mono_ms() + WAIT_MS;
    OK(kafka_consumer_ends_ask(o->c, tag, f));
    while (!kafka_consumer_ends_take(o->c, &got, &end, 1, &count)) {
        assert_true(clock_mono_ms() < deadline);
        (void)step(o);
    }
    assert_int_equal(got, tag);
    return count == 1 ? end.offset : -1;
}

static void control_records_do_not_confuse_end_and_place(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    transactional(topic, true, 0, 5);   /* 0-4, marker 5 */
    transactional(topic, false, 90, 3); /* 6-8 aborted, marker 9 */
    struct owner o = {.start = 0};
    join_as(&o, topic, topic, NULL);
    UNTIL(&o, o.eofs >= 1 && o.eof_offset == 10);
    assert_int_equal(o.messages, 5);
    assert_int_equal(ask_end(&o), 10);
    int64_t low = -1, high = -1;
    OK(kafka_consumer_watermarks(o.c, topic, 0, 5000, &low, &high, f));
    assert_int_equal(low, 0);
    assert_int_equal(high, 10);
    kafka_consumer_close(o.c);
    struct owner again = {.start = 5, .next = 5}; /* the database's: last message + 1 */
    join_as(&again, topic, topic, NULL);
    UNTIL(&again, again.eofs >= 1);
    assert_int_equal(again.eof_offset, 10);
    fill(topic, 0, 5, 3);
    UNTIL(&again, again.messages == 3);
    kafka_consumer_close(again.c);
}

static void commits_are_seen_by_lag_tools(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    fill(topic, 0, 0, 10);
    struct owner o = {.start = 0};
    join_as(&o, topic, topic, NULL);
    UNTIL(&o, o.messages == 10);
    struct kafka_start at = {topic, 0, 0};
    OK(kafka_consumer_committed(o.c, &at, 1, 5000, f));
    assert_int_equal(at.offset, KAFKA_OFFSET_NONE);
    at.offset = 7;
    kafka_consumer_commit(o.c, &at, 1);
    int64_t deadline = clock_mono_ms() + WAIT_MS;
    do {
        (void)step(&o);
        OK(kafka_consumer_committed(o.c, &at, 1, 5000, f));
        assert_true(clock_mono_ms() < deadline);
    } while (at.offset != 7);
    kafka_consumer_close(o.c);
}

static void keeps_order_through_a_freeze_and_a_kill_of_the_broker(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    fill(topic, 0, 0, 3000);
    struct owner o = {.start = 0, .follow = true};
    join_as(&o, topic, topic, NULL);
    UNTIL(&o, o.next == 1000);
    control("freeze");
    assert_int_equal(ask_end(&o), -1); /* does not block, and says it does not know */
    control("thaw");
    UNTIL(&o, o.next >= 2000);
    control("kill");
    for (int i = 0; i < 20; i++)
        (void)step(&o);
    control("start");
    UNTIL(&o, o.next == 3000);
    fill(topic, 0, 3000, 10);
    UNTIL(&o, o.next == 3010);
    assert_true(ask_end(&o) >= 3010);
    assert_true(kafka_consumer_connected(o.c));
    kafka_consumer_close(o.c);
}

static void closes_at_once_with_messages_held(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    fill(topic, 0, 0, 100);
    struct owner o = {.start = 0};
    join_as(&o, topic, topic, NULL);
    int held = 0;
    while (held < 50) {
        struct kafka_event e;
        OK(kafka_consumer_poll(o.c, 100, &e, f));
        held += e.kind == KAFKA_EVENT_MESSAGE;
    }
    int64_t began = clock_mono_ms();
    kafka_consumer_close(o.c);
    assert_true(clock_mono_ms() - began < 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_where_its_owner_says_and_tells_the_end),
        cmocka_unit_test(reads_a_place_outside_of_any_group),
        cmocka_unit_test(an_offset_outside_the_log_is_told_with_its_bounds),
        cmocka_unit_test(seeks_back_stops_and_restarts_a_partition),
        cmocka_unit_test(a_pause_keeps_membership_and_place),
        cmocka_unit_test(two_members_share_and_a_pause_holds_over_the_rebalance),
        cmocka_unit_test(a_static_member_is_taken_over_at_once_and_the_old_one_is_fenced),
        cmocka_unit_test(control_records_do_not_confuse_end_and_place),
        cmocka_unit_test(commits_are_seen_by_lag_tools),
        cmocka_unit_test(closes_at_once_with_messages_held),
        cmocka_unit_test(keeps_order_through_a_freeze_and_a_kill_of_the_broker),
    };
    return cmocka_run_group_tests_name("kafka_consumer", tests, NULL, NULL);
}

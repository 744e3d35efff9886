/* The producer on a real broker: partitions like Java's, one fate each, order through kills. */
#include "kafka_kit.h"

enum { WAIT_MS = 60000 };

static int from_start(void *arg, struct kafka_start *starts, size_t count, struct fault *f)
{
    (void)arg;
    (void)f;
    for (size_t i = 0; i < count; i++)
        starts[i].offset = KAFKA_OFFSET_BEGINNING;
    return 0;
}

static struct kafka_consumer *reader(const char *topic)
{
    const char *topics[] = {topic, NULL};
    struct kafka_consumer_options o = {.client = kit_client("kit-reader"),
                                       .group = topic,
                                       .topics = topics,
                                       .on_assign = from_start};
    struct kafka_consumer *c;
    OK(kafka_consumer_open(&o, &c, f));
    return c;
}

static struct kafka_message next_message(struct kafka_consumer *c)
{
    int64_t deadline = clock_mono_ms() + WAIT_MS;
    for (;;) {
        struct kafka_event e;
        struct fault why;
        assert_int_not_equal(kafka_consumer_poll(c, 200, &e, &why), RC_FATAL);
        if (e.kind == KAFKA_EVENT_MESSAGE)
            return e.message;
        assert_true(clock_mono_ms() < deadline);
    }
}

/* Computed with org.apache.kafka.common.utils.Utils of kafka-clients 3.9.1:
 * toPositive(murmur2(key)) % 3 and % 7. (A key of no bytes is spread at random by librdkafka, as
 * one without key is by Java; it is not in the table.) */
static const struct {
    const char *key;
    int of3, of7;
} JAVA[] = {{"order-1", 1, 4},
            {"order-2", 0, 1},
            {"order-3", 0, 4},
            {"order-4", 2, 0},
            {"order-5", 2, 6},
            {"ORD-2026-000001", 0, 2},
            {"ORD-2026-000002", 1, 4},
            {"user@example.com", 0, 6},
            {"abc-123", 1, 4},
            {"a", 1, 5},
            {"\xec\xa3\xbc\xeb\xac\xb8-42", 1, 4},
            {"0191f7c4-3b2a-7c11-8e1f-000000000001", 0, 2},
            {"0191f7c4-3b2a-7c11-8e1f-000000000002", 1, 4},
            {"0191f7c4-3b2a-7c11-8e1f-000000000003", 1, 0},
            {"toss_20261118_000777", 0, 2},
            {"x y z", 2, 3},
            {"PAYMENT", 2, 6},
            {"ffffffffffffffffffffffffffffffff", 2, 2},
            {"9", 2, 1},
            {"order-21", 2, 0}};

struct places {
    int32_t partition[32];
};

static void on_place(void *arg, const struct kafka_delivery *d)
{
    struct places *places = arg;
    assert_int_equal(d->outcome, KAFKA_DELIVERED);
    places->partition[(intptr_t)d->tag] = d->partition;
}

static void chooses_the_partitions_java_chooses(void **state)
{
    (void)state;
    const int counts[] = {3, 7};
    for (int n = 0; n < 2; n++) {
        char topic[64];
        fresh_topic(topic, counts[n], NULL);
        struct places places;
        struct kafka_producer_options o = {
            .client = kit_client("kit-producer"), .on_delivery = on_place, .arg = &places};
        struct kafka_producer *p;
        OK(kafka_producer_open(&o, &p, f));
        for (size_t i = 0; i < sizeof JAVA / sizeof *JAVA; i++) {
            struct kafka_record r = {.topic = topic,
                                     .key = JAVA[i].key,
                                     .key_len = strlen(JAVA[i].key),
                                     .value = "v",
                                     .value_len = 1,
                                     .tag = (void *)(intptr_t)i};
            OK(kafka_producer_send(p, &r, f));
        }
        OK(kafka_producer_flush(p, WAIT_MS, f));
        for (size_t i = 0; i < sizeof JAVA / sizeof *JAVA; i++)
            assert_int_equal(places.partition[i], n == 0 ? JAVA[i].of3 : JAVA[i].of7);
        kafka_producer_close(p);
    }
}

static void carries_headers_time_and_absent_values(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    struct fates fates;
    struct kafka_producer *p = kit_producer(&fates);
    const struct kafka_header headers[] = {
        {"reason", "bad_id", 6}, {"empty", "", 0}, {"none", NULL, 0}, {"reason", "again", 5}};
    struct kafka_record full = {.topic = topic,
                                .key = "k\0k",
                                .key_len = 3,
                                .value = "body",
                                .value_len = 4,
                                .borrow_value = true,
                                .headers = headers,
                                .header_count = 4,
                                .timestamp_ms = INT64_C(1600000000123)};
    struct kafka_record bare = {.topic = topic};
    OK(kafka_producer_send(p, &full, f));
    OK(kafka_producer_send(p, &bare, f));
    OK(kafka_producer_flush(p, WAIT_MS, f));
    kafka_producer_close(p);
    struct kafka_consumer *c = reader(topic);
    struct kafka_message a = next_message(c), b = next_message(c);
    struct kafka_header got[8];
    assert_int_equal(kafka_message_headers(&a, got, 8), 4);
    assert_string_equal(got[0].name, "reason");
    assert_memory_equal(got[0].value, "bad_id", 6);
    assert_int_equal(got[1].len, 0);
    assert_non_null(got[1].value);
    assert_null(got[2].value);
    assert_memory_equal(got[3].value, "again", 5);
    assert_int_equal(a.timestamp_ms, INT64_C(1600000000123));
    assert_int_equal(a.timestamp_type, KAFKA_TIME_CREATE);
    assert_int_equal(a.key_len, 3);
    assert_memory_equal(a.key, "k\0k", 3);
    assert_memory_equal(a.value, "body", 4);
    assert_null(b.key);
    assert_null(b.value);
    assert_int_equal(kafka_message_headers(&b, got, 8), 0);
    kafka_message_free(&a);
    kafka_message_free(&b);
    kafka_consumer_close(c);
}

static void a_full_queue_and_a_large_record_are_told_at_once(void **state)
{
    (void)state;
    struct fates fates = {0};
    struct kafka_producer_options o = {
        .client = {.brokers = "127.0.0.1:1", .client_id = "kit-nobody"},
        .forever = true,
        .max_messages = 10,
        .on_delivery = on_fate,
        .arg = &fates};
    struct kafka_producer *p;
    OK(kafka_producer_open(&o, &p, f));
    struct kafka_record r = {.topic = "t", .value = "v", .value_len = 1};
    struct fault why;
    int sent = 0;
    while (kafka_producer_send(p, &r, &why) == 0)
        sent++;
    assert_int_equal(sent, 10);
    assert_int_equal(why.rc, RC_RETRY);
    char *big = calloc(1, 2000000);
    r.value = big;
    r.value_len = 2000000;
    assert_int_equal(kafka_producer_send(p, &r, &why), RC_REJECT);
    free(big);
    assert_int_equal(kafka_producer_flush(p, 50, &why), RC_RETRY);
    assert_int_equal(kafka_producer_pending(p), 10);
    int64_t began = clock_mono_ms();
    kafka_producer_close(p);
    assert_true(clock_mono_ms() - began < 5000);
    assert_int_equal(fates.count[KAFKA_ABANDONED], 10);
}

struct resend {
    int first_bad; /* lowest tag that must be sent again */
    int delivered, refused, bad;
    int after_bad; /* delivered after one before it was not: the gap the owner fears */
};

static void on_resend(void *arg, const struct kafka_delivery *d)
{
    struct resend *s = arg;
    int n = (int)(intptr_t)d->tag;
    if (d->outcome == KAFKA_DELIVERED) {
        s->delivered++;
        s->after_bad += s->bad > 0 && n > s->first_bad;
        return;
    }
    s->refused += d->outcome == KAFKA_REFUSED;
    if (s->bad++ == 0 || n < s->first_bad)
        s->first_bad = n;
}

static struct kafka_producer *resend_producer(struct resend *s)
{
    struct kafka_producer_options o = {
        .client = kit_client("kit-resend"), .forever = true, .on_delivery = on_resend, .arg = s};
    struct kafka_producer *p;
    OK(kafka_producer_open(&o, &p, f));
    return p;
}

static int try_number(struct kafka_producer *p, const char *topic, int n, size_t padding)
{
    char value[300000] = "";
    int len = snprintf(value, sizeof value, "%d", n);
    struct kafka_record r = {.topic = topic,
                             .to_partition = true,
                             .value = value,
                             .value_len = (size_t)len + padding,
                             .tag = (void *)(intptr_t)n};
    return kafka_producer_send(p, &r, NULL);
}

static void send_number(struct kafka_producer *p, const char *topic, int n, size_t padding)
{
    assert_int_equal(try_number(p, topic, n, padding), 0);
}

static void a_dead_handle_is_made_anew_and_nothing_is_lost(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    struct resend s = {0};
    struct kafka_producer *p = resend_producer(&s);
    for (int i = 0; i < 500; i++)
        send_number(p, topic, i, 0);
    (void)kafka_producer_poll(p, 20);
    kafka_producer_test_fatal(p);
    (void)kafka_producer_poll(p, 0);
    OK(kafka_producer_flush(p, WAIT_MS, f));
    assert_int_equal(s.delivered + s.bad, 500);
    assert_int_equal(s.after_bad, 0);
    int again = s.bad ? s.first_bad : 500;
    s.bad = 0;
    for (int i = again; i < 600; i++)
        send_number(p, topic, i, 0);
    OK(kafka_producer_flush(p, WAIT_MS, f));
    assert_int_equal(s.bad, 0);
    kafka_producer_close(p);
    struct kafka_consumer *c = reader(topic);
    int seen = 0; /* first appearances must be in order, without a gap */
    while (seen < 600) {
        struct kafka_message m = next_message(c);
        int n = value_number(&m);
        assert_true(n <= seen);
        if (n == seen)
            seen++;
        kafka_message_free(&m);
    }
    kafka_consumer_close(c);
}

static void nothing_is_written_after_a_record_the_broker_refuses(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, (const char *const[]){"max.message.bytes", "100000", NULL});
    struct resend s = {0};
    struct kafka_producer *p = resend_producer(&s);
    int taken = 0;
    while (taken < 200 && try_number(p, topic, taken, taken == 50 ? 200000 : 1000) == 0) {
        taken++;
        usleep(500); /* many batches, and an owner that learns of the refusal late */
    }
    OK(kafka_producer_flush(p, WAIT_MS, f));
    print_message("delivered %d, refused %d, reported %d, first %d\n", s.delivered, s.refused,
                  s.bad, s.first_bad);
    assert_true(s.refused >= 1);
    assert_true(s.first_bad <= 50);
    assert_int_equal(s.delivered + s.bad, taken);
    assert_true(taken > 51);
    kafka_producer_close(p);
    struct kafka_consumer *c = reader(topic);
    for (int i = 0; i < s.delivered; i++) {
        struct kafka_message m = next_message(c);
        if (i < s.first_bad)
            assert_int_equal(value_number(&m), i);
        kafka_message_free(&m);
    }
    kafka_consumer_close(c);
    assert_int_equal(s.after_bad, 0);
}

static void delivers_all_in_order_after_the_broker_was_killed_and_frozen(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    struct fates fates;
    struct kafka_producer *p = kit_producer(&fates);
    for (int i = 0; i < 3000; i++) {
        if (i == 1000)
            control("kill");
        if (i == 2000)
            control("start");
        if (i == 2500)
            control("freeze");
        send_number(p, topic, i, 0);
        (void)kafka_producer_poll(p, 0);
    }
    (void)kafka_producer_poll(p, 2000);
    control("thaw");
    OK(kafka_producer_flush(p, WAIT_MS, f));
    assert_int_equal(fates.count[KAFKA_DELIVERED], 3000);
    assert_int_equal(fates.disorder, 0);
    assert_true(kafka_producer_connected(p));
    kafka_producer_close(p);
    struct kafka_consumer *c = reader(topic);
    for (int i = 0; i < 3000; i++) {
        struct kafka_message m = next_message(c);
        assert_int_equal(value_number(&m), i);
        kafka_message_free(&m);
    }
    kafka_consumer_close(c);
}

/* Asked for by librdkafka's timer, each new topic would wait for the next full second. */
static void a_topic_it_never_saw_is_found_at_once(void **state)
{
    (void)state;
    enum { TOPICS = 8 };
    char topics[TOPICS][64];
    for (int i = 0; i < TOPICS; i++)
        fresh_topic(topics[i], 1, NULL);
    struct fates fates;
    struct kafka_producer *p = kit_producer(&fates);
    send_number(p, topics[0], 0, 0);
    OK(kafka_producer_flush(p, WAIT_MS, f));
    int64_t began = clock_mono_ms();
    for (int i = 1; i < TOPICS; i++) {
        send_number(p, topics[i], i, 0);
        OK(kafka_producer_flush(p, WAIT_MS, f));
    }
    int64_t took = clock_mono_ms() - began;
    print_message("%d new topics: %" PRId64 " ms\n", TOPICS - 1, took);
    assert_true(took < 3000);
    kafka_producer_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_the_partitions_java_chooses),
        cmocka_unit_test(a_topic_it_never_saw_is_found_at_once),
        cmocka_unit_test(carries_headers_time_and_absent_values),
        cmocka_unit_test(a_full_queue_and_a_large_record_are_told_at_once),
        cmocka_unit_test(a_dead_handle_is_made_anew_and_nothing_is_lost),
        cmocka_unit_test(nothing_is_written_after_a_record_the_broker_refuses),
        cmocka_unit_test(delivers_all_in_order_after_the_broker_was_killed_and_frozen),
    };
    return cmocka_run_group_tests_name("kafka_producer", tests, NULL, NULL);
}

/* Topics, watermarks and group offsets on a real broker. */
#include "kafka_kit.h"

static struct kafka_admin *admin(void)
{
    struct kafka_client_options o = kit_client("kit-admin");
    struct kafka_admin *a;
    OK(kafka_admin_open(&o, &a, f));
    OK(kafka_admin_ping(a, 20000, f));
    return a;
}

static void says_what_exists_and_what_differs(void **state)
{
    (void)state;
    char topic[64], other[70];
    fresh_topic(topic, 2, NULL);
    (void)snprintf(other, sizeof other, "%s-b", topic);
    struct kafka_admin *a = admin();
    struct kafka_topic_spec specs[] = {
        {topic, 2, 1, NULL},
        {topic, 2, 1, NULL},
        {other, 3, 1, (const char *const[]){"retention.ms", "-1", NULL}}};
    struct kafka_topic_result r[3];
    OK(kafka_admin_create_topics(a, &specs[0], 1, r, 20000, f));
    assert_int_equal(r[0].outcome, KAFKA_TOPIC_EXISTS);
    assert_int_equal(r[0].partitions, 2);
    specs[1].partitions = 5;
    OK(kafka_admin_create_topics(a, &specs[1], 2, r, 20000, f));
    assert_int_equal(r[0].outcome, KAFKA_TOPIC_DIFFERS);
    assert_int_equal(r[0].partitions, 2);
    assert_int_equal(r[1].outcome, KAFKA_TOPIC_CREATED);
    assert_int_equal(r[1].partitions, 3);
    OK(kafka_admin_delete_topics(a, (const char *const[]){topic, other, "never-was"}, 3, 20000, f));
    int32_t left = -1;
    int64_t deadline = clock_mono_ms() + 10000;
    do
        OK(kafka_admin_partitions(a, topic, 5000, &left, f));
    while (left != 0 && clock_mono_ms() < deadline);
    assert_int_equal(left, 0);
    kafka_admin_close(a);
}

static void a_bad_topic_fails_alone_with_its_reason(void **state)
{
    (void)state;
    char good[64];
    (void)snprintf(good, sizeof good, "good-%d-%" PRId64, (int)getpid(), clock_wall_ms());
    struct kafka_admin *a = admin();
    struct kafka_topic_spec specs[] = {{"bad name!", 1, 1, NULL}, {good, 1, 1, NULL}};
    struct kafka_topic_result r[2];
    struct fault why;
    assert_int_equal(kafka_admin_create_topics(a, specs, 2, r, 20000, &why), RC_REJECT);
    assert_int_equal(r[0].outcome, KAFKA_TOPIC_FAILED);
    assert_true(r[0].reason[0] != '\0');
    assert_int_equal(r[1].outcome, KAFKA_TOPIC_CREATED);
    kafka_admin_close(a);
}

static void finds_offsets_by_time_and_watermarks(void **state)
{
    (void)state;
    char topic[64];
    fresh_topic(topic, 1, NULL);
    struct fates fates;
    struct kafka_producer *p = kit_producer(&fates);
    for (int i = 0; i < 10; i++) {
        struct kafka_record r = {.topic = topic,
                                 .value = "v",
                                 .value_len = 1,
                                 .timestamp_ms = INT64_C(1700000000000) + i * 1000};
        OK(kafka_producer_send(p, &r, f));
        OK(kafka_producer_flush(p, 20000, f));
    }
    kafka_producer_close(p);
    struct kafka_admin *a = admin();
    struct kafka_place at = {topic, 0, INT64_C(1700000004500)};
    OK(kafka_admin_offsets_for_times(a, &at, 1, 10000, f));
    assert_int_equal(at.offset, 5);
    at.offset = INT64_C(1800000000000);
    OK(kafka_admin_offsets_for_times(a, &at, 1, 10000, f));
    assert_int_equal(at.offset, KAFKA_OFFSET_END);
    int64_t low, high;
    at.offset = 3;
    OK(kafka_admin_delete_records(a, &at, 1, 10000, f));
    OK(kafka_admin_watermarks(a, topic, 0, 10000, &low, &high, f));
    assert_int_equal(low, 3);
    assert_int_equal(high, 10);
    struct fault why;
    assert_int_not_equal(kafka_admin_watermarks(a, topic, 7, 3000, &low, &high, &why), 0);
    OK(kafka_admin_group_offsets(a, "nobody-ever", &at, 1, 10000, f));
    assert_int_equal(at.offset, KAFKA_OFFSET_NONE);
    kafka_admin_close(a);
}

static void a_broker_that_is_away_is_a_matter_of_time(void **state)
{
    (void)state;
    struct kafka_client_options o = {.brokers = "127.0.0.1:1", .client_id = "kit-nobody"};
    struct kafka_admin *a;
    OK(kafka_admin_open(&o, &a, f));
    struct fault why;
    assert_int_equal(kafka_admin_ping(a, 300, &why), RC_RETRY);
    struct kafka_topic_spec spec = {"t", 1, 1, NULL};
    struct kafka_topic_result r;
    assert_int_equal(kafka_admin_create_topics(a, &spec, 1, &r, 500, &why), RC_RETRY);
    kafka_admin_close(a);
}

static void the_logs_bounds_are_asked_for_a_bounded_time(void **state)
{
    (void)state;
    char topic[64];
    int64_t low, high;
    struct fault why;
    fresh_topic(topic, 1, NULL);
    struct kafka_admin *a = admin();
    OK(kafka_admin_watermarks(a, topic, 0, 10000, &low, &high, f));
    control("freeze");
    int64_t start = clock_mono_ms();
    int rc = kafka_admin_watermarks(a, topic, 0, 500, &low, &high, &why);
    int64_t took = clock_mono_ms() - start;
    control("kill");
    start = clock_mono_ms();
    int dead = kafka_admin_watermarks(a, topic, 0, 500, &low, &high, &why);
    int64_t away = clock_mono_ms() - start;
    control("start");
    assert_int_equal(rc, RC_RETRY);
    assert_int_equal(dead, RC_RETRY);
    assert_true(took < 3000);
    assert_true(away < 3000);
    kafka_admin_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_exists_and_what_differs),
        cmocka_unit_test(a_bad_topic_fails_alone_with_its_reason),
        cmocka_unit_test(finds_offsets_by_time_and_watermarks),
        cmocka_unit_test(a_broker_that_is_away_is_a_matter_of_time),
        cmocka_unit_test(the_logs_bounds_are_asked_for_a_bounded_time),
    };
    return cmocka_run_group_tests_name("kafka_admin", tests, NULL, NULL);
}

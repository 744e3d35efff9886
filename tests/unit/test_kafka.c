/* Error classes and configuration, without a broker. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <librdkafka/rdkafka.h>

#include "runtime/fault.h"
#include "runtime/kafka_client.h"
#include "runtime/metrics.h"

static void errors_say_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(kafka_classify(RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET), KAFKA_RANGE);
    assert_int_equal(kafka_classify(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE), KAFKA_REFUSE);
    assert_int_equal(kafka_classify(RD_KAFKA_RESP_ERR__FATAL), KAFKA_FATAL);
    assert_int_equal(kafka_classify(RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE), KAFKA_FATAL);
    assert_int_equal(kafka_classify(RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID), KAFKA_FATAL);
    assert_int_equal(kafka_classify(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN), KAFKA_RETRY);
    assert_int_equal(kafka_classify(RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC), KAFKA_RETRY);
    assert_int_equal(kafka_classify(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT), KAFKA_RETRY);
    assert_int_equal(kafka_class_rc(KAFKA_REFUSE), RC_REJECT);
    assert_int_equal(kafka_class_rc(KAFKA_RETRY), RC_RETRY);
    assert_int_equal(kafka_class_rc(KAFKA_FATAL), RC_FATAL);
}

static int with_file(const char *content, struct fault *f)
{
    char path[] = "/tmp/test_kafka.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    (void)close(fd);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int rc = kafka_client_properties(conf, path, f);
    rd_kafka_conf_destroy(conf);
    (void)unlink(path);
    return rc;
}

static void a_properties_file_adds_security_but_may_not_undo_our_choices(void **state)
{
    (void)state;
    struct fault f;
    assert_int_equal(with_file("# TLS\n\n security.protocol = ssl \nsocket.timeout.ms=5000\n", &f),
                     0);
    assert_int_equal(with_file("enable.idempotence=false\n", &f), RC_FATAL);
    assert_non_null(strstr(f.text, "line 1: enable.idempotence"));
    assert_int_equal(with_file("a=b\n", &f), RC_FATAL);
    assert_int_equal(with_file("just words\n", &f), RC_FATAL);
}

static void a_refused_value_is_not_repeated(void **state)
{
    (void)state;
    struct fault f;
    assert_int_equal(with_file("security.protocol=hunter2-secret\n", &f), RC_FATAL);
    assert_null(strstr(f.text, "hunter2"));
    assert_non_null(strstr(f.text, "security.protocol"));
}

static void a_client_without_brokers_is_refused(void **state)
{
    (void)state;
    struct kafka_client k;
    kafka_client_init(&k, "unit");
    struct kafka_client_options o = {.brokers = ""};
    rd_kafka_conf_t *conf;
    struct fault f;
    assert_int_equal(kafka_client_conf(&k, &o, &conf, &f), RC_FATAL);
    assert_non_null(strstr(f.text, "KAFKA_BROKERS"));
}

static void statistics_become_metrics(void **state)
{
    (void)state;
    struct kafka_client k;
    kafka_client_init(&k, "unit-stats");
    const char *json =
        "{\"tx_bytes\":100,\"rx_bytes\":50,\"msg_cnt\":7,\"brokers\":{"
        "\"a\":{\"nodeid\":1,\"state\":\"UP\",\"rtt\":{\"p99\":2500}},"
        "\"b\":{\"nodeid\":-1,\"state\":\"UP\"},\"c\":{\"nodeid\":2,\"state\":\"DOWN\"}},"
        "\"topics\":{\"t\":{\"partitions\":{\"0\":{\"fetchq_size\":30},\"1\":{\"fetchq_size\":12}}}"
        "}}";
    kafka_client_stats(&k, json, strlen(json));
    assert_true(metric_value(k.series[KAFKA_METRIC_SENT]) == 100);
    assert_true(metric_value(k.series[KAFKA_METRIC_UP]) == 1);
    assert_true(metric_value(k.series[KAFKA_METRIC_UNACKED]) == 7);
    assert_true(metric_value(k.series[KAFKA_METRIC_PREFETCHED]) == 42);
    assert_true(metric_value(k.series[KAFKA_METRIC_ROUND_TRIP]) == 0.0025);
    assert_true(atomic_load(&k.connected));
    kafka_client_stats(&k, "{\"tx_bytes\":130,\"brokers\":{}}", 29);
    assert_true(metric_value(k.series[KAFKA_METRIC_SENT]) == 130);
    assert_false(atomic_load(&k.connected));
    kafka_client_stats(&k, "not json", 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_say_what_to_do),
        cmocka_unit_test(a_properties_file_adds_security_but_may_not_undo_our_choices),
        cmocka_unit_test(a_refused_value_is_not_repeated),
        cmocka_unit_test(a_client_without_brokers_is_refused),
        cmocka_unit_test(statistics_become_metrics),
    };
    return cmocka_run_group_tests_name("kafka", tests, NULL, NULL);
}

/* kafka_client.c - configuration, log bridge and statistics of a librdkafka handle. */
#include "runtime/kafka_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"
#include "runtime/metrics.h"

/* librdkafka repeats a connection error at every attempt: so many lines a window, the rest at
 * debug. */
enum { LOG_WINDOW_MS = 10000, LOG_LINES_PER_WINDOW = 5, SYSLOG_WARNING = 4, SILENT_MS = 8000 };

/* Decided by these modules: correctness hangs on them. */
static const char *const OURS[] = {"acks",
                                   "request.required.acks",
                                   "enable.idempotence",
                                   "enable.gapless.guarantee",
                                   "transactional.id",
                                   "partitioner",
                                   "message.timeout.ms",
                                   "delivery.timeout.ms",
                                   "enable.auto.commit",
                                   "enable.auto.offset.store",
                                   "enable.partition.eof",
                                   "auto.offset.reset",
                                   "isolation.level",
                                   "partition.assignment.strategy",
                                   "group.id",
                                   "group.instance.id",
                                   "bootstrap.servers",
                                   "metadata.broker.list",
                                   "client.id",
                                   "opaque",
                                   NULL};

void kafka_client_init(struct kafka_client *k, const char *client_id)
{
    memset(k, 0, sizeof *k);
    (void)snprintf(k->id, sizeof k->id, "%s", client_id ? client_id : "urr");
    const char *label[] = {k->id};
    for (int i = 0; i < KAFKA_METRIC_COUNT_; i++)
        if (!strchr(KAFKA_METRICS[i].labels, ','))
            k->series[i] = metrics_series(&KAFKA_METRICS[i], label);
}

static void count_error(struct kafka_client *k, rd_kafka_resp_err_t error)
{
    atomic_store(&k->last_error, (int)error);
    const char *labels[] = {k->id, rd_kafka_err2name(error)};
    metric_add(metrics_series(&KAFKA_METRICS[KAFKA_METRIC_ERRORS], labels), 1);
}

int kafka_client_error(struct kafka_client *k, rd_kafka_resp_err_t error, const char *context,
                       struct fault *f)
{
    count_error(k, error);
    return fault_set(f, kafka_class_rc(kafka_classify((int)error)), "%s: %s (%s)", context,
                     rd_kafka_err2str(error), rd_kafka_err2name(error));
}

/* Runs on librdkafka's threads. */
static void on_log(const rd_kafka_t *rk, int level, const char *fac, const char *text)
{
    struct kafka_client *k = rd_kafka_opaque(rk);
    enum log_level to = LOG_LEVEL_DEBUG;
    /* CONFWARN: librdkafka calls the gapless guarantee experimental at every start; we know. */
    if (level <= SYSLOG_WARNING && k && strcmp(fac, "CONFWARN") != 0) {
        int64_t now = clock_mono_ms();
        if (now - atomic_load(&k->log_window_ms) > LOG_WINDOW_MS) {
            atomic_store(&k->log_window_ms, now);
            atomic_store(&k->lines_logged, 0);
        }
        if (atomic_fetch_add(&k->lines_logged, 1) < LOG_LINES_PER_WINDOW)
            to = LOG_LEVEL_WARN;
    }
    if (log_enabled(to))
        log_write(to, "librdkafka", LOG_STR("client", k ? k->id : NULL), LOG_STR("facility", fac),
                  LOG_STR("text", text), LOG_END);
}

static void on_error(rd_kafka_t *rk, int error, const char *reason, void *opaque)
{
    struct kafka_client *k = opaque;
    (void)rk;
    count_error(k, (rd_kafka_resp_err_t)error);
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        atomic_store(&k->connected, false);
    LOG_DEBUG("kafka error", LOG_STR("client", k->id), LOG_STR("error", reason));
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* Totals restart with the handle: a smaller one than before is all new. */
static void add_total(struct metric *m, uint64_t *seen, double total)
{
    uint64_t now = total > 0 ? (uint64_t)total : 0;
    metric_add(m, now >= *seen ? now - *seen : now);
    *seen = now;
}

static void broker_stats(const cJSON *broker, int *up, double *p99_us)
{
    const cJSON *state = cJSON_GetObjectItemCaseSensitive(broker, "state");
    /* The group coordinator's and bootstrap connections repeat a real broker: only node ids >= 0.
     */
    if (number(broker, "nodeid") < 0 || !cJSON_IsString(state))
        return;
    if (strcmp(state->valuestring, "UP") == 0)
        (*up)++;
    double p99 = number(cJSON_GetObjectItemCaseSensitive(broker, "rtt"), "p99");
    if (p99 > *p99_us)
        *p99_us = p99;
}

/* A frozen broker's connection stays up. Something sent and nothing heard for a while is silence.
 */
static bool silent(struct kafka_client *k, double rx, double tx)
{
    int64_t now = clock_mono_ms();
    if (rx > k->heard_rx || rx < k->heard_rx || k->heard_ms == 0) {
        k->heard_rx = rx;
        k->heard_tx = tx;
        k->heard_ms = now;
    }
    return tx > k->heard_tx && now - k->heard_ms > SILENT_MS;
}

void kafka_client_stats(struct kafka_client *k, const char *json, size_t len)
{
    cJSON *root = cJSON_ParseWithLength(json, len);
    if (!root)
        return;
    int up = 0;
    double p99_us = 0, prefetched = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "brokers"))
    {
        broker_stats(item, &up, &p99_us);
    }
    const cJSON *partition;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "topics"))
    {
        cJSON_ArrayForEach(partition, cJSON_GetObjectItemCaseSensitive(item, "partitions"))
        {
            prefetched += number(partition, "fetchq_size");
        }
    }
    add_total(k->series[KAFKA_METRIC_SENT], &k->sent_bytes, number(root, "tx_bytes"));
    add_total(k->series[KAFKA_METRIC_RECEIVED], &k->received_bytes, number(root, "rx_bytes"));
    metric_set(k->series[KAFKA_METRIC_UP], up);
    metric_set(k->series[KAFKA_METRIC_ROUND_TRIP], p99_us / 1e6);
    metric_set(k->series[KAFKA_METRIC_UNACKED], number(root, "msg_cnt"));
    metric_set(k->series[KAFKA_METRIC_PREFETCHED], prefetched);
    bool quiet = silent(k, number(root, "rx_bytes"), number(root, "tx_bytes"));
    atomic_store(&k->connected, up > 0 && !quiet);
    cJSON_Delete(root);
}

static int on_stats(rd_kafka_t *rk, char *json, size_t len, void *opaque)
{
    (void)rk;
    kafka_client_stats(opaque, json, len);
    return 0; /* librdkafka frees json */
}

int kafka_client_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct fault *f)
{
    char why[160];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        return fault_set(f, RC_FATAL, "Kafka property %s: %s", name, why);
    return 0;
}

int kafka_client_set_int(rd_kafka_conf_t *conf, const char *name, int64_t value, struct fault *f)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return kafka_client_set(conf, name, text, f);
}

static char *trim(char *s)
{
    while (*s == ' ' || *s == '\t')
        s++;
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r\n", s[n - 1]))
        s[--n] = '\0';
    return s;
}

static int property(rd_kafka_conf_t *conf, char *line, const char *file, int number_,
                    struct fault *f)
{
    char *name = trim(line);
    if (*name == '\0' || *name == '#')
        return 0;
    char *value = strchr(name, '=');
    if (!value)
        return fault_set(f, RC_FATAL, "%s line %d: no name=value", file, number_);
    *value++ = '\0';
    name = trim(name);
    for (size_t i = 0; OURS[i]; i++)
        if (strcmp(name, OURS[i]) == 0)
            return fault_set(f, RC_FATAL, "%s line %d: %s is decided by URR, remove it", file,
                             number_, name);
    /* librdkafka's own text may repeat the value, which may be a password. */
    char why[160];
    rd_kafka_conf_res_t rc = rd_kafka_conf_set(conf, name, trim(value), why, sizeof why);
    if (rc == RD_KAFKA_CONF_UNKNOWN)
        return fault_set(f, RC_FATAL, "%s line %d: librdkafka knows no property %s", file, number_,
                         name);
    if (rc != RD_KAFKA_CONF_OK)
        return fault_set(f, RC_FATAL, "%s line %d: librdkafka refuses the value of %s", file,
                         number_, name);
    return 0;
}

int kafka_client_properties(rd_kafka_conf_t *conf, const char *file, struct fault *f)
{
    FILE *in = fopen(file, "re");
    if (!in)
        return fault_set(f, RC_FATAL, "KAFKA_CONFIG_FILE %s: %s", file, strerror(errno));
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    for (int n = 1; rc == 0 && getline(&line, &cap, in) >= 0; n++)
        rc = property(conf, line, file, n, f);
    free(line);
    (void)fclose(in);
    return rc;
}

/* A broker that was killed must be found again quickly: the default backs off up to 10 s. */
static const char *const CLIENT_PROPERTIES[][2] = {{"reconnect.backoff.ms", "50"},
                                                   {"reconnect.backoff.max.ms", "1000"},
                                                   {"socket.keepalive.enable", "true"},
                                                   {"socket.nagle.disable", "true"},
                                                   {"log.connection.close", "false"},
                                                   {"allow.auto.create.topics", "false"},
                                                   {"topic.metadata.refresh.interval.ms", "10000"},
                                                   {"statistics.interval.ms", "1000"},
                                                   {"api.version.request.timeout.ms", "5000"},
                                                   {NULL, NULL}};

int kafka_client_conf(struct kafka_client *k, const struct kafka_client_options *o,
                      rd_kafka_conf_t **out, struct fault *f)
{
    if (!o->brokers || !*o->brokers)
        return fault_set(f, RC_FATAL, "Kafka: no brokers given (KAFKA_BROKERS=host:port)");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int rc = kafka_client_set(conf, "bootstrap.servers", o->brokers, f);
    if (rc == 0)
        rc = kafka_client_set(conf, "client.id", k->id, f);
    for (size_t i = 0; rc == 0 && CLIENT_PROPERTIES[i][0]; i++)
        rc = kafka_client_set(conf, CLIENT_PROPERTIES[i][0], CLIENT_PROPERTIES[i][1], f);
    if (rc == 0 && o->config_file)
        rc = kafka_client_properties(conf, o->config_file, f);
    if (rc) {
        rd_kafka_conf_destroy(conf);
        return rc;
    }
    rd_kafka_conf_set_opaque(conf, k);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_stats_cb(conf, on_stats);
    *out = conf;
    return 0;
}

int kafka_client_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf, rd_kafka_t **out,
                        struct fault *f)
{
    char why[160];
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk) {
        rd_kafka_conf_destroy(conf);
        return fault_set(f, RC_FATAL, "Kafka client: %s", why);
    }
    *out = rk;
    return 0;
}

/* rd_kafka_query_watermark_offsets() does not keep its time-out: with the leader away it waits
 * until it is back, and its caller with it. This question does keep it. */
static rd_kafka_resp_err_t ask_bound(rd_kafka_t *rk, const char *topic, int32_t partition,
                                     int64_t which, int timeout_ms, int64_t *out)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *p = rd_kafka_topic_partition_list_add(list, topic, partition);
    p->offset = which;
    rd_kafka_resp_err_t err = rd_kafka_offsets_for_times(rk, list, timeout_ms);
    if (!err)
        err = list->elems[0].err;
    if (!err && list->elems[0].offset < 0)
        err = RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (!err)
        *out = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return err;
}

int kafka_client_bounds(struct kafka_client *k, rd_kafka_t *rk, const char *topic,
                        int32_t partition, int timeout_ms, int64_t *out_low, int64_t *out_high,
                        struct fault *f)
{
    int64_t low = 0, high = 0, start = clock_mono_ms();
    rd_kafka_resp_err_t err =
        ask_bound(rk, topic, partition, RD_KAFKA_OFFSET_BEGINNING, timeout_ms, &low);
    int left = timeout_ms - (int)(clock_mono_ms() - start);
    if (!err)
        err = ask_bound(rk, topic, partition, RD_KAFKA_OFFSET_END, left > 1 ? left : 1, &high);
    if (err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        return fault_set(f, RC_REJECT, "Kafka: %s has no partition %d", topic, partition);
    if (err)
        return kafka_client_error(k, err, "Kafka watermarks", f);
    *out_low = low;
    *out_high = high;
    return 0;
}

/* kafka_producer.c - idempotent produce on librdkafka, made anew when a handle dies. */
#include "runtime/kafka_producer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <librdkafka/rdkafka.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/kafka_client.h"
#include "runtime/metrics.h"

enum {
    DEFAULT_TIMEOUT_MS = 30000,
    DEFAULT_MAX_MESSAGES = 100000,
    DEFAULT_MAX_KB = 65536,
    DEFAULT_MAX_BYTES = 1000000,
    DEFAULT_LINGER_MS = 1,
    TOPICS_MAX = 64,  /* handles kept; more topics work, and are learnt more slowly */
    PURGE_MS = 10000, /* purged messages are reported at once; this only bounds a broken library */
    REOPEN_MS = 1000
};

struct kafka_producer {
    struct kafka_client client; /* first: librdkafka's opaque */
    rd_kafka_t *rk;             /* NULL: died, and could not be made anew yet */
    rd_kafka_topic_t *topics[TOPICS_MAX];
    size_t topic_count, last_topic;
    struct kafka_producer_options options; /* strings point to the copies below */
    char *brokers, *config_file;
    bool dying; /* deliveries of a handle that is being given up */
    int reported;
    int64_t reopen_ms;
    size_t pending;
    struct metric *fates[4];
};

static const char *const OUTCOMES[] = {"delivered", "unsent", "refused", "abandoned"};

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct kafka_producer *p = opaque;
    (void)rk;
    struct kafka_delivery d = {.tag = m->_private, .partition = -1, .offset = -1};
    enum kafka_class class = kafka_classify((int)m->err);
    if (!m->err) {
        d.outcome = KAFKA_DELIVERED;
        d.partition = m->partition;
        d.offset = m->offset;
        atomic_store(&p->client.connected, true);
    } else {
        d.outcome = class == KAFKA_REFUSE              ? KAFKA_REFUSED
                    : class == KAFKA_FATAL || p->dying ? KAFKA_ABANDONED
                                                       : KAFKA_UNSENT;
        d.reason = rd_kafka_err2str(m->err);
    }
    p->pending--;
    p->reported++;
    metric_add(p->fates[d.outcome], 1);
    p->options.on_delivery(p->options.arg, &d);
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static int producer_conf(struct kafka_producer *p, rd_kafka_conf_t **out, struct fault *f)
{
    const struct kafka_producer_options *o = &p->options;
    rd_kafka_conf_t *conf;
    int rc = kafka_client_conf(&p->client, &o->client, &conf, f);
    if (rc)
        return rc;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"message.timeout.ms", o->forever ? 0 : o->timeout_ms},
                   {"queue.buffering.max.messages", o->max_messages},
                   {"queue.buffering.max.kbytes", o->max_kb},
                   {"message.max.bytes", o->max_message_bytes},
                   {"linger.ms", o->linger_ms}};
    const char *const texts[][2] = {{"acks", "all"},
                                    {"enable.idempotence", "true"},
                                    {"enable.gapless.guarantee", "true"},
                                    {"partitioner", "murmur2_random"}};
    for (size_t i = 0; rc == 0 && i < sizeof texts / sizeof *texts; i++)
        rc = kafka_client_set(conf, texts[i][0], texts[i][1], f);
    for (size_t i = 0; rc == 0 && i < sizeof numbers / sizeof *numbers; i++)
        rc = kafka_client_set_int(conf, numbers[i].name, numbers[i].value, f);
    if (rc) {
        rd_kafka_conf_destroy(conf);
        return rc;
    }
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    *out = conf;
    return 0;
}

static int make_handle(struct kafka_producer *p, struct fault *f)
{
    rd_kafka_conf_t *conf;
    int rc = producer_conf(p, &conf, f);
    if (rc == 0)
        rc = kafka_client_handle(RD_KAFKA_PRODUCER, conf, &p->rk, f);
    return rc;
}

static void copy_options(struct kafka_producer *p, const struct kafka_producer_options *o)
{
    p->options = *o;
    p->brokers = o->client.brokers ? strdup(o->client.brokers) : NULL;
    p->config_file = o->client.config_file ? strdup(o->client.config_file) : NULL;
    p->options.client = (struct kafka_client_options){
        .brokers = p->brokers, .client_id = p->client.id, .config_file = p->config_file};
    p->options.timeout_ms = or_default(o->timeout_ms, DEFAULT_TIMEOUT_MS);
    p->options.max_messages = or_default(o->max_messages, DEFAULT_MAX_MESSAGES);
    p->options.max_kb = or_default(o->max_kb, DEFAULT_MAX_KB);
    p->options.max_message_bytes = or_default(o->max_message_bytes, DEFAULT_MAX_BYTES);
    p->options.linger_ms = or_default(o->linger_ms, DEFAULT_LINGER_MS);
}

int kafka_producer_open(const struct kafka_producer_options *o, struct kafka_producer **out,
                        struct fault *f)
{
    if (!o->on_delivery)
        return fault_set(f, RC_FATAL, "a Kafka producer needs on_delivery");
    struct kafka_producer *p = calloc(1, sizeof *p);
    if (!p)
        return fault_set(f, RC_FATAL, "no memory for a Kafka producer");
    kafka_client_init(&p->client, o->client.client_id);
    copy_options(p, o);
    for (size_t i = 0; i < sizeof p->fates / sizeof *p->fates; i++)
        p->fates[i] = metrics_series(&KAFKA_METRICS[KAFKA_METRIC_DELIVERIES],
                                     (const char *[]){p->client.id, OUTCOMES[i]});
    int rc = make_handle(p, f);
    if (rc) {
        kafka_producer_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

static rd_kafka_headers_t *headers_of(const struct kafka_record *r)
{
    rd_kafka_headers_t *h = rd_kafka_headers_new(r->header_count);
    for (size_t i = 0; i < r->header_count; i++)
        (void)rd_kafka_header_add(h, r->headers[i].name, -1, r->headers[i].value,
                                  r->headers[i].value ? (ssize_t)r->headers[i].len : 0);
    return h;
}

/* rd_kafka_topic_new() asks for the topic's leaders at once; a topic given by name is asked for by
 * a timer, up to a second later. NULL: use the name. */
static rd_kafka_topic_t *topic_of(struct kafka_producer *p, const char *name)
{
    if (p->last_topic < p->topic_count &&
        strcmp(rd_kafka_topic_name(p->topics[p->last_topic]), name) == 0)
        return p->topics[p->last_topic];
    size_t i = 0;
    while (i < p->topic_count && strcmp(rd_kafka_topic_name(p->topics[i]), name) != 0)
        i++;
    if (i == TOPICS_MAX)
        return NULL;
    if (i == p->topic_count) {
        rd_kafka_topic_t *topic = rd_kafka_topic_new(p->rk, name, NULL);
        if (!topic)
            return NULL; /* a name librdkafka refuses: producing says so */
        p->topics[p->topic_count++] = topic;
    }
    p->last_topic = i;
    return p->topics[i];
}

static void forget_topics(struct kafka_producer *p)
{
    while (p->topic_count > 0)
        rd_kafka_topic_destroy(p->topics[--p->topic_count]);
}

/* librdkafka takes a length of 0 with a pointer as an empty value and NULL as none; keep the
 * difference. */
static rd_kafka_error_t *produce(struct kafka_producer *p, const struct kafka_record *r)
{
    rd_kafka_vu_t args[8];
    size_t n = 0;
    rd_kafka_topic_t *topic = topic_of(p, r->topic);
    args[n++] = topic ? (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic}
                      : (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = r->topic};
    args[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_PARTITION,
                                .u.i32 = r->to_partition ? r->partition : RD_KAFKA_PARTITION_UA};
    args[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_MSGFLAGS,
                                .u.i = r->borrow_value ? 0 : RD_KAFKA_MSG_F_COPY};
    args[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_KEY,
                                .u.mem = {.ptr = (void *)(uintptr_t)r->key, .size = r->key_len}};
    args[n++] =
        (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_VALUE,
                        .u.mem = {.ptr = (void *)(uintptr_t)r->value, .size = r->value_len}};
    args[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = r->tag};
    args[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = r->timestamp_ms};
    rd_kafka_headers_t *headers = r->header_count ? headers_of(r) : NULL;
    if (headers)
        args[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers};
    rd_kafka_error_t *error = rd_kafka_produceva(p->rk, args, n);
    if (error && headers)
        rd_kafka_headers_destroy(headers); /* taken only on success */
    return error;
}

int kafka_producer_send(struct kafka_producer *p, const struct kafka_record *r, struct fault *f)
{
    if (r->header_count > KAFKA_MAX_HEADERS)
        return fault_set(f, RC_REJECT, "%zu headers: more than %d", r->header_count,
                         KAFKA_MAX_HEADERS);
    if (!p->rk)
        return fault_set(f, RC_RETRY, "the Kafka producer is being made anew");
    rd_kafka_error_t *error = produce(p, r);
    if (!error) {
        p->pending++;
        return 0;
    }
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        return fault_set(f, RC_RETRY, "the Kafka producer's queue is full (%zu messages)",
                         p->pending);
    int rc = kafka_client_error(&p->client, code, r->topic, f);
    /* A dead handle is replaced by the next poll: to the caller that is a matter of time. */
    return rc == RC_FATAL ? fault_set(f, RC_RETRY, "the Kafka producer is being made anew") : rc;
}

static void give_up_handle(struct kafka_producer *p)
{
    p->dying = true;
    kafka_producer_purge(p);
    forget_topics(p);
    rd_kafka_destroy(p->rk);
    p->rk = NULL;
    p->dying = false;
}

static void replace_dead_handle(struct kafka_producer *p)
{
    if (p->rk && rd_kafka_fatal_error(p->rk, NULL, 0)) {
        metric_add(p->client.series[KAFKA_METRIC_RECREATED], 1);
        give_up_handle(p);
        p->reopen_ms = 0;
    }
    if (!p->rk && clock_mono_ms() >= p->reopen_ms) {
        p->reopen_ms = clock_mono_ms() + REOPEN_MS;
        (void)make_handle(p, NULL); /* no threads or memory just now: tried again */
    }
}

int kafka_producer_poll(struct kafka_producer *p, int timeout_ms)
{
    p->reported = 0;
    if (p->rk)
        (void)rd_kafka_poll(p->rk, timeout_ms);
    replace_dead_handle(p);
    return p->reported;
}

size_t kafka_producer_pending(const struct kafka_producer *p)
{
    return p->pending;
}

int kafka_producer_flush(struct kafka_producer *p, int timeout_ms, struct fault *f)
{
    int64_t deadline = clock_mono_ms() + timeout_ms;
    while (p->pending > 0) {
        int64_t left = deadline - clock_mono_ms();
        if (left <= 0)
            return fault_set(f, RC_RETRY, "%zu messages are not acknowledged after %d ms",
                             p->pending, timeout_ms);
        (void)kafka_producer_poll(p, left < 100 ? (int)left : 100);
    }
    return 0;
}

void kafka_producer_purge(struct kafka_producer *p)
{
    if (!p->rk || p->pending == 0)
        return;
    int64_t deadline = clock_mono_ms() + PURGE_MS;
    while (p->pending > 0 && clock_mono_ms() < deadline) {
        (void)rd_kafka_purge(p->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        (void)rd_kafka_poll(p->rk, 10);
    }
}

void kafka_producer_close(struct kafka_producer *p)
{
    if (!p)
        return;
    if (p->rk)
        give_up_handle(p);
    free(p->brokers);
    free(p->config_file);
    free(p);
}

bool kafka_producer_connected(const struct kafka_producer *p)
{
    return p->rk && atomic_load(&p->client.connected);
}

#ifdef URR_TEST_HOOKS
void kafka_producer_test_fatal(struct kafka_producer *p)
{
    (void)rd_kafka_test_fatal_error(p->rk, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                    "raised by a test");
}
#endif

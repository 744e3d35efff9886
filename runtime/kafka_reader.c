/* kafka_reader.c - a consumer that assigns itself, stops at given ends and commits nothing. */
#include "runtime/kafka_reader.h"

#include <stdlib.h>
#include <string.h>
#include <librdkafka/rdkafka.h>

#include "runtime/fault.h"
#include "runtime/kafka_client.h"

struct range {
    char *topic;
    int32_t partition;
    int64_t from, to;
    bool done;
};

struct kafka_reader {
    struct kafka_client client; /* first: librdkafka's opaque */
    rd_kafka_t *rk;
    struct range *ranges;
    size_t count, left;
    size_t last; /* the range of the last record: the next one is likely its neighbour */
    rd_kafka_message_t *message;
};

static int configure(struct kafka_reader *r, const struct kafka_client_options *o, struct fault *f)
{
    static const char *const SETTINGS[][2] = {
        {"group.id", "urr-reader"}, /* asked for by librdkafka; no group is joined */
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "error"},
        {"isolation.level", "read_committed"},
        {"queued.max.messages.kbytes", "16384"},
        {"fetch.wait.max.ms", "50"}};
    rd_kafka_conf_t *conf;
    int rc = kafka_client_conf(&r->client, o, &conf, f);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0] && rc == 0; i++)
        rc = kafka_client_set(conf, SETTINGS[i][0], SETTINGS[i][1], f);
    if (rc) {
        rd_kafka_conf_destroy(conf);
        return rc;
    }
    rc = kafka_client_handle(RD_KAFKA_CONSUMER, conf, &r->rk, f);
    if (rc == 0)
        rd_kafka_poll_set_consumer(r->rk);
    return rc;
}

static int copy_ranges(struct kafka_reader *r, const struct kafka_range *ranges, size_t count)
{
    r->ranges = calloc(count ? count : 1, sizeof *r->ranges);
    if (!r->ranges)
        return RC_FATAL;
    for (size_t i = 0; i < count; i++) {
        const struct kafka_range *from = &ranges[i];
        if (from->to <= from->from)
            continue;
        struct range *to = &r->ranges[r->count];
        *to = (struct range){strdup(from->topic), from->partition, from->from, from->to, false};
        if (!to->topic)
            return RC_FATAL;
        r->count++;
    }
    r->left = r->count;
    return 0;
}

static int assign(struct kafka_reader *r, struct fault *f)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)r->count);
    for (size_t i = 0; i < r->count; i++)
        rd_kafka_topic_partition_list_add(list, r->ranges[i].topic, r->ranges[i].partition)
            ->offset = r->ranges[i].from;
    rd_kafka_resp_err_t err = rd_kafka_assign(r->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    return err ? kafka_client_error(&r->client, err, "Kafka", f) : 0;
}

int kafka_reader_open(const struct kafka_client_options *o, const struct kafka_range *ranges,
                      size_t count, struct kafka_reader **out, struct fault *f)
{
    struct kafka_reader *r = calloc(1, sizeof *r);
    if (!r || copy_ranges(r, ranges, count) != 0) {
        kafka_reader_close(r);
        return fault_set(f, RC_FATAL, "no memory for a Kafka reader");
    }
    kafka_client_init(&r->client, o->client_id);
    int rc = r->count ? configure(r, o, f) : 0;
    if (rc == 0 && r->count)
        rc = assign(r, f);
    if (rc) {
        kafka_reader_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

static void drop_message(struct kafka_reader *r)
{
    if (r->message)
        rd_kafka_message_destroy(r->message); /* one kept would make close hang */
    r->message = NULL;
}

void kafka_reader_close(struct kafka_reader *r)
{
    if (!r)
        return;
    drop_message(r);
    if (r->rk) {
        (void)rd_kafka_assign(r->rk, NULL);
        (void)rd_kafka_consumer_close(r->rk);
        rd_kafka_destroy(r->rk);
    }
    for (size_t i = 0; i < r->count; i++)
        free(r->ranges[i].topic);
    free(r->ranges);
    free(r);
}

static struct range *find(struct kafka_reader *r, const rd_kafka_message_t *m)
{
    const char *topic = m->rkt ? rd_kafka_topic_name(m->rkt) : NULL;
    for (size_t i = 0; topic && i < r->count; i++) {
        struct range *range = &r->ranges[(r->last + i) % r->count];
        if (range->partition == m->partition && strcmp(range->topic, topic) == 0) {
            r->last = (size_t)(range - r->ranges);
            return range;
        }
    }
    return NULL;
}

static void finish(struct kafka_reader *r, struct range *range)
{
    if (range->done)
        return;
    range->done = true;
    r->left--;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    (void)rd_kafka_topic_partition_list_add(list, range->topic, range->partition);
    (void)rd_kafka_pause_partitions(r->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
}

static int64_t timestamp_of(const rd_kafka_message_t *m)
{
    rd_kafka_timestamp_type_t type;
    int64_t ms = rd_kafka_message_timestamp(m, &type);
    return type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : ms;
}

static int failed(struct kafka_reader *r, const struct range *range, struct fault *f)
{
    rd_kafka_resp_err_t err = r->message->err;
    if (err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET || err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        return fault_set(f, RC_REJECT, "%.100s[%d]: offset %lld is not in the log (any more)",
                         range ? range->topic : "?", range ? (int)range->partition : -1,
                         range ? (long long)range->from : -1LL);
    return kafka_client_error(&r->client, err, range ? range->topic : "Kafka", f);
}

int kafka_reader_next(struct kafka_reader *r, int timeout_ms, enum kafka_reader_state *out_state,
                      struct kafka_read *out, struct fault *f)
{
    drop_message(r);
    *out_state = KAFKA_READ_DONE;
    if (r->left == 0)
        return 0;
    *out_state = KAFKA_READ_WAIT;
    r->message = rd_kafka_consumer_poll(r->rk, timeout_ms);
    if (!r->message)
        return 0;
    const rd_kafka_message_t *m = r->message;
    struct range *range = find(r, m);
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        if (range)
            finish(r, range);
        *out_state = r->left ? KAFKA_READ_WAIT : KAFKA_READ_DONE;
        return 0;
    }
    if (m->err)
        return failed(r, range, f);
    if (!range || range->done)
        return 0;
    if (m->offset >= range->to - 1)
        finish(r, range);
    if (m->offset >= range->to || m->offset < range->from) {
        *out_state = r->left ? KAFKA_READ_WAIT : KAFKA_READ_DONE;
        return 0;
    }
    *out_state = KAFKA_READ_RECORD;
    *out = (struct kafka_read){.topic = range->topic,
                               .partition = m->partition,
                               .offset = m->offset,
                               .timestamp_ms = timestamp_of(m),
                               .key = m->key,
                               .key_len = m->key_len,
                               .value = m->payload,
                               .value_len = m->len};
    return 0;
}

size_t kafka_reader_headers(const struct kafka_reader *r, struct kafka_header *out, size_t max)
{
    rd_kafka_headers_t *headers;
    size_t count = 0;
    if (!r->message || rd_kafka_message_headers(r->message, &headers) != 0)
        return 0;
    while (count < max && rd_kafka_header_get_all(headers, count, &out[count].name,
                                                  &out[count].value, &out[count].len) == 0)
        count++;
    return count;
}

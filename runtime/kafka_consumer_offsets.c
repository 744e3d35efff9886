/* kafka_consumer_offsets.c - what a consumer asks of the brokers beside reading: commits, committed
 * offsets, the log's bounds. */
#include "runtime/kafka_consumer_internal.h"

#include <string.h>

static rd_kafka_topic_partition_list_t *list_of(const struct kafka_start *parts, size_t count)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
    for (size_t i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, parts[i].topic, parts[i].partition)->offset =
            parts[i].offset;
    return list;
}

void kafka_consumer_commit(struct kafka_consumer *c, const struct kafka_start *offsets,
                           size_t count)
{
    rd_kafka_topic_partition_list_t *list = list_of(offsets, count);
    if (rd_kafka_commit(c->rk, list, 1))
        metric_add(c->client.series[KAFKA_METRIC_COMMIT_FAILURES], 1);
    rd_kafka_topic_partition_list_destroy(list);
}

int kafka_consumer_committed(struct kafka_consumer *c, struct kafka_start *parts, size_t count,
                             int timeout_ms, struct fault *f)
{
    rd_kafka_topic_partition_list_t *list = list_of(parts, count);
    rd_kafka_resp_err_t err = rd_kafka_committed(c->rk, list, timeout_ms);
    for (int i = 0; !err && i < list->cnt; i++)
        err = list->elems[i].err;
    for (size_t i = 0; !err && i < count; i++)
        parts[i].offset = list->elems[i].offset >= 0 ? list->elems[i].offset : KAFKA_OFFSET_NONE;
    rd_kafka_topic_partition_list_destroy(list);
    if (err)
        return fault_set(f, kafka_client_error(&c->client, err, "Kafka", NULL),
                         "Kafka committed offsets: %s (%s)", rd_kafka_err2str(err),
                         rd_kafka_err2name(err));
    atomic_store(&c->client.connected, true);
    return 0;
}

int kafka_consumer_watermarks(struct kafka_consumer *c, const char *topic, int32_t partition,
                              int timeout_ms, int64_t *out_low, int64_t *out_high, struct fault *f)
{
    int rc =
        kafka_client_bounds(&c->client, c->rk, topic, partition, timeout_ms, out_low, out_high, f);
    if (rc == 0)
        atomic_store(&c->client.connected, true);
    return rc;
}

int kafka_consumer_partitions(struct kafka_consumer *c, const char *topic, int timeout_ms,
                              int32_t *out, struct fault *f)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(c->rk, topic, NULL);
    if (!handle)
        return kafka_client_error(&c->client, rd_kafka_last_error(), "Kafka metadata", f);
    const struct rd_kafka_metadata *found = NULL;
    rd_kafka_resp_err_t err = rd_kafka_metadata(c->rk, 0, handle, &found, timeout_ms);
    int32_t count = 0;
    if (found) {
        if (!err && found->topic_cnt == 1) {
            err = found->topics[0].err;
            count = err ? 0 : found->topics[0].partition_cnt;
        }
        rd_kafka_metadata_destroy(found);
    }
    rd_kafka_topic_destroy(handle);
    if (err == RD_KAFKA_RESP_ERR__TIMED_OUT) /* a frozen broker keeps its connections open */
        atomic_store(&c->client.connected, false);
    if (err)
        return kafka_client_error(&c->client, err, "Kafka metadata", f);
    if (count <= 0)
        return fault_set(f, RC_RETRY, "Kafka: %s has no partitions yet", topic);
    atomic_store(&c->client.connected, true);
    *out = count;
    return 0;
}

int kafka_consumer_ends_ask(struct kafka_consumer *c, int64_t tag, struct fault *f)
{
    rd_kafka_topic_partition_list_t *list = c->held ? rd_kafka_topic_partition_list_copy(c->held)
                                                    : rd_kafka_topic_partition_list_new(0);
    return kafka_ends_ask(c->ends, list, tag, f);
}

bool kafka_consumer_ends_take(struct kafka_consumer *c, int64_t *out_tag, struct kafka_start *out,
                              size_t max, size_t *out_count)
{
    rd_kafka_topic_partition_list_t *list;
    if (!kafka_ends_take(c->ends, out_tag, &list))
        return false;
    size_t n = 0;
    for (int i = 0; i < list->cnt && n < max; i++) {
        const rd_kafka_topic_partition_t *end = &list->elems[i];
        const rd_kafka_topic_partition_t *p = kafka_consumer_held(c, end->topic, end->partition);
        if (p && !end->err && end->offset >= 0) /* the held one's name outlives this answer */
            out[n++] = (struct kafka_start){p->topic, p->partition, end->offset};
    }
    if (list->cnt > 0)
        atomic_store(&c->client.connected, n > 0);
    rd_kafka_topic_partition_list_destroy(list);
    *out_count = n;
    return true;
}

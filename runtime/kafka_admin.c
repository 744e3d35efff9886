/* kafka_admin.c - blocking admin calls on librdkafka's asynchronous ones. */
#include "runtime/kafka_admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <librdkafka/rdkafka.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/kafka_client.h"

enum { SETTLE_STEP_MS = 50 };

struct kafka_admin {
    struct kafka_client client; /* first: librdkafka's opaque */
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
};

int kafka_admin_open(const struct kafka_client_options *o, struct kafka_admin **out,
                     struct fault *f)
{
    struct kafka_admin *a = calloc(1, sizeof *a);
    if (!a)
        return fault_set(f, RC_FATAL, "no memory for a Kafka admin client");
    kafka_client_init(&a->client, o->client_id);
    rd_kafka_conf_t *conf;
    int rc = kafka_client_conf(&a->client, o, &conf, f);
    if (rc == 0)
        rc = kafka_client_handle(RD_KAFKA_PRODUCER, conf, &a->rk, f);
    if (rc) {
        kafka_admin_close(a);
        return rc;
    }
    a->queue = rd_kafka_queue_new(a->rk);
    *out = a;
    return 0;
}

void kafka_admin_close(struct kafka_admin *a)
{
    if (!a)
        return;
    if (a->queue)
        rd_kafka_queue_destroy(a->queue);
    if (a->rk)
        rd_kafka_destroy(a->rk);
    free(a);
}

static int no_answer(int timeout_ms, struct fault *f)
{
    return fault_set(f, RC_RETRY, "Kafka did not answer within %d ms", timeout_ms);
}

/* The answer to the request just made, or NULL at the time-out. An answer that comes too late must
 * not be taken for the next one's: the queue is made anew. */
static rd_kafka_event_t *answer(struct kafka_admin *a, rd_kafka_event_type_t type, int timeout_ms)
{
    int64_t deadline = clock_mono_ms() + timeout_ms + 1000;
    for (;;) {
        int64_t left = deadline - clock_mono_ms();
        rd_kafka_event_t *event = left > 0 ? rd_kafka_queue_poll(a->queue, (int)left) : NULL;
        if (!event || rd_kafka_event_type(event) == type)
            return event;
        rd_kafka_event_destroy(event);
    }
}

static rd_kafka_AdminOptions_t *options_of(struct kafka_admin *a, rd_kafka_admin_op_t op,
                                           int timeout_ms)
{
    char why[128];
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(a->rk, op);
    (void)rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, why, sizeof why);
    if (op == RD_KAFKA_ADMIN_OP_CREATETOPICS || op == RD_KAFKA_ADMIN_OP_DELETETOPICS ||
        op == RD_KAFKA_ADMIN_OP_DELETERECORDS)
        (void)rd_kafka_AdminOptions_set_operation_timeout(options, timeout_ms, why, sizeof why);
    return options;
}

/* 0, or the error of the whole request. A NULL event is a time-out. */
static int request_error(struct kafka_admin *a, rd_kafka_event_t *event, int timeout_ms,
                         struct fault *f)
{
    if (!event) {
        rd_kafka_queue_destroy(a->queue);
        a->queue = rd_kafka_queue_new(a->rk);
        return no_answer(timeout_ms, f);
    }
    rd_kafka_resp_err_t err = rd_kafka_event_error(event);
    return err ? kafka_client_error(&a->client, err, "Kafka", f) : 0;
}

int kafka_admin_ping(struct kafka_admin *a, int timeout_ms, struct fault *f)
{
    int64_t deadline = clock_mono_ms() + timeout_ms;
    do {
        const struct rd_kafka_metadata *metadata;
        int64_t left = deadline - clock_mono_ms();
        rd_kafka_resp_err_t err =
            rd_kafka_metadata(a->rk, 0, NULL, &metadata, left < 1000 ? (int)left : 1000);
        if (!err) {
            rd_kafka_metadata_destroy(metadata);
            return 0;
        }
    } while (clock_mono_ms() < deadline);
    return no_answer(timeout_ms, f);
}

int kafka_admin_partitions(struct kafka_admin *a, const char *topic, int timeout_ms, int32_t *out,
                           struct fault *f)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(a->rk, topic, NULL);
    if (!handle)
        return fault_set(f, RC_REJECT, "Kafka can't have a topic named %.100s", topic);
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t err = rd_kafka_metadata(a->rk, 0, handle, &metadata, timeout_ms);
    rd_kafka_topic_destroy(handle);
    if (err)
        return kafka_client_error(&a->client, err, "Kafka metadata", f);
    const rd_kafka_metadata_topic_t *t = metadata->topic_cnt == 1 ? &metadata->topics[0] : NULL;
    err = t ? t->err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    int32_t count = err ? 0 : t->partition_cnt;
    rd_kafka_metadata_destroy(metadata);
    if (err && err != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        return kafka_client_error(&a->client, err, topic, f);
    *out = count;
    return 0;
}

static rd_kafka_NewTopic_t *new_topic(const struct kafka_topic_spec *spec, char *why, size_t size)
{
    rd_kafka_NewTopic_t *t =
        rd_kafka_NewTopic_new(spec->name, spec->partitions, spec->replication, why, size);
    for (size_t i = 0;
         t && spec->configs && spec->configs[i] && i < (size_t)2 * KAFKA_ADMIN_MAX_CONFIGS; i += 2)
        (void)rd_kafka_NewTopic_set_config(t, spec->configs[i], spec->configs[i + 1]);
    return t;
}

static void settle(struct kafka_admin *a, const struct kafka_topic_spec *spec,
                   struct kafka_topic_result *result, int64_t deadline)
{
    do {
        int32_t partitions = 0;
        if (kafka_admin_partitions(a, spec->name, 2000, &partitions, NULL) == 0 && partitions > 0) {
            result->partitions = partitions;
            if (partitions != spec->partitions)
                result->outcome = KAFKA_TOPIC_DIFFERS;
            return;
        }
        (void)rd_kafka_poll(a->rk, SETTLE_STEP_MS);
    } while (clock_mono_ms() < deadline);
}

static int read_created(rd_kafka_event_t *event, struct kafka_topic_result *results)
{
    size_t count;
    const rd_kafka_topic_result_t **topics =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        rd_kafka_resp_err_t err = rd_kafka_topic_result_error(topics[i]);
        const char *text = rd_kafka_topic_result_error_string(topics[i]);
        results[i] = (struct kafka_topic_result){.partitions = -1, .reason = ""};
        if (!err) {
            results[i].outcome = KAFKA_TOPIC_CREATED;
        } else if (err == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
            results[i].outcome = KAFKA_TOPIC_EXISTS;
        } else {
            results[i].outcome = KAFKA_TOPIC_FAILED;
            (void)snprintf(results[i].reason, sizeof results[i].reason, "%s",
                           text ? text : rd_kafka_err2str(err));
            failed++;
        }
    }
    return failed;
}

int kafka_admin_create_topics(struct kafka_admin *a, const struct kafka_topic_spec *specs,
                              size_t count, struct kafka_topic_result *results, int timeout_ms,
                              struct fault *f)
{
    int64_t deadline = clock_mono_ms() + timeout_ms;
    rd_kafka_NewTopic_t **topics = calloc(count ? count : 1, sizeof(rd_kafka_NewTopic_t *));
    char why[128] = "";
    size_t made = 0;
    while (topics && made < count && (topics[made] = new_topic(&specs[made], why, sizeof why)))
        made++;
    int rc = made == count
                 ? 0
                 : fault_set(f, RC_REJECT, "topic %.60s: %s", topics ? specs[made].name : "?", why);
    if (rc == 0 && count > 0) {
        rd_kafka_AdminOptions_t *options =
            options_of(a, RD_KAFKA_ADMIN_OP_CREATETOPICS, timeout_ms);
        rd_kafka_CreateTopics(a->rk, topics, count, options, a->queue);
        rd_kafka_AdminOptions_destroy(options);
        rd_kafka_event_t *event = answer(a, RD_KAFKA_EVENT_CREATETOPICS_RESULT, timeout_ms);
        rc = request_error(a, event, timeout_ms, f);
        int failed = rc == 0 ? read_created(event, results) : 0;
        if (event)
            rd_kafka_event_destroy(event);
        for (size_t i = 0; rc == 0 && i < count; i++)
            if (results[i].outcome != KAFKA_TOPIC_FAILED)
                settle(a, &specs[i], &results[i], deadline);
        if (rc == 0 && failed > 0)
            rc = fault_set(f, RC_REJECT, "%d of %zu topics could not be made", failed, count);
    }
    if (topics)
        rd_kafka_NewTopic_destroy_array(topics, made);
    free(topics);
    return rc;
}

int kafka_admin_delete_topics(struct kafka_admin *a, const char *const *names, size_t count,
                              int timeout_ms, struct fault *f)
{
    rd_kafka_DeleteTopic_t **topics = calloc(count ? count : 1, sizeof(rd_kafka_DeleteTopic_t *));
    if (!topics)
        return fault_set(f, RC_FATAL, "no memory for %zu topics", count);
    for (size_t i = 0; i < count; i++)
        topics[i] = rd_kafka_DeleteTopic_new(names[i]);
    rd_kafka_AdminOptions_t *options = options_of(a, RD_KAFKA_ADMIN_OP_DELETETOPICS, timeout_ms);
    rd_kafka_DeleteTopics(a->rk, topics, count, options, a->queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_DeleteTopic_destroy_array(topics, count);
    free(topics);
    rd_kafka_event_t *event = answer(a, RD_KAFKA_EVENT_DELETETOPICS_RESULT, timeout_ms);
    int rc = request_error(a, event, timeout_ms, f);
    size_t n = 0;
    const rd_kafka_topic_result_t **results =
        rc ? NULL
           : rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rd_kafka_resp_err_t err = rd_kafka_topic_result_error(results[i]);
        if (err && err != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
            rc = kafka_client_error(&a->client, err, rd_kafka_topic_result_name(results[i]), f);
    }
    if (event)
        rd_kafka_event_destroy(event);
    return rc;
}

int kafka_admin_watermarks(struct kafka_admin *a, const char *topic, int32_t partition,
                           int timeout_ms, int64_t *out_low, int64_t *out_high, struct fault *f)
{
    return kafka_client_bounds(&a->client, a->rk, topic, partition, timeout_ms, out_low, out_high,
                               f);
}

static rd_kafka_topic_partition_list_t *list_of(const struct kafka_place *places, size_t count)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
    for (size_t i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, places[i].topic, places[i].partition)->offset =
            places[i].offset;
    return list;
}

static int read_group(struct kafka_admin *a, rd_kafka_event_t *event, struct kafka_place *places,
                      size_t count, struct fault *f)
{
    size_t groups;
    const rd_kafka_group_result_t **result = rd_kafka_ListConsumerGroupOffsets_result_groups(
        rd_kafka_event_ListConsumerGroupOffsets_result(event), &groups);
    if (groups != 1)
        return fault_set(f, RC_RETRY, "Kafka answered for %zu groups", groups);
    const rd_kafka_error_t *error = rd_kafka_group_result_error(result[0]);
    if (error)
        return kafka_client_error(&a->client, rd_kafka_error_code(error), "Kafka group offsets", f);
    const rd_kafka_topic_partition_list_t *list = rd_kafka_group_result_partitions(result[0]);
    for (size_t i = 0; i < count; i++) {
        const rd_kafka_topic_partition_t *p =
            rd_kafka_topic_partition_list_find((rd_kafka_topic_partition_list_t *)(uintptr_t)list,
                                               places[i].topic, places[i].partition);
        places[i].offset = p && !p->err && p->offset >= 0 ? p->offset : KAFKA_OFFSET_NONE;
    }
    return 0;
}

int kafka_admin_group_offsets(struct kafka_admin *a, const char *group, struct kafka_place *places,
                              size_t count, int timeout_ms, struct fault *f)
{
    rd_kafka_topic_partition_list_t *list = list_of(places, count);
    rd_kafka_ListConsumerGroupOffsets_t *request =
        rd_kafka_ListConsumerGroupOffsets_new(group, list);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_AdminOptions_t *options =
        options_of(a, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS, timeout_ms);
    rd_kafka_ListConsumerGroupOffsets(a->rk, &request, 1, options, a->queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ListConsumerGroupOffsets_destroy(request);
    rd_kafka_event_t *event = answer(a, RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT, timeout_ms);
    int rc = request_error(a, event, timeout_ms, f);
    if (rc == 0)
        rc = read_group(a, event, places, count, f);
    if (event)
        rd_kafka_event_destroy(event);
    return rc;
}

int kafka_admin_offsets_for_times(struct kafka_admin *a, struct kafka_place *places, size_t count,
                                  int timeout_ms, struct fault *f)
{
    rd_kafka_topic_partition_list_t *list = list_of(places, count);
    rd_kafka_resp_err_t err = rd_kafka_offsets_for_times(a->rk, list, timeout_ms);
    for (int i = 0; !err && i < list->cnt; i++)
        err = list->elems[i].err;
    for (size_t i = 0; !err && i < count; i++)
        places[i].offset = list->elems[i].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return err ? kafka_client_error(&a->client, err, "Kafka offsets for times", f) : 0;
}

int kafka_admin_delete_records(struct kafka_admin *a, const struct kafka_place *places,
                               size_t count, int timeout_ms, struct fault *f)
{
    rd_kafka_topic_partition_list_t *list = list_of(places, count);
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(list);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_AdminOptions_t *options = options_of(a, RD_KAFKA_ADMIN_OP_DELETERECORDS, timeout_ms);
    rd_kafka_DeleteRecords(a->rk, &request, 1, options, a->queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_DeleteRecords_destroy(request);
    rd_kafka_event_t *event = answer(a, RD_KAFKA_EVENT_DELETERECORDS_RESULT, timeout_ms);
    int rc = request_error(a, event, timeout_ms, f);
    const rd_kafka_topic_partition_list_t *done =
        rc ? NULL
           : rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event));
    for (int i = 0; rc == 0 && i < done->cnt; i++)
        if (done->elems[i].err)
            rc = kafka_client_error(&a->client, done->elems[i].err, "Kafka delete records", f);
    if (event)
        rd_kafka_event_destroy(event);
    return rc;
}

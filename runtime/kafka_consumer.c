/* kafka_consumer.c - group membership, assignment and messages on librdkafka 2.0.2.
 *
 * Two things are kept here because librdkafka can't be asked for them in time: the table of
 * partitions held, with the offset each will deliver next (so that any of them can be re-assigned
 * in place), and the slots of messages handed out (a message that is never destroyed hangs the
 * close). */
#include "runtime/kafka_consumer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <librdkafka/rdkafka.h>

#include "runtime/clock.h"
#include "runtime/kafka_consumer_internal.h"
#include "runtime/metrics.h"

enum {
    DEFAULT_SESSION_MS = 10000,
    DEFAULT_POLL_INTERVAL_MS = 300000,
    DEFAULT_PREFETCH_KB = 8192,
    DEFAULT_MAX_HELD = 4096,
    DEFAULT_ASSIGN_RETRY_MS = 500,
    RANGE_QUERY_MS = 1000, /* how long an out-of-range event waits for the log's bounds */
    SEEK_MS = 2000,
    CHECK_EVERY = 256 /* messages between looks at the prefetch queue */
};

/* librdkafka reads nothing without a group's name; a group that nobody joins does not come to be.
 */
#define NO_GROUP "urr-reader"

rd_kafka_topic_partition_t *kafka_consumer_held(struct kafka_consumer *c, const char *topic,
                                                int32_t partition)
{
    if (!c->held)
        return NULL;
    if (c->recent < c->held->cnt) {
        rd_kafka_topic_partition_t *p = &c->held->elems[c->recent];
        if (p->partition == partition && strcmp(p->topic, topic) == 0)
            return p;
    }
    rd_kafka_topic_partition_t *p = rd_kafka_topic_partition_list_find(c->held, topic, partition);
    if (p)
        c->recent = (int)(p - c->held->elems);
    return p;
}

/* Pause flags of librdkafka outlive an assignment here and there: always say which it is. */
static void apply_pause(struct kafka_consumer *c)
{
    if (!c->held || !c->assigned)
        return;
    rd_kafka_topic_partition_list_t *copy = rd_kafka_topic_partition_list_copy(c->held);
    if (c->paused)
        (void)rd_kafka_pause_partitions(c->rk, copy);
    else
        (void)rd_kafka_resume_partitions(c->rk, copy);
    rd_kafka_topic_partition_list_destroy(copy);
}

/* Hands librdkafka the held partitions at their next offsets; those without a place are left out.
 */
static rd_kafka_resp_err_t assign_held(struct kafka_consumer *c)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(c->held->cnt);
    for (int i = 0; i < c->held->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &c->held->elems[i];
        if (p->offset != RD_KAFKA_OFFSET_INVALID)
            rd_kafka_topic_partition_list_add(list, p->topic, p->partition)->offset = p->offset;
    }
    rd_kafka_resp_err_t err = rd_kafka_assign(c->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    apply_pause(c);
    return err;
}

/* Asks the owner where to start. Not now: take part in the group with nothing to read, ask again.
 */
static void ask_starts(struct kafka_consumer *c)
{
    size_t count = (size_t)c->held->cnt;
    struct kafka_start *starts = calloc(count ? count : 1, sizeof *starts);
    struct fault f = {.rc = 0};
    int rc = RC_RETRY;
    for (size_t i = 0; starts && i < count; i++)
        starts[i] = (struct kafka_start){.topic = c->held->elems[i].topic,
                                         .partition = c->held->elems[i].partition,
                                         .offset = KAFKA_OFFSET_NONE};
    if (starts)
        rc = count ? c->on_assign(c->arg, starts, count, &f) : 0;
    for (size_t i = 0; i < count; i++)
        c->held->elems[i].offset = rc == 0 ? starts[i].offset : RD_KAFKA_OFFSET_INVALID;
    free(starts);
    c->assigned = rc == 0;
    c->ask_again_ms = clock_mono_ms() + c->assign_retry_ms;
    if (rc == RC_FATAL)
        c->failed = f;
    rd_kafka_resp_err_t err = assign_held(c);
    if (err && !c->failed.rc)
        (void)kafka_client_error(&c->client, err, "Kafka assign", &c->failed);
}

static void forget_held(struct kafka_consumer *c)
{
    if (c->held)
        rd_kafka_topic_partition_list_destroy(c->held);
    c->held = NULL;
    c->assigned = false;
    c->recent = 0;
}

/* Inside poll and close. rd_kafka_rebalance_protocol() must not be called here (2.0.2). */
static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t err,
                         rd_kafka_topic_partition_list_t *list, void *opaque)
{
    struct kafka_consumer *c = opaque;
    bool lost = rd_kafka_assignment_lost(rk) != 0;
    if (c->held && c->on_revoke)
        c->on_revoke(c->arg, lost);
    forget_held(c);
    if (err == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS && !c->closing) {
        metric_add(c->client.series[KAFKA_METRIC_REBALANCES], 1);
        c->held = rd_kafka_topic_partition_list_copy(list);
        ask_starts(c);
        return;
    }
    (void)rd_kafka_assign(rk, NULL);
}

static void on_commit(rd_kafka_t *rk, rd_kafka_resp_err_t err,
                      rd_kafka_topic_partition_list_t *list, void *opaque)
{
    struct kafka_consumer *c = opaque;
    (void)rk;
    (void)list;
    if (err && err != RD_KAFKA_RESP_ERR__NO_OFFSET)
        metric_add(c->client.series[KAFKA_METRIC_COMMIT_FAILURES], 1);
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static const char *const CONSUMER_PROPERTIES[][2] = {
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"auto.offset.reset", "error"}, /* earliest jumps over gaps and recreated topics in silence */
    {"enable.partition.eof", "true"},
    {"isolation.level", "read_committed"},
    {"partition.assignment.strategy", "range,roundrobin"}, /* eager: cooperative hangs in 2.0.2 */
    {"fetch.wait.max.ms", "100"},
    {"fetch.error.backoff.ms", "100"},
    {NULL, NULL}};

static int consumer_conf(struct kafka_consumer *c, const struct kafka_consumer_options *o,
                         rd_kafka_conf_t **out, struct fault *f)
{
    rd_kafka_conf_t *conf;
    int rc = kafka_client_conf(&c->client, &o->client, &conf, f);
    if (rc)
        return rc;
    uint32_t session = or_default(o->session_timeout_ms, DEFAULT_SESSION_MS);
    uint32_t poll = or_default(o->max_poll_interval_ms, DEFAULT_POLL_INTERVAL_MS);
    uint32_t heartbeat = session / 5 < 3000 ? session / 5 : 3000;
    uint32_t prefetch_kb = or_default(o->prefetch_kb, DEFAULT_PREFETCH_KB);
    for (size_t i = 0; rc == 0 && CONSUMER_PROPERTIES[i][0]; i++)
        rc = kafka_client_set(conf, CONSUMER_PROPERTIES[i][0], CONSUMER_PROPERTIES[i][1], f);
    if (rc == 0)
        rc = kafka_client_set(conf, "group.id", o->places ? NO_GROUP : o->group, f);
    if (rc == 0 && o->instance_id)
        rc = kafka_client_set(conf, "group.instance.id", o->instance_id, f);
    if (rc == 0)
        rc = kafka_client_set_int(conf, "session.timeout.ms", session, f);
    if (rc == 0)
        rc = kafka_client_set_int(conf, "heartbeat.interval.ms", heartbeat, f);
    if (rc == 0)
        rc = kafka_client_set_int(conf, "max.poll.interval.ms", poll > session ? poll : session, f);
    if (rc == 0)
        rc = kafka_client_set_int(conf, "queued.max.messages.kbytes", prefetch_kb, f);
    if (rc) {
        rd_kafka_conf_destroy(conf);
        return rc;
    }
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    rd_kafka_conf_set_offset_commit_cb(conf, on_commit);
    *out = conf;
    return 0;
}

static int make_slots(struct kafka_consumer *c, uint32_t max_held, struct fault *f)
{
    c->max_held = max_held;
    c->slots = calloc(max_held, sizeof *c->slots);
    c->free_slots = calloc(max_held, sizeof *c->free_slots);
    if (!c->slots || !c->free_slots)
        return fault_set(f, RC_FATAL, "no memory for %u Kafka messages", max_held);
    for (uint32_t i = 0; i < max_held; i++)
        c->free_slots[c->free_count++] = max_held - 1 - i;
    return 0;
}

static int subscribe(struct kafka_consumer *c, const char *const *topics, struct fault *f)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(KAFKA_MAX_TOPICS);
    int count = 0;
    while (count < KAFKA_MAX_TOPICS && topics[count])
        rd_kafka_topic_partition_list_add(list, topics[count++], RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t err =
        count && !topics[count] ? rd_kafka_subscribe(c->rk, list) : RD_KAFKA_RESP_ERR__INVALID_ARG;
    rd_kafka_topic_partition_list_destroy(list);
    if (err)
        return fault_set(f, RC_FATAL, "Kafka subscribe to %d topics: %s", count,
                         rd_kafka_err2str(err));
    return 0;
}

static int take_places(struct kafka_consumer *c, const struct kafka_start *places, size_t count,
                       struct fault *f)
{
    c->held = rd_kafka_topic_partition_list_new((int)count);
    for (size_t i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(c->held, places[i].topic, places[i].partition)->offset =
            places[i].offset;
    c->assigned = true;
    rd_kafka_resp_err_t err = assign_held(c);
    return err ? kafka_client_error(&c->client, err, "Kafka assign", f) : 0;
}

int kafka_consumer_open(const struct kafka_consumer_options *o, struct kafka_consumer **out,
                        struct fault *f)
{
    if (!o->places && (!o->group || !o->topics || !o->on_assign))
        return fault_set(f, RC_FATAL, "a Kafka consumer needs a group, topics and on_assign");
    struct kafka_consumer *c = calloc(1, sizeof *c);
    if (!c)
        return fault_set(f, RC_FATAL, "no memory for a Kafka consumer");
    kafka_client_init(&c->client, o->client.client_id);
    c->on_assign = o->on_assign;
    c->on_revoke = o->on_revoke;
    c->arg = o->arg;
    c->assign_retry_ms = or_default(o->assign_retry_ms, DEFAULT_ASSIGN_RETRY_MS);
    rd_kafka_conf_t *conf;
    int rc = make_slots(c, or_default(o->max_held, DEFAULT_MAX_HELD), f);
    if (rc == 0)
        rc = consumer_conf(c, o, &conf, f);
    if (rc == 0)
        rc = kafka_client_handle(RD_KAFKA_CONSUMER, conf, &c->rk, f);
    if (rc == 0) {
        (void)rd_kafka_poll_set_consumer(c->rk); /* one queue: all callbacks from consumer_poll */
        c->queue = rd_kafka_queue_get_consumer(c->rk);
        rc = kafka_ends_new(c->rk, &c->ends, f);
    }
    if (rc == 0)
        rc = o->places ? take_places(c, o->places, o->place_count, f) : subscribe(c, o->topics, f);
    if (rc) {
        kafka_consumer_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

void kafka_consumer_close(struct kafka_consumer *c)
{
    if (!c)
        return;
    kafka_ends_free(c->ends);
    for (uint32_t i = 0; c->slots && i < c->max_held; i++)
        if (c->slots[i])
            rd_kafka_message_destroy(c->slots[i]);
    if (c->rk) {
        c->closing = true;
        if (c->queue)
            rd_kafka_queue_destroy(c->queue);
        (void)rd_kafka_consumer_close(c->rk);
        forget_held(c);
        rd_kafka_destroy_flags(c->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    }
    free(c->slots);
    free(c->free_slots);
    free(c);
}

static void fill_message(struct kafka_message *m, const rd_kafka_message_t *raw)
{
    rd_kafka_timestamp_type_t type;
    int64_t timestamp = rd_kafka_message_timestamp(raw, &type);
    *m = (struct kafka_message){.topic = rd_kafka_topic_name(raw->rkt),
                                .partition = raw->partition,
                                .offset = raw->offset,
                                .timestamp_ms = timestamp,
                                .timestamp_type =
                                    type == RD_KAFKA_TIMESTAMP_CREATE_TIME       ? KAFKA_TIME_CREATE
                                    : type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME ? KAFKA_TIME_APPEND
                                                                                 : KAFKA_TIME_NONE,
                                .key = raw->key,
                                .key_len = raw->key_len,
                                .value = raw->payload,
                                .value_len = raw->len};
}

/* A queue that was full is not refilled before its broker thread wakes up: wake it at the half. */
static void keep_fetching(struct kafka_consumer *c)
{
    if (++c->since_check < CHECK_EVERY)
        return;
    c->since_check = 0;
    size_t length = rd_kafka_queue_length(c->queue);
    if (length > c->queue_peak) {
        c->queue_peak = length;
    } else if (c->queue_peak > (size_t)CHECK_EVERY * 4 && length < c->queue_peak / 2) {
        c->queue_peak = length;
        kafka_ends_nudge(c->ends, rd_kafka_topic_partition_list_copy(c->held));
    }
}

/* False: the message is of a partition that is not ours (any more), or stopped. */
static bool take_message(struct kafka_consumer *c, rd_kafka_message_t *raw, struct kafka_event *out)
{
    rd_kafka_topic_partition_t *p =
        kafka_consumer_held(c, rd_kafka_topic_name(raw->rkt), raw->partition);
    if (!p || p->offset == RD_KAFKA_OFFSET_INVALID || (p->offset >= 0 && raw->offset < p->offset)) {
        rd_kafka_message_destroy(raw);
        return false;
    }
    p->offset = raw->offset + 1;
    fill_message(&out->message, raw);
    out->message.owner = c;
    out->message.slot = c->free_slots[--c->free_count];
    c->slots[out->message.slot] = raw;
    out->kind = KAFKA_EVENT_MESSAGE;
    return true;
}

static bool take_place_event(struct kafka_consumer *c, const rd_kafka_message_t *raw,
                             enum kafka_event_kind kind, struct kafka_event *out)
{
    const rd_kafka_topic_partition_t *p =
        raw->rkt ? kafka_consumer_held(c, rd_kafka_topic_name(raw->rkt), raw->partition) : NULL;
    if (!p || p->offset == RD_KAFKA_OFFSET_INVALID)
        return false;
    *out = (struct kafka_event){.kind = kind,
                                .topic = p->topic,
                                .partition = p->partition,
                                .offset = raw->offset,
                                .low = -1,
                                .high = -1};
    if (kind == KAFKA_EVENT_OUT_OF_RANGE) {
        out->offset = p->offset;
        (void)kafka_consumer_watermarks(c, p->topic, p->partition, RANGE_QUERY_MS, &out->low,
                                        &out->high, NULL);
    }
    return true;
}

/* Something other than a record. 1: *out is an event; 0: nothing to tell; RC_ otherwise. */
static int take_error(struct kafka_consumer *c, const rd_kafka_message_t *raw,
                      struct kafka_event *out, struct fault *f)
{
    if (raw->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        return take_place_event(c, raw, KAFKA_EVENT_EOF, out);
    if (kafka_classify((int)raw->err) == KAFKA_RANGE)
        return take_place_event(c, raw, KAFKA_EVENT_OUT_OF_RANGE, out);
    char text[160];
    rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(c->rk, text, sizeof text);
    if (fatal) {
        (void)kafka_client_error(&c->client, fatal, "Kafka consumer", f);
        return fault_set(f, RC_FATAL, "Kafka consumer: %s (%s)", text, rd_kafka_err2name(fatal));
    }
    (void)kafka_client_error(&c->client, raw->err, "Kafka consumer", f);
    const char *what = raw->payload ? (const char *)raw->payload : rd_kafka_err2str(raw->err);
    return fault_set(f, RC_RETRY, "Kafka consumer: %s (%s)", what, rd_kafka_err2name(raw->err));
}

int kafka_consumer_poll(struct kafka_consumer *c, int timeout_ms, struct kafka_event *out,
                        struct fault *f)
{
    int64_t deadline = clock_mono_ms() + timeout_ms;
    for (;;) {
        out->kind = KAFKA_EVENT_NONE;
        if (c->free_count == 0)
            return fault_set(f, RC_FATAL, "%u Kafka messages are held: free some before polling",
                             c->max_held);
        if (c->held && !c->assigned && !c->failed.rc && clock_mono_ms() >= c->ask_again_ms)
            ask_starts(c);
        int64_t left = deadline - clock_mono_ms();
        rd_kafka_message_t *raw = rd_kafka_consumer_poll(c->rk, left > 0 ? (int)left : 0);
        if (c->failed.rc) {
            if (raw)
                rd_kafka_message_destroy(raw);
            if (f)
                *f = c->failed;
            return c->failed.rc;
        }
        if (!raw)
            return 0;
        int rc = 0;
        if (!raw->err) {
            if (take_message(c, raw, out)) {
                keep_fetching(c);
                return 0;
            }
        } else {
            rc = take_error(c, raw, out, f);
            rd_kafka_message_destroy(raw);
        }
        if (rc != 0)
            return rc == 1 ? 0 : rc;
    }
}

void kafka_message_free(struct kafka_message *m)
{
    struct kafka_consumer *c = m->owner;
    if (c) {
        rd_kafka_message_destroy(c->slots[m->slot]);
        c->slots[m->slot] = NULL;
        c->free_slots[c->free_count++] = m->slot;
    }
    memset(m, 0, sizeof *m);
}

size_t kafka_message_headers(const struct kafka_message *m, struct kafka_header *out, size_t max)
{
    rd_kafka_headers_t *headers;
    if (!m->owner || rd_kafka_message_headers(m->owner->slots[m->slot], &headers))
        return 0;
    size_t n = 0;
    while (n < max &&
           rd_kafka_header_get_all(headers, n, &out[n].name, &out[n].value, &out[n].len) == 0)
        n++;
    return n;
}

/* In place when librdkafka can; else all partitions are assigned again where they stand. */
static int move_to(struct kafka_consumer *c, rd_kafka_topic_partition_t *p, int64_t offset,
                   struct fault *f)
{
    bool was_read = p->offset != RD_KAFKA_OFFSET_INVALID;
    p->offset = offset;
    if (was_read && offset != KAFKA_OFFSET_NONE) {
        rd_kafka_topic_partition_list_t *one = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(one, p->topic, p->partition)->offset = offset;
        rd_kafka_error_t *error = rd_kafka_seek_partitions(c->rk, one, SEEK_MS);
        bool done = !error && one->elems[0].err == RD_KAFKA_RESP_ERR_NO_ERROR;
        rd_kafka_error_destroy(error);
        rd_kafka_topic_partition_list_destroy(one);
        if (done)
            return 0;
    }
    rd_kafka_resp_err_t err = assign_held(c);
    return err ? kafka_client_error(&c->client, err, "Kafka seek", f) : 0;
}

int kafka_consumer_seek(struct kafka_consumer *c, const char *topic, int32_t partition,
                        int64_t offset, struct fault *f)
{
    rd_kafka_topic_partition_t *p = kafka_consumer_held(c, topic, partition);
    if (!p || !c->assigned)
        return fault_set(f, RC_REJECT, "partition %d of %s is not assigned to this consumer",
                         partition, topic);
    return move_to(c, p, offset, f);
}

void kafka_consumer_pause(struct kafka_consumer *c)
{
    c->paused = true;
    apply_pause(c);
}

void kafka_consumer_resume(struct kafka_consumer *c)
{
    c->paused = false;
    apply_pause(c);
}

bool kafka_consumer_paused(const struct kafka_consumer *c)
{
    return c->paused;
}

size_t kafka_consumer_assignment(const struct kafka_consumer *c, struct kafka_start *out,
                                 size_t max)
{
    if (!c->held || !c->assigned)
        return 0;
    size_t count = (size_t)c->held->cnt;
    for (size_t i = 0; i < count && i < max; i++)
        out[i] = (struct kafka_start){.topic = c->held->elems[i].topic,
                                      .partition = c->held->elems[i].partition,
                                      .offset = c->held->elems[i].offset};
    return count;
}

bool kafka_consumer_connected(const struct kafka_consumer *c)
{
    return atomic_load(&c->client.connected);
}

bool kafka_consumer_failed(const struct kafka_consumer *c, struct fault *why)
{
    char text[160];
    rd_kafka_resp_err_t err = rd_kafka_fatal_error(c->rk, text, sizeof text);
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    (void)fault_set(why, RC_FATAL, "Kafka consumer: %s (%s)", text, rd_kafka_err2name(err));
    return true;
}

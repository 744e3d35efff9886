/* relay_read.c - the next rows of the outbox, sent to Kafka in id order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producers/relay_state.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/kafka_producer.h"
#include "runtime/log.h"
#include "runtime/metrics.h"

enum {
    HEADER_TEXT = 16384,
    TOPICS_BYTES = 8192,
    HOLD_MS = 1000, /* a topic that is not there is tried again */
    LEASE_MS = 500  /* what was read longer ago is not sent: somebody else may lead by now */
};

static void hold_topic(struct relay *r, const char *topic, int64_t now, const char *why)
{
    LOG_WARN("topic held back", LOG_STR("database", r->name), LOG_STR("topic", topic),
             LOG_STR("reason", why));
    if (r->held_count == RELAY_MAX_HELD_TOPICS)
        return;
    struct relay_held_topic *h = &r->held[r->held_count++];
    (void)snprintf(h->name, sizeof h->name, "%s", topic);
    h->until_ms = now + HOLD_MS;
}

void relay_release_topics(struct relay *r, int64_t now)
{
    for (size_t i = 0; i < r->held_count; i++)
        if (now >= r->held[i].until_ms)
            r->held[i--] = r->held[--r->held_count];
}

static int read_rows(struct relay *r, struct pg_result **out, struct fault *f)
{
    struct pg_array topics;
    pg_array_init(&topics, PG_TEXT, TOPICS_BYTES);
    for (size_t i = 0; i < r->held_count; i++)
        (void)pg_array_text(&topics, r->held[i].name);
    pg_array_reset(&r->firsts);
    pg_array_reset(&r->lasts);
    for (size_t i = 0; i < r->gaps.count; i++) {
        (void)pg_array_int8(&r->firsts, r->gaps.at[i].from);
        (void)pg_array_int8(&r->lasts, r->gaps.at[i].to);
    }
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, &r->firsts);
    pg_params_array(&p, &r->lasts);
    pg_params_int8(&p, r->gaps.next);
    pg_params_array(&p, &topics);
    pg_params_bool(&p, r->has_failed);
    pg_params_int8(&p, RELAY_READ_ROWS);
    pg_params_int8(&p, RELAY_READ_BYTES);
    int rc = relay_run(r, "read.sql", &p, out, f);
    pg_array_done(&topics);
    return rc;
}

enum { C_ID, C_TOPIC, C_KEY, C_VALUE, C_NAMES, C_VALUES, C_TIME, C_BLOCKED };

/* 0: sent. RC_RETRY: stop here for now. RC_REJECT: this row can't be sent; *f says why. */
static int send_row(struct relay *r, struct relay_batch *batch, int i, struct fault *f)
{
    struct kafka_header headers[KAFKA_MAX_HEADERS];
    char text[HEADER_TEXT];
    size_t key_len = 0, value_len = 0;
    const void *key = pg_result_bytes(batch->rows, i, C_KEY, &key_len);
    const void *value = pg_result_bytes(batch->rows, i, C_VALUE, &value_len);
    size_t count = relay_row_headers(batch->rows, i, C_NAMES, C_VALUES, headers, KAFKA_MAX_HEADERS,
                                     text, sizeof text);
    if (count == SIZE_MAX)
        return fault_set(f, RC_REJECT, "more headers than %d, or too long", KAFKA_MAX_HEADERS);
    struct relay_row *row = malloc(sizeof *row);
    if (!row)
        return fault_set(f, RC_RETRY, "no memory for an outbox row");
    *row = (struct relay_row){.id = pg_result_int(batch->rows, i, C_ID),
                              .batch = batch,
                              .bytes = value_len,
                              .place = r->on_way_count};
    struct kafka_record record = {.topic = pg_result_text(batch->rows, i, C_TOPIC),
                                  .key = key,
                                  .key_len = key_len,
                                  .value = value,
                                  .value_len = value_len,
                                  .borrow_value = true,
                                  .headers = headers,
                                  .header_count = count,
                                  .timestamp_ms = pg_result_int(batch->rows, i, C_TIME),
                                  .tag = row};
    int rc = kafka_producer_send(r->producer, &record, f);
    if (rc) {
        free(row);
        return rc;
    }
    batch->users++;
    r->bytes_on_way += value_len;
    r->on_way[r->on_way_count++] = row;
    return 0;
}

static int join_failed(struct relay *r, struct pg_array *blocked, struct fault *f)
{
    if (blocked->count == 0)
        return 0;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, blocked);
    int rc = relay_run(r, "join.sql", &p, NULL, f);
    if (rc == 0)
        metric_add(r->moved, (uint64_t)blocked->count);
    return rc;
}

struct sending {
    int count;       /* rows that went out */
    bool whole;      /* none was left for later */
    bool crowded;    /* no room to note another gap */
    int64_t refused; /* this one can't be sent at all */
    struct fault why;
};

/* Returns false: stop here. */
static bool send_next(struct relay *r, struct relay_batch *batch, int i, struct pg_array *blocked,
                      struct sending *s)
{
    int64_t id = pg_result_int(batch->rows, i, C_ID);
    bool lone = relay_is_suspect(r, id);
    if (r->alone_id || (lone && r->on_way_count > 0))
        return false;
    struct relay_gaps *g = &r->gaps;
    if (g->count + 1 >= RELAY_MAX_GAPS) {
        s->crowded = true;
        return false;
    }
    if (pg_result_bool(batch->rows, i, C_BLOCKED)) {
        (void)pg_array_int8(blocked, id);
        return relay_gaps_seen(g, id);
    }
    int rc = send_row(r, batch, i, &s->why);
    if (rc == RC_REJECT)
        s->refused = id;
    else if (rc && strstr(s->why.text, "queue is full") == NULL &&
             strstr(s->why.text, "made anew") == NULL)
        hold_topic(r, pg_result_text(batch->rows, i, C_TOPIC), clock_mono_ms(), s->why.text);
    if (rc)
        return false;
    if (lone)
        r->alone_id = id;
    s->count++;
    return relay_gaps_seen(g, id);
}

static int send_rows(struct relay *r, struct relay_batch *batch, struct sending *s, struct fault *f)
{
    struct pg_array blocked;
    pg_array_init(&blocked, PG_INT8, (size_t)RELAY_READ_ROWS * 16);
    int rows = pg_result_rows(batch->rows), i = 0;
    while (i < rows && send_next(r, batch, i, &blocked, s))
        i++;
    s->whole = i == rows;
    if (s->crowded)
        r->reopen = true;
    int rc = join_failed(r, &blocked, f);
    pg_array_done(&blocked);
    return rc == 0 && s->refused ? relay_move_refused(r, s->refused, s->why.text, f) : rc;
}

/* Fewer rows than asked for, by count and by bytes: there is no more just now. */
static bool read_all(const struct relay_batch *batch)
{
    int rows = pg_result_rows(batch->rows);
    size_t bytes = 0, len = 0;
    for (int i = 0; i < rows; i++, bytes += len)
        (void)pg_result_bytes(batch->rows, i, C_VALUE, &len);
    return rows < RELAY_READ_ROWS && bytes < RELAY_READ_BYTES;
}

int relay_read_and_send(struct relay *r, int *out_wait_ms, struct fault *f)
{
    int64_t began = clock_mono_ms();
    struct relay_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return fault_set(f, RC_RETRY, "no memory for a read of the outbox");
    batch->users = 1;
    struct sending s = {0};
    int rc = read_rows(r, &batch->rows, f);
    if (rc == 0 && clock_mono_ms() - began < LEASE_MS)
        rc = send_rows(r, batch, &s, f);
    bool all = rc == 0 && s.whole && read_all(batch);
    if (all && r->held_count == 0) /* held rows stay in their gaps */
        relay_gaps_close(&r->gaps);
    relay_batch_release(batch);
    if (s.count)
        r->busy_until_ms = began + RELAY_BUSY_FOR_MS;
    bool busy = r->on_way_count > 0 || began < r->busy_until_ms;
    *out_wait_ms = s.whole && !all ? 0 : busy ? RELAY_BUSY_MS : RELAY_IDLE_MS;
    return rc;
}

/* relay.c - the leader's round: delete what is delivered, read what is next, send it in order. */
#include "producers/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producers/relay_row.h"
#include "relay_sql.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/kafka_producer.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/pg.h"

enum {
    READ_ROWS = 2000,
    MAX_ON_WAY = 8000,
    MAX_SUSPECTS = READ_ROWS,
    MAX_HELD_TOPICS = 16,
    HEADER_TEXT = 16384,
    BUSY_MS = 10,
    IDLE_MS = 100,
    STANDBY_MS = 100,
    TROUBLE_MS = 100, /* after a row was not delivered */
    LOOK_MS = 1000,   /* metrics, retries, low-water */
    FULL_LOOK_MS = 5000,
    HOLD_MS = 1000, /* a topic that is not there is tried again */
    LEASE_MS = 800, /* what was read longer ago is not sent: somebody else may lead by now */
    SESSION_IDLE_MS = 1000, /* longer than a round ever pauses; see relay.h */
    ARRAY_BYTES = 1 << 20
};
/* "urr relay" as a number: the advisory lock's name. */
#define LEADER_LOCK "8246190432057341"

struct held_topic {
    char name[250];
    int64_t until_ms;
};

struct relay {
    char name[32];
    struct pg *pg;
    struct kafka_producer *producer;
    bool leads;

    struct relay_row *on_way[MAX_ON_WAY];
    size_t on_way_count;
    struct pg_array delivered;      /* ids to delete */
    struct pg_array ids;            /* scratch: ids on their way */
    int64_t suspects[MAX_SUSPECTS]; /* refused with their batch: to be sent alone, ascending ids */
    size_t suspect_count;
    int64_t alone_id; /* the suspect on its way by itself, or 0 */
    int64_t refused_id;
    char refused_reason[128];
    bool trouble; /* a row was not delivered: give up the rest and begin again */

    struct held_topic held[MAX_HELD_TOPICS];
    size_t held_count;
    int64_t low;       /* no row at or below it can appear any more */
    int64_t max_seen;  /* highest id read */
    int64_t candidate; /* becomes low when every transaction below candidate_xmax has ended */
    int64_t candidate_xmax;
    bool candidate_done; /* they have: the next complete read makes it low */
    bool has_failed;
    int64_t look_ms, full_look_ms;

    struct metric *leader, *oldest, *failed_rows, *sent, *moved, *restarts;
};

enum { M_LEADER, M_OLDEST, M_FAILED, M_SENT, M_MOVED, M_RESTARTS };
const struct metric_def RELAY_METRICS[] = {
    [M_LEADER] = {"urr_relay_leader", METRIC_GAUGE, "1 while this relay serves the database.",
                  "database", NULL, 0},
    [M_OLDEST] = {"urr_relay_oldest_row_seconds", METRIC_GAUGE, "Age of the oldest row in outbox.",
                  "database", NULL, 0},
    [M_FAILED] = {"urr_relay_failed_rows", METRIC_GAUGE, "Rows waiting in outbox_failed.",
                  "database", NULL, 0},
    [M_SENT] = {"urr_relay_rows_total", METRIC_COUNTER, "Rows delivered to Kafka and deleted.",
                "database", NULL, 0},
    [M_MOVED] = {"urr_relay_rows_failed_total", METRIC_COUNTER, "Rows moved to outbox_failed.",
                 "database", NULL, 0},
    [M_RESTARTS] = {"urr_relay_restarts_total", METRIC_COUNTER,
                    "Times everything on its way was given up and read again.", "database", NULL,
                    0},
    {0}};
const size_t RELAY_METRICS_COUNT = sizeof RELAY_METRICS / sizeof *RELAY_METRICS - 1;

static const struct pg_stmt TRY_LOCK = {"relay_lock",
                                        "SELECT pg_try_advisory_lock(" LEADER_LOCK ")"};

static int run(struct relay *r, const char *file, const struct pg_params *p, struct pg_result **out,
               struct fault *f)
{
    struct pg_stmt stmt = {file, embed_find(relay_sql, file)->data};
    return pg_exec(r->pg, &stmt, p, out, f);
}

static void forget_row(struct relay *r, struct relay_row *row)
{
    struct relay_row *last = r->on_way[--r->on_way_count];
    r->on_way[row->place] = last;
    last->place = row->place;
    relay_batch_release(row->batch);
    free(row);
}

static void suspect(struct relay *r, int64_t id)
{
    if (r->suspect_count < MAX_SUSPECTS)
        r->suspects[r->suspect_count++] = id;
}

static bool is_suspect(const struct relay *r, int64_t id)
{
    for (size_t i = 0; i < r->suspect_count; i++)
        if (r->suspects[i] == id)
            return true;
    return false;
}

static void clear_suspect(struct relay *r, int64_t id)
{
    for (size_t i = 0; i < r->suspect_count; i++)
        if (r->suspects[i] == id)
            r->suspects[i--] = r->suspects[--r->suspect_count];
}

static void on_delivery(void *arg, const struct kafka_delivery *d)
{
    struct relay *r = arg;
    struct relay_row *row = d->tag;
    if (d->outcome == KAFKA_DELIVERED) {
        (void)pg_array_int8(&r->delivered, row->id);
        clear_suspect(r, row->id);
    } else {
        r->trouble = true;
        if (d->outcome == KAFKA_REFUSED && row->id == r->alone_id) {
            r->refused_id = row->id;
            (void)snprintf(r->refused_reason, sizeof r->refused_reason, "%s", d->reason);
        } else if (d->outcome == KAFKA_REFUSED) {
            suspect(r, row->id);
        }
    }
    if (row->id == r->alone_id)
        r->alone_id = 0;
    forget_row(r, row);
}

/* Everything not acknowledged is forgotten here and still in the table: the next reads find it. */
static void begin_again(struct relay *r)
{
    kafka_producer_purge(r->producer);
    r->low = r->max_seen = r->candidate = 0;
    r->candidate_done = false;
    r->alone_id = 0;
    r->trouble = false;
}

static void lose_lead(struct relay *r)
{
    if (r->leads)
        LOG_INFO("relay lost the lead", LOG_STR("database", r->name));
    r->leads = false;
    metric_set(r->leader, 0);
    begin_again(r);
}

static int connect_session(struct relay *r, struct fault *f)
{
    char sql[80];
    (void)snprintf(sql, sizeof sql, "SET idle_session_timeout = %d", SESSION_IDLE_MS);
    int rc = pg_connect(r->pg, f);
    return rc ? rc : pg_script(r->pg, "relay session", sql, f);
}

/* Sets r->leads. */
static int take_lead(struct relay *r, struct fault *f)
{
    struct pg_result *answer;
    int rc = pg_connected(r->pg) ? 0 : connect_session(r, f);
    if (rc == 0)
        rc = pg_exec(r->pg, &TRY_LOCK, NULL, &answer, f);
    if (rc)
        return rc;
    r->leads = pg_result_bool(answer, 0, 0);
    pg_result_free(answer);
    if (r->leads) {
        LOG_INFO("relay leads", LOG_STR("database", r->name));
        metric_set(r->leader, 1);
        r->look_ms = 0;
        r->has_failed = true; /* until looked */
    }
    return 0;
}

static int delete_delivered(struct relay *r, struct fault *f)
{
    if (r->delivered.count == 0)
        return 0;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, &r->delivered);
    int rc = run(r, "delete.sql", &p, NULL, f);
    if (rc == 0) {
        metric_add(r->sent, (uint64_t)r->delivered.count);
        pg_array_reset(&r->delivered);
    }
    return rc;
}

static int move_refused(struct relay *r, int64_t id, const char *reason, struct fault *f)
{
    struct pg_params p;
    struct pg_result *moved;
    pg_params_init(&p);
    pg_params_int8(&p, id);
    pg_params_text(&p, reason);
    int rc = run(r, "fail.sql", &p, &moved, f);
    if (rc)
        return rc;
    LOG_ERROR("outbox row refused by Kafka, moved to outbox_failed with its key's later rows",
              LOG_STR("database", r->name), LOG_INT("outbox_id", id), LOG_STR("reason", reason),
              LOG_INT("rows", pg_result_affected(moved)));
    metric_add(r->moved, (uint64_t)pg_result_affected(moved));
    pg_result_free(moved);
    clear_suspect(r, id);
    r->has_failed = true;
    r->look_ms = 0;
    return 0;
}

static int settle_trouble(struct relay *r, struct fault *f)
{
    metric_add(r->restarts, 1);
    begin_again(r);
    int rc = delete_delivered(r, f);
    if (rc == 0 && r->refused_id) {
        rc = move_refused(r, r->refused_id, r->refused_reason, f);
        if (rc == 0)
            r->refused_id = 0;
    }
    return rc;
}

static int retry_failed(struct relay *r, struct fault *f)
{
    struct pg_result *back;
    int rc = run(r, "retry.sql", NULL, &back, f);
    if (rc)
        return rc;
    LOG_INFO("failed rows are sent again", LOG_STR("database", r->name),
             LOG_INT("rows", pg_result_affected(back)));
    pg_result_free(back);
    r->low = r->candidate = 0;
    r->candidate_done = false;
    r->look_ms = 0; /* has_failed may have changed */
    return 0;
}

/* An id up to max_seen was drawn by a transaction that had its number by now (it held the entity's
 * row). When all transactions up to now have ended, one more read sees whatever they left: then low
 * may move. An open transaction anywhere only keeps low where it is. */
static void advance_low(struct relay *r, int64_t xmin, int64_t xmax)
{
    if (r->candidate > r->low && xmin >= r->candidate_xmax)
        r->candidate_done = true;
    if (r->candidate <= r->low && r->max_seen > r->low) {
        r->candidate = r->max_seen;
        r->candidate_xmax = xmax;
        r->candidate_done = false;
    }
}

static int look(struct relay *r, int64_t now, struct fault *f)
{
    struct pg_result *seen;
    int rc = run(r, "look.sql", NULL, &seen, f);
    if (rc)
        return rc;
    metric_set(r->oldest, pg_result_real(seen, 0, 0));
    metric_set(r->failed_rows, (double)pg_result_int(seen, 0, 1));
    r->has_failed = pg_result_int(seen, 0, 1) > 0;
    bool retry = pg_result_int(seen, 0, 2) > 0;
    advance_low(r, pg_result_int(seen, 0, 3), pg_result_int(seen, 0, 4));
    pg_result_free(seen);
    r->look_ms = now + LOOK_MS;
    if (now >= r->full_look_ms) { /* a row that was not written under its entity's lock */
        r->low = r->candidate = 0;
        r->candidate_done = false;
        r->full_look_ms = now + FULL_LOOK_MS;
    }
    return retry ? retry_failed(r, f) : 0;
}

static void hold_topic(struct relay *r, const char *topic, int64_t now, const char *why)
{
    LOG_WARN("topic held back", LOG_STR("database", r->name), LOG_STR("topic", topic),
             LOG_STR("reason", why));
    if (r->held_count == MAX_HELD_TOPICS)
        return;
    struct held_topic *h = &r->held[r->held_count++];
    (void)snprintf(h->name, sizeof h->name, "%s", topic);
    h->until_ms = now + HOLD_MS;
}

static void release_topics(struct relay *r, int64_t now)
{
    for (size_t i = 0; i < r->held_count; i++)
        if (now >= r->held[i].until_ms)
            r->held[i--] = r->held[--r->held_count];
    if (r->held_count > 0)
        r->low = r->candidate = 0; /* their rows stay below what is read */
}

static int read_rows(struct relay *r, struct pg_result **out, struct fault *f)
{
    struct pg_array topics;
    pg_array_init(&topics, PG_TEXT, 8192);
    for (size_t i = 0; i < r->held_count; i++)
        (void)pg_array_text(&topics, r->held[i].name);
    pg_array_reset(&r->ids);
    for (size_t i = 0; i < r->on_way_count; i++)
        (void)pg_array_int8(&r->ids, r->on_way[i]->id);
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, r->low);
    pg_params_array(&p, &r->ids);
    pg_params_array(&p, &topics);
    pg_params_bool(&p, r->has_failed);
    pg_params_int8(&p, READ_ROWS);
    int rc = run(r, "read.sql", &p, out, f);
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
    *row = (struct relay_row){
        .id = pg_result_int(batch->rows, i, C_ID), .batch = batch, .place = r->on_way_count};
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
    int rc = run(r, "join.sql", &p, NULL, f);
    if (rc == 0)
        metric_add(r->moved, (uint64_t)blocked->count);
    return rc;
}

/* Sends the rows of one read in order. *out_sent: how many; *out_whole: none was left for later. */
static int send_rows(struct relay *r, struct relay_batch *batch, int *out_sent, bool *out_whole,
                     struct fault *f)
{
    struct pg_array blocked;
    pg_array_init(&blocked, PG_INT8, ARRAY_BYTES);
    int64_t refused = 0, now = clock_mono_ms();
    struct fault why = {0};
    int rows = pg_result_rows(batch->rows), i = 0;
    for (; i < rows && r->alone_id == 0 && refused == 0; i++) {
        int64_t id = pg_result_int(batch->rows, i, C_ID);
        if (pg_result_bool(batch->rows, i, C_BLOCKED)) {
            (void)pg_array_int8(&blocked, id);
            continue;
        }
        bool lone = is_suspect(r, id);
        if (lone && r->on_way_count > 0)
            break;
        int rc = send_row(r, batch, i, &why);
        if (rc == RC_REJECT)
            refused = id;
        else if (rc && strstr(why.text, "queue is full") == NULL &&
                 strstr(why.text, "made anew") == NULL)
            hold_topic(r, pg_result_text(batch->rows, i, C_TOPIC), now, why.text);
        if (rc)
            break;
        if (lone)
            r->alone_id = id;
        ++*out_sent;
        if (id > r->max_seen)
            r->max_seen = id;
    }
    *out_whole = i == rows;
    int rc = join_failed(r, &blocked, f);
    pg_array_done(&blocked);
    return rc == 0 && refused ? move_refused(r, refused, why.text, f) : rc;
}

static int read_and_send(struct relay *r, int *out_wait_ms, struct fault *f)
{
    int64_t began = clock_mono_ms();
    struct relay_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return fault_set(f, RC_RETRY, "no memory for a read of the outbox");
    batch->users = 1;
    bool may_advance = r->candidate_done;
    int rc = read_rows(r, &batch->rows, f), sent = 0;
    bool whole = false;
    if (rc == 0 && clock_mono_ms() - began < LEASE_MS)
        rc = send_rows(r, batch, &sent, &whole, f);
    bool full = rc == 0 && pg_result_rows(batch->rows) == READ_ROWS;
    if (rc == 0 && may_advance && whole && !full) {
        r->low = r->candidate;
        r->candidate_done = false;
    }
    relay_batch_release(batch);
    *out_wait_ms = full && whole ? 0 : sent || r->on_way_count ? BUSY_MS : IDLE_MS;
    return rc;
}

static int lead(struct relay *r, int *out_wait_ms, struct fault *f)
{
    int64_t now = clock_mono_ms();
    (void)kafka_producer_poll(r->producer, 0);
    if (r->trouble) {
        *out_wait_ms = TROUBLE_MS;
        return settle_trouble(r, f);
    }
    int rc = delete_delivered(r, f);
    release_topics(r, now);
    if (rc == 0 && now >= r->look_ms)
        rc = look(r, now, f);
    *out_wait_ms = BUSY_MS;
    if (rc == 0 && r->on_way_count + READ_ROWS <= MAX_ON_WAY && r->alone_id == 0)
        rc = read_and_send(r, out_wait_ms, f);
    return rc;
}

int relay_step(struct relay *r, int *out_wait_ms, struct fault *f)
{
    *out_wait_ms = STANDBY_MS;
    int rc = 0;
    if (!r->leads) {
        (void)kafka_producer_poll(r->producer, 0);
        rc = take_lead(r, f);
    }
    if (rc == 0 && r->leads)
        rc = lead(r, out_wait_ms, f);
    if (rc == 0) {
        if (r->leads && *out_wait_ms > 0) {
            /* Deliveries end the wait early. */
            (void)kafka_producer_poll(r->producer, *out_wait_ms);
            *out_wait_ms = 0;
        }
        return 0;
    }
    lose_lead(r);
    pg_disconnect(r->pg); /* the lock goes with the session */
    *out_wait_ms = STANDBY_MS;
    return rc;
}

void relay_drain(struct relay *r, int timeout_ms)
{
    if (!r->leads)
        return;
    int64_t deadline = clock_mono_ms() + timeout_ms;
    int rc = 0;
    while (rc == 0 && r->on_way_count > 0 && !r->trouble && clock_mono_ms() < deadline) {
        (void)kafka_producer_poll(r->producer, 50);
        rc = delete_delivered(r, NULL);
    }
    if (rc == 0)
        (void)delete_delivered(r, NULL);
    lose_lead(r);
    pg_disconnect(r->pg);
}

int relay_new(const struct relay_options *o, struct relay **out, struct fault *f)
{
    struct relay *r = calloc(1, sizeof *r);
    if (!r)
        return fault_set(f, RC_FATAL, "no memory for a relay");
    (void)snprintf(r->name, sizeof r->name, "%s", o->name);
    pg_array_init(&r->delivered, PG_INT8, ARRAY_BYTES);
    pg_array_init(&r->ids, PG_INT8, ARRAY_BYTES);
    struct metric **series[] = {&r->leader, &r->oldest, &r->failed_rows,
                                &r->sent,   &r->moved,  &r->restarts};
    for (size_t i = 0; i < RELAY_METRICS_COUNT; i++)
        *series[i] = metrics_series(&RELAY_METRICS[i], (const char *[]){r->name});
    struct pg_session session = {.uri = o->database_url,
                                 .application_name = "urr-relay",
                                 .statement_timeout_ms = 5000,
                                 .connect_timeout_ms = 2000,
                                 .connection_check_ms = 500,
                                 .tcp_user_timeout_ms = 2000};
    struct kafka_producer_options producer = {.client = o->client,
                                              .forever = true,
                                              .max_messages = MAX_ON_WAY * 2,
                                              .on_delivery = on_delivery,
                                              .arg = r};
    int rc = pg_new(&session, &r->pg, f);
    if (rc == 0)
        rc = kafka_producer_open(&producer, &r->producer, f);
    if (rc) {
        relay_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void relay_free(struct relay *r)
{
    if (!r)
        return;
    kafka_producer_close(r->producer); /* reports every row: on_delivery frees them */
    pg_free(r->pg);
    pg_array_done(&r->delivered);
    pg_array_done(&r->ids);
    free(r);
}

bool relay_leads(const struct relay *r)
{
    return r->leads;
}

bool relay_kafka_connected(const struct relay *r)
{
    return kafka_producer_connected(r->producer);
}

bool relay_pg_connected(const struct relay *r)
{
    return pg_connected(r->pg);
}

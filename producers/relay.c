/* relay.c - the leader's round: delete what is delivered, read what is next, send it in order. */
#include "producers/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producers/relay_state.h"
#include "relay_sql.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/kafka_producer.h"
#include "runtime/log.h"
#include "runtime/metrics.h"

enum {
    STANDBY_MS = 100,
    TROUBLE_MS = 100, /* after a row was not delivered */
    LOOK_MS = 1000,   /* metrics, retries, gaps */
    SILENCE_MS = 200, /* well below idle_session_timeout in session.sql */
    FULL_LOOK_MS = 5000,
    STRAY_ROWS = 1000,
    ARRAY_BYTES = 1 << 20
};
/* "urr relay" as a number: the advisory lock's name. */
#define LEADER_LOCK "8246190432057341"

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

int relay_run(struct relay *r, const char *file, const struct pg_params *p, struct pg_result **out,
              struct fault *f)
{
    struct pg_stmt stmt = {file, embed_find(relay_sql, file)->data};
    int rc = pg_exec(r->pg, &stmt, p, out, f);
    r->talked_ms = clock_mono_ms();
    return rc;
}

/* With everything on its way and Kafka slow there is nothing to say, and the server would take the
 * leader for a stopped one. */
static int keep_session(struct relay *r, int64_t now, struct fault *f)
{
    return now - r->talked_ms < SILENCE_MS ? 0 : relay_run(r, "ping.sql", NULL, NULL, f);
}

static void lose_lead(struct relay *r)
{
    if (r->leads)
        LOG_INFO("relay lost the lead", LOG_STR("database", r->name));
    r->leads = false;
    metric_set(r->leader, 0);
    relay_begin_again(r);
}

static int connect_session(struct relay *r, struct fault *f)
{
    int rc = pg_connect(r->pg, f);
    return rc ? rc
              : pg_script(r->pg, "relay session", embed_find(relay_sql, "session.sql")->data, f);
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

static int retry_failed(struct relay *r, struct fault *f)
{
    struct pg_result *back;
    int rc = relay_run(r, "retry.sql", NULL, &back, f);
    if (rc)
        return rc;
    LOG_INFO("failed rows are sent again", LOG_STR("database", r->name),
             LOG_INT("rows", pg_result_affected(back)));
    pg_result_free(back);
    r->reopen = true;
    r->look_ms = 0; /* has_failed may have changed */
    return 0;
}

/* No row that is left has a lower id than this one, strays aside. */
static int64_t lowest_id(const struct relay *r)
{
    int64_t lowest = r->gaps.count ? r->gaps.at[0].from : r->gaps.next + 1;
    for (size_t i = 0; i < r->on_way_count; i++)
        if (r->on_way[i]->id < lowest)
            lowest = r->on_way[i]->id;
    return lowest;
}

/* A row that was not written under its entity's lock can turn up below everything that is read. One
 * read of its own, from the start, finds it; the ordinary reads stay where they are. */
static int look_for_strays(struct relay *r, struct fault *f)
{
    struct pg_params p;
    struct pg_result *ids;
    pg_params_init(&p);
    pg_params_int8(&p, lowest_id(r) - 1);
    pg_params_int8(&p, STRAY_ROWS);
    int rc = relay_run(r, "stray.sql", &p, &ids, f);
    if (rc)
        return rc;
    int rows = pg_result_rows(ids);
    if (rows > 0) {
        LOG_WARN("outbox rows came with old ids: reading from the start",
                 LOG_STR("database", r->name), LOG_INT("first_id", pg_result_int(ids, 0, 0)),
                 LOG_INT("rows", rows));
        r->reopen = true;
    }
    pg_result_free(ids);
    return 0;
}

static int look(struct relay *r, int64_t now, struct fault *f)
{
    struct pg_params p;
    struct pg_result *seen;
    pg_params_init(&p);
    pg_params_int8(&p, lowest_id(r));
    int rc = relay_run(r, "look.sql", &p, &seen, f);
    if (rc)
        return rc;
    metric_set(r->oldest, pg_result_real(seen, 0, 0));
    metric_set(r->failed_rows, (double)pg_result_int(seen, 0, 1));
    r->has_failed = pg_result_int(seen, 0, 1) > 0;
    bool retry = pg_result_int(seen, 0, 2) > 0;
    relay_gaps_look(&r->gaps, pg_result_int(seen, 0, 3), pg_result_int(seen, 0, 4));
    pg_result_free(seen);
    r->look_ms = now + LOOK_MS;
    if (now >= r->full_look_ms) {
        r->full_look_ms = now + FULL_LOOK_MS;
        rc = look_for_strays(r, f);
    }
    return rc == 0 && retry ? retry_failed(r, f) : rc;
}

/* False: there is enough on its way, or it has to arrive first. */
static bool may_read(struct relay *r)
{
    if (r->reopen && r->on_way_count == 0) {
        relay_gaps_reopen(&r->gaps);
        r->reopen = false;
    }
    return !r->reopen && r->alone_id == 0 && r->bytes_on_way < RELAY_MAX_BYTES_ON_WAY &&
           r->on_way_count + RELAY_READ_ROWS <= RELAY_MAX_ON_WAY;
}

static int lead(struct relay *r, int *out_wait_ms, struct fault *f)
{
    int64_t now = clock_mono_ms();
    (void)kafka_producer_poll(r->producer, 0);
    if (r->trouble) {
        *out_wait_ms = TROUBLE_MS;
        return relay_settle_trouble(r, f);
    }
    int rc = relay_delete_delivered(r, f);
    relay_release_topics(r, now);
    if (rc == 0 && now >= r->look_ms)
        rc = look(r, now, f);
    *out_wait_ms = RELAY_BUSY_MS;
    if (rc == 0 && may_read(r))
        rc = relay_read_and_send(r, out_wait_ms, f);
    return rc ? rc : keep_session(r, clock_mono_ms(), f);
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
        rc = relay_delete_delivered(r, NULL);
        if (rc == 0)
            rc = keep_session(r, clock_mono_ms(), NULL);
    }
    if (rc == 0)
        (void)relay_delete_delivered(r, NULL);
    lose_lead(r);
    pg_disconnect(r->pg);
}

int relay_new(const struct relay_options *o, struct relay **out, struct fault *f)
{
    struct relay *r = calloc(1, sizeof *r);
    if (!r)
        return fault_set(f, RC_FATAL, "no memory for a relay");
    (void)snprintf(r->name, sizeof r->name, "%s", o->name);
    pg_array_init(&r->firsts, PG_INT8, ARRAY_BYTES);
    pg_array_init(&r->lasts, PG_INT8, ARRAY_BYTES);
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
                                              .max_messages = RELAY_MAX_ON_WAY * 2,
                                              .on_delivery = relay_on_delivery,
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
    kafka_producer_close(r->producer); /* reports every row: relay_on_delivery frees them */
    pg_free(r->pg);
    pg_array_done(&r->firsts);
    pg_array_done(&r->lasts);
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

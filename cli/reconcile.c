/* reconcile.c - each check is one look that sees all its rows at the same moment. */
#include "cli/reconcile.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/change.h"
#include "cli/dlq.h"
#include "cli/log_scan.h"
#include "cli/redis_ask.h"
#include "cli/stage.h"
#include "events/event.h"
#include "events/topics.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/pg.h"

enum {
    ARENA_BYTES = 64 << 20,
    FIGURES = 8,
    MAX_EVENTS = 100000,
    AGAIN_MS = 1500,
    ROW_BYTES = 4096
};

static const char *const WAYS[][2] = {
    {"tokens", "a person decides who holds the seat: urrctl saga of its reservation"},
    {"items", "a person decides: urrctl saga of the reservation"},
    {"standing", "more is sold than there is: a person decides"},
    {"ledger", "urrctl saga of the reservation"},
    {"payments", "urrctl replay over the payment's offset, or urrctl dlq list"},
    {"stats", "urrctl stats rebuild"},
    {"redis", "urr-seats clears it within seconds"}};

static void add(struct reconcile *r, const char *check, const char *subject, const char *wanted,
                const char *found, const char *repair)
{
    if (r->count == RECONCILE_MAX) {
        r->dropped++;
        return;
    }
    struct difference *d = &r->list[r->count++];
    *d = (struct difference){.check = arena_strdup(&r->arena, check),
                             .subject = arena_strdup(&r->arena, subject),
                             .wanted = arena_strdup(&r->arena, wanted),
                             .found = arena_strdup(&r->arena, found),
                             .repair = repair ? arena_strdup(&r->arena, repair) : NULL};
    for (size_t i = 0; i < sizeof WAYS / sizeof WAYS[0]; i++)
        if (strcmp(WAYS[i][0], check) == 0)
            d->way = WAYS[i][1];
}

static void skip(struct reconcile *r, const char *why)
{
    if (r->skipped_count < sizeof r->skipped / sizeof r->skipped[0])
        r->skipped[r->skipped_count++] = why;
}

static void add_rows(struct reconcile *r, const struct pg_result *rows)
{
    for (int i = 0; i < pg_result_rows(rows); i++)
        add(r, pg_result_text(rows, i, 0), pg_result_text(rows, i, 1), pg_result_text(rows, i, 2),
            pg_result_text(rows, i, 3), pg_result_text(rows, i, 4));
}

static int check_ticket(struct reconcile *r)
{
    struct pg *pg = NULL;
    struct pg_result *rows = NULL;
    struct fault f = {0};
    int code = stage_pg(r->stage, STAGE_TICKET, &pg);
    if (code != CLI_OK)
        return code;
    int rc = pg_exec(pg, stage_sql("reconcile_ticket.sql"), NULL, &rows, &f);
    if (rc != 0)
        return stage_fail(r->stage, rc, &f);
    add_rows(r, rows);
    pg_result_free(rows);
    return CLI_OK;
}

/* --- the ledger against the log ------------------------------------------------------------------
 */

struct log_copy {
    struct pg *pg;
    struct buf row;
    struct arena arena;
    const struct dlq *dead;
    int64_t n;
};

static bool refused(const struct dlq *dead, const struct kafka_read *record)
{
    for (size_t i = 0; i < dead->count; i++)
        if (dead->letters[i].source_offset == record->offset &&
            dead->letters[i].source_partition == record->partition)
            return true;
    return false;
}

static void field(struct log_copy *c, const char *text, char end)
{
    (void)pg_copy_field(&c->row, text, text ? strlen(text) : 0);
    (void)buf_putc(&c->row, end);
}

/* The ledger's name of a payment: ticket_payment_ref(). */
static void payment_ref(const struct event *e, char *out, size_t size)
{
    char uuid[EVENT_UUID_LEN + 1] = "";
    if (e->payment.payment_id)
        (void)snprintf(out, size, "%s", e->payment.payment_id);
    else if (e->saga_id)
        (void)snprintf(out, size, "saga:%s", e->saga_id);
    else if (event_uuid(event_payment_subject(e), uuid))
        (void)snprintf(out, size, "%s:%s",
                       event_payment_type_name((enum event_payment_type)e->payment.payment_type),
                       uuid);
    else
        out[0] = '\0';
}

static int copy_record(const struct kafka_read *record, const struct kafka_header *headers,
                       size_t count, void *arg, struct fault *f)
{
    struct log_copy *c = arg;
    struct event_source src = {record->topic, record->value, record->value_len,
                               record->timestamp_ms, clock_wall_ms()};
    struct event_reject why;
    struct event e;
    char ref[400], number[32], place[64];
    (void)headers;
    (void)count;
    arena_reset(&c->arena);
    if (event_decode(&src, &c->arena, &e, &why, f) != 0 || refused(c->dead, record))
        return 0;
    payment_ref(&e, ref, sizeof ref);
    if (!ref[0])
        return 0;
    buf_reset(&c->row);
    (void)snprintf(number, sizeof number, "%lld", (long long)c->n++);
    field(c, number, '\t');
    field(c, e.type == EVENT_PAYMENT_CONFIRMED ? "confirmed" : "refunded", '\t');
    field(c, ref, '\t');
    (void)snprintf(number, sizeof number, "%lld", (long long)e.payment.amount);
    field(c, e.payment.amount == EVENT_NO_AMOUNT ? NULL : number, '\t');
    (void)snprintf(place, sizeof place, "%s/%d/%lld", record->topic, (int)record->partition,
                   (long long)record->offset);
    field(c, place, '\n');
    return pg_copy_data(c->pg, c->row.data, c->row.len, f);
}

/* Only what the ticket consumer has applied by now: the rest is on its way. */
static int limit_to_applied(struct reconcile *r, struct pg *pg, struct log_scan *scan,
                            struct fault *f)
{
    static const struct pg_stmt PLACE = {
        "reconcile_place", "SELECT next_offset FROM consumer_offsets WHERE consumer_group = $1 "
                           "AND topic = $2 AND partition = $3"};
    for (size_t i = 0; i < scan->count; i++) {
        struct pg_result *rows = NULL;
        struct pg_params p;
        pg_params_init(&p);
        pg_params_text(&p, config_str(r->stage->config, "TICKET_CONSUMER_GROUP"));
        pg_params_text(&p, scan->ranges[i].topic);
        pg_params_int4(&p, scan->ranges[i].partition);
        int rc = pg_exec(pg, &PLACE, &p, &rows, f);
        if (rc != 0)
            return rc;
        int64_t next = pg_result_rows(rows) ? pg_result_int(rows, 0, 0) : 0;
        pg_result_free(rows);
        scan->ranges[i].to = next < scan->ranges[i].to ? next : scan->ranges[i].to;
    }
    return 0;
}

static int compare_log(struct reconcile *r, struct pg *pg, struct log_scan *scan,
                       const struct dlq *dead, struct fault *f)
{
    struct log_copy copy = {.pg = pg, .dead = dead};
    struct pg_result *rows = NULL;
    struct pg_params p;
    int64_t now_ms = clock_wall_ms();
    buf_init(&copy.row, ROW_BYTES);
    arena_init(&copy.arena, 1 << 20);
    int rc = limit_to_applied(r, pg, scan, f);
    if (rc == 0)
        rc = pg_script(pg, "reconcile",
                       "DROP TABLE IF EXISTS reconcile_log; CREATE TEMP TABLE reconcile_log "
                       "(n bigint, kind text, payment_id text, amount bigint, place text)",
                       f);
    if (rc == 0)
        rc = pg_copy_begin(pg, "COPY reconcile_log FROM STDIN", f);
    if (rc == 0) {
        rc = log_scan_run(scan, r->stage, "reading payments", copy_record, &copy, f);
        if (rc == 0)
            rc = pg_copy_end(pg, NULL, f);
        else
            pg_copy_abort(pg);
    }
    pg_params_init(&p);
    pg_params_bool(&p, scan->low_sum == 0);
    pg_params_time_ms(&p, now_ms);
    if (rc == 0)
        rc = pg_exec(pg, stage_sql("reconcile_log.sql"), &p, &rows, f);
    if (rc == 0)
        add_rows(r, rows);
    pg_result_free(rows);
    buf_done(&copy.row);
    arena_done(&copy.arena);
    return rc;
}

static int check_log(struct reconcile *r)
{
    static struct log_scan scan;
    struct dlq dead = {0};
    struct fault f = {0};
    struct dlq_filter filter = {.topic = TOPIC_PAYMENT_EVENTS, .all = true};
    filter.group = config_str(r->stage->config, "TICKET_CONSUMER_GROUP");
    scan = (struct log_scan){0};
    /* The log's letters last: one that is refused meanwhile has not been applied either. */
    struct kafka_admin *admin = NULL;
    int code = stage_kafka(r->stage, &admin);
    if (code != CLI_OK)
        return code;
    int rc = log_scan_add(&scan, r->stage, TOPIC_PAYMENT_EVENTS, 0, &f);
    if (rc != 0)
        return stage_fail(r->stage, rc, &f);
    code = dlq_read(&dead, r->stage, &filter);
    if (code == CLI_OK) {
        rc = compare_log(r, r->stage->pg[STAGE_TICKET], &scan, &dead, &f);
        code = rc == 0 ? CLI_OK : stage_fail(r->stage, rc, &f);
    }
    dlq_done(&dead);
    return code;
}

/* --- the figures against ticket_db ---------------------------------------------------------------
 */

static const char *const FIGURE_NAMES[FIGURES] = {
    "reservations_created", "reservations_confirmed",   "total_revenue",
    "cancelled_refunded",   "refunded_revenue",         "cancelled_user",
    "cancelled_seat_lost",  "cancelled_event_cancelled"};

/* Both are sorted by event. Calls fn for each figure that differs. */
typedef void (*figure_fn)(const char *event, const char *figure, int64_t wanted, int64_t found,
                          void *arg);

static void merge(const struct pg_result *want, const struct pg_result *have, figure_fn fn,
                  void *arg)
{
    int i = 0, k = 0;
    while (i < pg_result_rows(want) || k < pg_result_rows(have)) {
        const char *a = i < pg_result_rows(want) ? pg_result_text(want, i, 0) : NULL;
        const char *b = k < pg_result_rows(have) ? pg_result_text(have, k, 0) : NULL;
        int order = !a ? 1 : !b ? -1 : strcmp(a, b);
        for (int n = 0; n < FIGURES; n++) {
            int64_t wanted = order <= 0 ? pg_result_int(want, i, n + 1) : 0;
            int64_t found = order >= 0 ? pg_result_int(have, k, n + 1) : 0;
            if (wanted != found)
                fn(order <= 0 ? a : b, FIGURE_NAMES[n], wanted, found, arg);
        }
        i += order <= 0;
        k += order >= 0;
    }
}

struct lasting { /* differences of the first look, to be found again in the second */
    struct reconcile *r;
    char **keys;
    size_t count;
    bool second;
};

static void note(const char *event, const char *figure, int64_t wanted, int64_t found, void *arg)
{
    struct lasting *l = arg;
    char key[400], want[32], have[32];
    (void)snprintf(key, sizeof key, "event %s, %s", event, figure);
    if (!l->second) {
        if (l->count < MAX_EVENTS)
            l->keys[l->count++] = arena_strdup(&l->r->arena, key);
        return;
    }
    for (size_t i = 0; i < l->count; i++)
        if (l->keys[i] && strcmp(l->keys[i], key) == 0) {
            (void)snprintf(want, sizeof want, "%lld", (long long)wanted);
            (void)snprintf(have, sizeof have, "%lld", (long long)found);
            add(l->r, "stats", key, want, have, NULL);
            return;
        }
}

static int look_at_figures(struct reconcile *r, struct lasting *l)
{
    struct pg *ticket = NULL, *stats = NULL;
    struct pg_result *want = NULL, *have = NULL;
    struct fault f = {0};
    int code = stage_pg(r->stage, STAGE_TICKET, &ticket);
    if (code == CLI_OK)
        code = stage_pg(r->stage, STAGE_STATS, &stats);
    if (code != CLI_OK)
        return code;
    int rc = pg_exec(ticket, stage_sql("reconcile_events.sql"), NULL, &want, &f);
    if (rc == 0)
        rc = pg_exec(stats, stage_sql("reconcile_figures.sql"), NULL, &have, &f);
    if (rc == 0)
        merge(want, have, note, l);
    pg_result_free(want);
    pg_result_free(have);
    return rc == 0 ? CLI_OK : stage_fail(r->stage, rc, &f);
}

/* An event on its way makes a difference too: what is there a moment later as well, stays. */
static int check_stats(struct reconcile *r)
{
    struct lasting l = {.r = r, .keys = calloc(MAX_EVENTS, sizeof(char *))};
    if (!l.keys)
        return cli_fail(r->stage->cli, CLI_FAILED, "no memory");
    int code = look_at_figures(r, &l);
    if (code == CLI_OK && l.count) {
        struct timespec wait = {AGAIN_MS / 1000, AGAIN_MS % 1000 * 1000000L};
        (void)nanosleep(&wait, NULL);
        l.second = true;
        code = look_at_figures(r, &l);
    }
    free(l.keys);
    return code;
}

/* --- Redis against PostgreSQL
 * --------------------------------------------------------------------- */

static const char *hash_field(const redisReply *hash, const char *name)
{
    for (size_t i = 0; i + 1 < hash->elements; i += 2)
        if (strcmp(hash->element[i]->str, name) == 0)
            return hash->element[i + 1]->str;
    return "";
}

/* seat:{EVENT}:SEAT; false for its counter. */
static bool seat_of(const char *key, char *out, size_t size)
{
    const char *end = strchr(key, '}');
    if (!end || end[1] != ':' || strstr(end, ":token_seq"))
        return false;
    (void)snprintf(out, size, "%s", end + 2);
    return true;
}

static int check_lock(struct reconcile *r, struct pg *pg, redisContext *redis, const char *key,
                      const char *seat, struct fault *f)
{
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, seat);
    redisReply *hash = redis_ask(redis, f, "HGETALL %s", key);
    if (!hash)
        return f->rc;
    int rc = pg_exec(pg, stage_sql("reconcile_seat.sql"), &p, &rows, f);
    if (rc == 0 && hash->elements) {
        bool there = pg_result_rows(rows) == 1;
        char found[200], wanted[200];
        const char *token = hash_field(hash, "token"), *user = hash_field(hash, "userId");
        bool same = there && strtoll(token, NULL, 10) == pg_result_int(rows, 0, 2) &&
                    strcmp(user, pg_result_text(rows, 0, 1)) == 0 &&
                    strcmp(pg_result_text(rows, 0, 0), "available") != 0;
        (void)snprintf(found, sizeof found, "locked by %.80s, token %.30s", user, token);
        (void)snprintf(wanted, sizeof wanted, "%s, token %lld",
                       there ? pg_result_text(rows, 0, 0) : "no such seat",
                       there ? (long long)pg_result_int(rows, 0, 2) : 0LL);
        if (!same)
            add(r, "redis", key, wanted, found, "drop the lock");
    }
    pg_result_free(rows);
    freeReplyObject(hash);
    return rc;
}

static int scan_locks(struct reconcile *r, struct pg *pg, redisContext *redis, struct fault *f)
{
    char cursor[32] = "0";
    int rc = 0;
    do {
        redisReply *page = redis_ask(redis, f, "SCAN %s MATCH seat:{*}:* COUNT 1000", cursor);
        if (!page)
            return f->rc;
        (void)snprintf(cursor, sizeof cursor, "%s", page->element[0]->str);
        for (size_t i = 0; rc == 0 && i < page->element[1]->elements; i++) {
            const char *key = page->element[1]->element[i]->str;
            char seat[160];
            if (seat_of(key, seat, sizeof seat))
                rc = check_lock(r, pg, redis, key, seat, f);
        }
        freeReplyObject(page);
    } while (rc == 0 && strcmp(cursor, "0") != 0);
    return rc;
}

static int check_redis(struct reconcile *r)
{
    struct pg *pg = NULL;
    redisContext *redis = NULL;
    struct fault f = {0};
    int code = stage_pg(r->stage, STAGE_TICKET, &pg);
    if (code != CLI_OK)
        return code;
    int rc = redis_ask_open(config_str(r->stage->config, "REDIS_URL"), &redis, &f);
    if (rc == 0)
        rc = scan_locks(r, pg, redis, &f);
    if (redis)
        redisFree(redis);
    return rc == 0 ? CLI_OK : stage_fail(r->stage, rc, &f);
}

int reconcile_run(struct reconcile *r, struct stage *stage)
{
    r->stage = stage;
    r->count = r->dropped = r->skipped_count = 0;
    arena_init(&r->arena, ARENA_BYTES);
    int code = check_ticket(r);
    if (code == CLI_OK && config_str(stage->config, "KAFKA_BROKERS"))
        code = check_log(r);
    if (code == CLI_OK && stage_has(stage, STAGE_STATS))
        code = check_stats(r);
    else if (code == CLI_OK)
        skip(r, "stats: STATS_DATABASE_URL is not set");
    if (code == CLI_OK && config_str(stage->config, "REDIS_URL"))
        code = check_redis(r);
    else if (code == CLI_OK)
        skip(r, "redis: REDIS_URL is not set");
    return code;
}

size_t reconcile_repairable(const struct reconcile *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++)
        count += r->list[i].repair != NULL;
    return count;
}

static int repair_ticket(struct pg *pg, const struct cli_change *change, size_t count,
                         struct fault *f)
{
    static const char *const FILES[] = {"reconcile_repair_items.sql", "reconcile_hold_seats.sql",
                                        "reconcile_repair_seats.sql",
                                        "reconcile_repair_standing.sql"};
    char after[64];
    int rc = pg_begin(pg, f);
    for (size_t i = 0; rc == 0 && i < sizeof FILES / sizeof FILES[0]; i++)
        rc = pg_exec(pg, stage_sql(FILES[i]), NULL, NULL, f);
    (void)snprintf(after, sizeof after, "{\"repaired\":%zu}", count);
    if (rc == 0)
        rc = cli_audit(pg, change, NULL, after, f);
    if (rc == 0)
        rc = pg_commit(pg, f);
    if (rc != 0)
        pg_rollback(pg);
    return rc;
}

/* The lock goes only while it is still the one that was looked at. */
static int repair_redis(struct reconcile *r, struct fault *f)
{
    static const char DROP[] = "if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then return "
                               "redis.call('DEL', KEYS[1]) end return 0";
    redisContext *redis = NULL;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->count; i++) {
        const char *token = strstr(r->list[i].found, "token ");
        if (strcmp(r->list[i].check, "redis") != 0 || !token)
            continue;
        if (!redis)
            rc = redis_ask_open(config_str(r->stage->config, "REDIS_URL"), &redis, f);
        redisReply *reply =
            rc == 0 ? redis_ask(redis, f, "EVAL %s 1 %s %s", DROP, r->list[i].subject, token + 6)
                    : NULL;
        rc = reply ? 0 : f->rc;
        if (reply)
            freeReplyObject(reply);
    }
    if (redis)
        redisFree(redis);
    return rc;
}

int reconcile_repair(struct reconcile *r, const struct cli_change *change)
{
    struct fault f = {0};
    int rc = repair_ticket(r->stage->pg[STAGE_TICKET], change, reconcile_repairable(r), &f);
    if (rc == 0)
        rc = repair_redis(r, &f);
    if (rc != 0)
        return stage_fail(r->stage, rc, &f);
    struct reconcile *again = calloc(1, sizeof *again);
    if (!again)
        return cli_fail(r->stage->cli, CLI_FAILED, "no memory");
    int code = reconcile_run(again, r->stage);
    for (size_t i = 0; code == CLI_OK && i < r->count; i++) {
        r->list[i].repaired = true;
        for (size_t k = 0; k < again->count; k++)
            if (strcmp(r->list[i].check, again->list[k].check) == 0 &&
                strcmp(r->list[i].subject, again->list[k].subject) == 0)
                r->list[i].repaired = false;
    }
    reconcile_done(again);
    free(again);
    return code;
}

void reconcile_done(struct reconcile *r)
{
    arena_done(&r->arena);
}

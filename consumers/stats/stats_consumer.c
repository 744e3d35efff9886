/* stats_consumer.c - reads all domain topics into the figures of stats_db.
 *
 * Every event is an addition to counters, so that no two of them conflict: a batch is one wave and
 * one call of stats_apply(). Additions are made once because the engine deduplicates; the keys of
 * events other than payments are forgotten in time, and an event older than the forgotten keys is
 * dead-lettered, since nobody could tell any more whether it was counted. */
#include "consumers/stats/stats_consumer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumers/engine/engine.h"
#include "consumers/stats/stats_addition.h"
#include "events/event.h"
#include "runtime/arena.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/pg.h"

enum { COLUMN_BYTES = 1 << 20, PRUNE_STEP = 5000 };
#define PRUNE_EVERY_MS INT64_C(3600000)
#define DAY_MS INT64_C(86400000)

const struct config_item STATS_SETTINGS[] = {
    {"STATS_DATABASE_URL", CONFIG_URL, NULL, 0, 0, "postgresql|postgres",
     "stats_db: figures, offsets and dedupe keys.", 0},
    {"STATS_TIME_ZONE", CONFIG_STRING, "Asia/Seoul", 1, 64, NULL,
     "Time zone whose days and hours the figures are cut by.", 0},
    {"STATS_PRUNE_AFTER_DAYS", CONFIG_INT, "400", 0, 36500, NULL,
     "Days after which dedupe keys of events other than payments are forgotten; 0 = never.", 0},
    {0}};

enum column { TYPE, TIME, EVENT_ID, AMOUNT, DETAIL, COLUMN_COUNT };

struct stats_consumer {
    struct engine *engine;
    struct engine_spec spec;
    const char *time_zone;
    int64_t prune_after_ms;
    int64_t next_prune_ms;
    char prune_cursor[EVENT_KEY_MAX + 1]; /* where the forgetting goes on; "" between two passes */
    /* Of the batch under way, set by lock. */
    int32_t generation;
    int64_t pruned_before_ms; /* 0: nothing was ever pruned */
    struct pg_array columns[COLUMN_COUNT];
};

static int decode(struct arena *arena, struct engine_event *out, struct engine_reject *reject,
                  void *state, struct fault *f)
{
    (void)state;
    const struct engine_record *r = out->record;
    struct event_source src = {r->topic, r->value, r->value_len, r->timestamp_ms, r->now_ms};
    struct event_reject why = {0};
    struct event e;
    int rc = event_decode(&src, arena, &e, &why, f);
    if (rc != 0) {
        reject->reason = event_reason_name(why.reason);
        memcpy(reject->unknown, why.unknown, sizeof why.unknown);
        return rc;
    }
    struct stats_addition *a = arena_alloc(arena, sizeof *a);
    out->key = event_stats_key(&e, arena);
    if (!a || !out->key)
        return fault_set(f, RC_RETRY, "the batch is full");
    stats_addition(&e, a);
    out->body = a;
    return 0;
}

/* The live generation, held still until the batch is done: a prune or a switch of generations
 * waits. */
static int lock(struct engine_tx *tx, struct engine_event *const *events, size_t n, struct fault *f)
{
    (void)events;
    (void)n;
    static const struct pg_stmt LIVE = {"stats_live", "SELECT * FROM stats_live_generation()"};
    struct stats_consumer *c = tx->state;
    struct pg_result *rows = NULL;
    int rc = pg_exec(tx->pg, &LIVE, NULL, &rows, f);
    if (rc != 0)
        return rc;
    if (pg_result_rows(rows) != 1) {
        pg_result_free(rows);
        return fault_set(f, RC_FATAL, "stats_generations has no live generation");
    }
    c->generation = (int32_t)pg_result_int(rows, 0, 0);
    c->pruned_before_ms = pg_result_int(rows, 0, 1);
    pg_result_free(rows);
    return 0;
}

static void add_row(struct stats_consumer *c, const struct stats_addition *a)
{
    (void)pg_array_text(&c->columns[TYPE], a->type);
    (void)pg_array_int8(&c->columns[TIME], a->time_ms);
    (void)pg_array_text(&c->columns[EVENT_ID], a->event_id);
    if (a->amount == EVENT_NO_AMOUNT)
        (void)pg_array_null(&c->columns[AMOUNT]);
    else
        (void)pg_array_int8(&c->columns[AMOUNT], a->amount);
    (void)pg_array_text(&c->columns[DETAIL], a->detail);
}

static int apply(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                 struct fault *f)
{
    static const struct pg_stmt APPLY = {"stats_apply", "SELECT stats_apply($1,$2,$3,$4,$5,$6,$7)"};
    struct stats_consumer *c = tx->state;
    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_array_reset(&c->columns[i]);
    for (size_t i = 0; i < n; i++) {
        const struct stats_addition *a = events[i]->body;
        if (!a->payment && a->time_ms < c->pruned_before_ms)
            engine_dead(events[i], "older_than_pruned", "dedupe keys of that time are forgotten");
        else
            add_row(c, a);
    }
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int4(&p, c->generation);
    pg_params_text(&p, c->time_zone);
    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_params_array(&p, &c->columns[i]);
    return pg_exec(tx->pg, &APPLY, &p, NULL, f);
}

/* Forgets keys step by step: the first step of a pass moves pruned_before, in a transaction of its
 * own, so that no batch can count an event whose key is already gone. */
static int prune_step(struct engine_tx *tx, struct stats_consumer *c, struct fault *f)
{
    static const struct pg_stmt BEGIN_PASS = {"stats_prune_begin", "SELECT stats_prune_begin($1)"};
    static const struct pg_stmt STEP = {"stats_prune_step", "SELECT stats_prune_step($1,$2,$3)"};
    struct pg_params p;
    pg_params_init(&p);
    if (!c->prune_cursor[0]) {
        pg_params_time_ms(&p, tx->now_ms - c->prune_after_ms);
        int rc = pg_exec(tx->pg, &BEGIN_PASS, &p, NULL, f);
        if (rc == 0)
            memcpy(c->prune_cursor, " ", 2); /* before every key */
        return rc;
    }
    pg_params_text(&p, tx->group);
    pg_params_text(&p, c->prune_cursor);
    pg_params_int4(&p, PRUNE_STEP);
    struct pg_result *rows = NULL;
    int rc = pg_exec(tx->pg, &STEP, &p, &rows, f);
    if (rc != 0)
        return rc;
    const char *next = pg_result_text(rows, 0, 0);
    (void)snprintf(c->prune_cursor, sizeof c->prune_cursor, "%s", next ? next : "");
    if (!next)
        c->next_prune_ms = tx->now_ms + PRUNE_EVERY_MS;
    pg_result_free(rows);
    return 0;
}

static int tick(struct engine_tx *tx, struct fault *f)
{
    struct stats_consumer *c = tx->state;
    if (c->prune_after_ms == 0 || tx->now_ms < c->next_prune_ms)
        return 0;
    return prune_step(tx, c, f);
}

static const struct engine_handler HANDLERS[] = {{"figures", apply}, {NULL, NULL}};

/* A zone the C library knows is one PostgreSQL knows: Debian's server reads the same files. */
static int check_time_zone(const char *zone, struct fault *f)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", zone);
    bool plain = zone[0] != '/' && zone[0] != '.' && !strstr(zone, "..");
    if (!plain || (access(path, R_OK) != 0 && strcmp(zone, "UTC") != 0))
        return fault_set(
            f, RC_FATAL,
            "STATS_TIME_ZONE: there is no time zone %s (an IANA name such as Asia/Seoul)", zone);
    return 0;
}

static void init_columns(struct stats_consumer *c)
{
    static const enum pg_type types[COLUMN_COUNT] = {PG_TEXT, PG_INT8, PG_TEXT, PG_INT8, PG_TEXT};
    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_array_init(&c->columns[i], types[i], COLUMN_BYTES);
}

int stats_consumer_new(const struct config *config, struct stats_consumer **out, struct fault *f)
{
    if (check_time_zone(config_str(config, "STATS_TIME_ZONE"), f) != 0)
        return RC_FATAL;
    struct stats_consumer *c = calloc(1, sizeof *c);
    if (!c)
        return fault_set(f, RC_FATAL, "no memory for the stats consumer");
    init_columns(c);
    c->time_zone = config_str(config, "STATS_TIME_ZONE");
    c->prune_after_ms = config_int(config, "STATS_PRUNE_AFTER_DAYS") * DAY_MS;
    c->spec = (struct engine_spec){.name = "stats",
                                   .group = STATS_GROUP,
                                   .topics = STATS_TOPICS,
                                   .database_setting = "STATS_DATABASE_URL",
                                   .decode = decode,
                                   .handlers = HANDLERS,
                                   .lock = lock,
                                   .tick = tick,
                                   .state = c};
    *out = c;
    return 0;
}

const struct engine_spec *stats_consumer_spec(const struct stats_consumer *c)
{
    return &c->spec;
}

int stats_consumer_start(struct daemon *d, struct stats_consumer **out, struct fault *f)
{
    struct stats_consumer *c = NULL;
    int rc = stats_consumer_new(daemon_config(d), &c, f);
    if (rc == 0)
        rc = engine_start(d, &c->spec, &c->engine, f);
    if (rc != 0) {
        stats_consumer_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void stats_consumer_free(struct stats_consumer *c)
{
    if (!c)
        return;
    engine_free(c->engine);
    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_array_done(&c->columns[i]);
    free(c);
}

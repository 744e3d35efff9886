/* rebuild.c - the log once more, with the consumer's own decoding, into the next generation. */
#include "cli/rebuild.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/change.h"
#include "cli/progress.h"
#include "cli/stage.h"
#include "cli/table.h"
#include "consumers/stats/stats_addition.h"
#include "consumers/stats/stats_consumer.h"
#include "events/event.h"
#include "runtime/arena.h"
#include "runtime/clock.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/kafka_admin.h"
#include "runtime/kafka_reader.h"
#include "runtime/pg.h"

enum {
    ASK_MS = 10000,
    POLL_MS = 200,
    SILENCE_MS = 30000,
    BATCH = 2000,
    ARENA_BYTES = 64 << 20,
    COLUMN_BYTES = 16 << 20,
    NEAR = 20000, /* records that may be left when the live consumer is held */
    MAX_MEETINGS = 20,
    CLEAN_STEP = 20000
};

enum column { KEY, TYPE, TIME, EVENT_ID, AMOUNT, DETAIL, COLUMNS };

struct batch {
    struct rebuild *r;
    struct pg *pg;
    struct arena arena;
    struct pg_array columns[COLUMNS];
    int64_t reached[REBUILD_MAX_PLACES]; /* next offset once this batch is applied */
    size_t events;
    bool held; /* inside the caller's transaction */
};

static void batch_init(struct batch *b, struct rebuild *r, struct pg *pg, bool held)
{
    static const enum pg_type TYPES[COLUMNS] = {PG_TEXT, PG_TEXT, PG_INT8,
                                                PG_TEXT, PG_INT8, PG_TEXT};
    b->r = r;
    b->pg = pg;
    b->held = held;
    b->events = 0;
    arena_init(&b->arena, ARENA_BYTES);
    for (int i = 0; i < COLUMNS; i++)
        pg_array_init(&b->columns[i], TYPES[i], COLUMN_BYTES);
    for (size_t i = 0; i < r->count; i++)
        b->reached[i] = r->places[i].next;
}

static void batch_done(struct batch *b)
{
    for (int i = 0; i < COLUMNS; i++)
        pg_array_done(&b->columns[i]);
    arena_done(&b->arena);
}

static int send_batch(struct batch *b, struct pg_result **out, struct fault *f)
{
    static const enum pg_type TYPES[4] = {PG_TEXT, PG_INT4, PG_INT8, PG_INT8};
    struct pg_array moves[4];
    struct pg_params p;
    for (int i = 0; i < 4; i++)
        pg_array_init(&moves[i], TYPES[i], 1 << 20);
    for (size_t i = 0; i < b->r->count; i++) {
        const struct rebuild_place *place = &b->r->places[i];
        if (b->reached[i] == place->next && place->stored)
            continue;
        (void)pg_array_text(&moves[0], place->topic);
        (void)pg_array_int4(&moves[1], place->partition);
        (void)pg_array_int8(&moves[2], place->next);
        (void)pg_array_int8(&moves[3], b->reached[i]);
    }
    pg_params_init(&p);
    pg_params_int4(&p, b->r->generation);
    pg_params_text(&p, b->r->group);
    for (int i = 0; i < 4; i++)
        pg_params_array(&p, &moves[i]);
    for (int i = 0; i < COLUMNS; i++)
        pg_params_array(&p, &b->columns[i]);
    int rc = moves[0].count ? pg_exec(b->pg, stage_sql("rebuild_apply.sql"), &p, out, f) : 0;
    for (int i = 0; i < 4; i++)
        pg_array_done(&moves[i]);
    return rc;
}

static int flush(struct batch *b, struct fault *f)
{
    struct pg_result *rows = NULL;
    int rc = b->held ? 0 : pg_begin(b->pg, f);
    if (rc == 0)
        rc = send_batch(b, &rows, f);
    if (rc == 0 && !b->held)
        rc = pg_commit(b->pg, f);
    if (rc != 0) {
        pg_rollback(b->pg);
        return rc;
    }
    b->r->fresh += rows ? pg_result_int(rows, 0, 0) : 0;
    pg_result_free(rows);
    for (size_t i = 0; i < b->r->count; i++) {
        b->r->places[i].next = b->reached[i];
        b->r->places[i].stored = true;
    }
    for (int i = 0; i < COLUMNS; i++)
        pg_array_reset(&b->columns[i]);
    arena_reset(&b->arena);
    b->events = 0;
    return 0;
}

static size_t place_of(const struct rebuild *r, const struct kafka_read *record)
{
    size_t i = 0;
    while (i < r->count && (r->places[i].partition != record->partition ||
                            strcmp(r->places[i].topic, record->topic) != 0))
        i++;
    return i;
}

/* What the live consumer refuses is a dead letter and stays one: the rebuild passes it by. */
static int add_record(struct batch *b, const struct kafka_read *record, struct fault *f)
{
    struct event_source src = {record->topic, record->value, record->value_len,
                               record->timestamp_ms, clock_wall_ms()};
    struct event_reject why = {0};
    struct event e;
    struct stats_addition a;
    size_t place = place_of(b->r, record);
    int rc = event_decode(&src, &b->arena, &e, &why, f);
    const char *key = rc == 0 ? event_stats_key(&e, &b->arena) : NULL;
    if (rc == RC_RETRY || (rc == 0 && !key))
        return fault_set(f, RC_FATAL, "a batch of events does not fit");
    b->r->records++;
    b->reached[place] = record->offset + 1;
    b->events++;
    if (rc != 0) {
        b->r->refused++;
        return 0;
    }
    stats_addition(&e, &a);
    (void)pg_array_text(&b->columns[KEY], key);
    (void)pg_array_text(&b->columns[TYPE], a.type);
    (void)pg_array_int8(&b->columns[TIME], a.time_ms);
    (void)pg_array_text(&b->columns[EVENT_ID], a.event_id);
    if (a.amount == EVENT_NO_AMOUNT)
        (void)pg_array_null(&b->columns[AMOUNT]);
    else
        (void)pg_array_int8(&b->columns[AMOUNT], a.amount);
    (void)pg_array_text(&b->columns[DETAIL], a.detail);
    return 0;
}

static int read_all(struct batch *b, struct kafka_reader *reader, struct cli_progress *progress,
                    struct fault *f)
{
    int64_t heard_ms = clock_mono_ms();
    for (;;) {
        enum kafka_reader_state state;
        struct kafka_read record;
        int rc = kafka_reader_next(reader, POLL_MS, &state, &record, f);
        bool silent = clock_mono_ms() - heard_ms > SILENCE_MS;
        if (rc == RC_RETRY && !silent)
            continue;
        if (rc == 0 && state == KAFKA_READ_WAIT && silent)
            rc = fault_set(f, RC_RETRY, "Kafka sent nothing for %d s", SILENCE_MS / 1000);
        if (rc == 0 && state == KAFKA_READ_RECORD) {
            heard_ms = clock_mono_ms();
            rc = add_record(b, &record, f);
        }
        if (rc == 0 && b->events >= BATCH) {
            rc = flush(b, f);
            if (progress)
                cli_progress_at(progress, progress->start_at + b->r->records);
        }
        if (rc != 0 || state == KAFKA_READ_DONE)
            return rc;
    }
}

/* From where the rebuild stands to where the live group stands. */
static int catch_up(struct rebuild *r, struct pg *pg, bool held, struct cli_progress *progress,
                    struct fault *f)
{
    struct kafka_range ranges[REBUILD_MAX_PLACES];
    struct kafka_reader *reader = NULL;
    struct batch *b = calloc(1, sizeof *b);
    if (!b)
        return fault_set(f, RC_FATAL, "no memory");
    batch_init(b, r, pg, held);
    for (size_t i = 0; i < r->count; i++)
        ranges[i] = (struct kafka_range){r->places[i].topic, r->places[i].partition,
                                         r->places[i].next, r->places[i].live};
    int rc =
        rebuild_left(r) ? kafka_reader_open(&r->stage->kafka, ranges, r->count, &reader, f) : 0;
    if (rc == 0 && reader)
        rc = read_all(b, reader, progress, f);
    if (rc == 0) { /* offsets behind the last record belong to transactions: nothing to count */
        for (size_t i = 0; i < r->count; i++)
            if (b->reached[i] < r->places[i].live)
                b->reached[i] = r->places[i].live;
        rc = flush(b, f);
    }
    kafka_reader_close(reader);
    batch_done(b);
    free(b);
    return rc;
}

int64_t rebuild_left(const struct rebuild *r)
{
    int64_t left = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->places[i].live > r->places[i].next)
            left += r->places[i].live - r->places[i].next;
    return left;
}

static int read_places(struct rebuild *r, struct pg *pg, bool lock, struct fault *f)
{
    static const struct pg_stmt PLACES = {"rebuild_places",
                                          "SELECT * FROM stats_rebuild_places($1, $2, $3)"};
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int4(&p, r->generation);
    pg_params_text(&p, r->group);
    pg_params_bool(&p, lock);
    int rc = pg_exec(pg, &PLACES, &p, &rows, f);
    if (rc == 0 && pg_result_rows(rows) > REBUILD_MAX_PLACES)
        rc = fault_set(f, RC_REJECT, "more than %d partitions", REBUILD_MAX_PLACES);
    for (int i = 0; rc == 0 && i < pg_result_rows(rows); i++) {
        struct rebuild_place *place = &r->places[i];
        int64_t low = 0, high;
        (void)snprintf(place->topic, sizeof place->topic, "%s", pg_result_text(rows, i, 0));
        place->partition = (int32_t)pg_result_int(rows, i, 1);
        place->live = pg_result_int(rows, i, 2);
        if ((size_t)i >= r->count) /* new to us */
            rc = kafka_admin_watermarks(r->stage->admin, place->topic, place->partition, ASK_MS,
                                        &low, &high, f);
        if (rc == 0 && (size_t)i >= r->count)
            place->low = low;
        place->stored = !pg_result_null(rows, i, 3);
        place->next = place->stored ? pg_result_int(rows, i, 3) : place->low;
    }
    if (rc == 0)
        r->count = (size_t)pg_result_rows(rows);
    pg_result_free(rows);
    return rc;
}

/* The time of the first record that is left: of its event, or of the record where it is later. */
static int first_time(struct rebuild *r, const struct rebuild_place *place, int64_t *out,
                      struct fault *f)
{
    struct kafka_range range = {place->topic, place->partition, place->low, place->low + 1};
    struct kafka_reader *reader = NULL;
    enum kafka_reader_state state = KAFKA_READ_WAIT;
    struct kafka_read record;
    int64_t until = clock_mono_ms() + ASK_MS;
    int rc = kafka_reader_open(&r->stage->kafka, &range, 1, &reader, f);
    *out = clock_wall_ms(); /* nothing is left: no day up to now is whole */
    while (rc == 0 && state == KAFKA_READ_WAIT && clock_mono_ms() < until)
        rc = kafka_reader_next(reader, POLL_MS, &state, &record, f);
    if (rc == 0 && state == KAFKA_READ_RECORD) {
        struct arena arena;
        struct event e;
        struct event_reject why;
        struct fault scrap;
        struct event_source src = {record.topic, record.value, record.value_len,
                                   record.timestamp_ms, clock_wall_ms()};
        arena_init(&arena, 1 << 20);
        *out = record.timestamp_ms > 0 ? record.timestamp_ms : *out;
        if (event_decode(&src, &arena, &e, &why, &scrap) == 0 && e.timestamp_ms > *out)
            *out = e.timestamp_ms;
        arena_done(&arena);
    }
    kafka_reader_close(reader);
    return rc;
}

static int find_cut(struct rebuild *r, struct fault *f)
{
    for (size_t i = 0; i < r->count; i++) {
        int64_t first = 0;
        int rc = r->places[i].low > 0 ? first_time(r, &r->places[i], &first, f) : 0;
        if (rc != 0)
            return rc;
        r->cut_ms = first > r->cut_ms ? first : r->cut_ms;
    }
    return 0;
}

static int look(struct rebuild *r, struct pg *pg, struct fault *f)
{
    struct pg_result *rows = NULL;
    int rc = pg_exec(pg, stage_sql("rebuild_look.sql"), NULL, &rows, f);
    if (rc == 0 && pg_result_rows(rows) != 1)
        rc = fault_set(f, RC_REJECT, "stats_generations has no live generation");
    if (rc == 0) {
        r->generation = (int)pg_result_int(rows, 0, 0);
        r->live_generation = (int)pg_result_int(rows, 0, 1);
        r->resumed = r->generation != 0;
        const char *zone = pg_result_text(rows, 0, 2), *through = pg_result_text(rows, 0, 3);
        const char *by = pg_result_text(rows, 0, 4);
        (void)snprintf(r->copied_through, sizeof r->copied_through, "%s", through ? through : "");
        (void)snprintf(r->started_by, sizeof r->started_by, "%s", by ? by : "");
        if (zone && strcmp(zone, r->time_zone) != 0)
            rc = fault_set(f, RC_REJECT,
                           "generation %d was begun with STATS_TIME_ZONE=%.60s, now it is %.60s",
                           r->generation, zone, r->time_zone);
    }
    pg_result_free(rows);
    if (rc == 0)
        rc = read_places(r, pg, false, f);
    return rc == 0 && !r->resumed ? find_cut(r, f) : rc;
}

int rebuild_look(struct rebuild *r, struct stage *stage)
{
    struct pg *pg = NULL;
    struct kafka_admin *admin = NULL;
    struct fault f = {0};
    *r = (struct rebuild){.stage = stage,
                          .group = STATS_GROUP,
                          .time_zone = config_str(stage->config, "STATS_TIME_ZONE")};
    int code = stage_pg(stage, STAGE_STATS, &pg);
    if (code == CLI_OK)
        code = stage_kafka(stage, &admin);
    if (code != CLI_OK)
        return code;
    int rc = look(r, pg, &f);
    if (rc == 0 && r->count == 0)
        return cli_fail(stage->cli, CLI_REFUSED,
                        "%s has no offsets yet: there is nothing to rebuild", r->group);
    return rc == 0 ? CLI_OK : stage_fail(stage, rc, &f);
}

int rebuild_claim(struct rebuild *r)
{
    static const struct pg_stmt CLAIM = {
        "rebuild_claim", "SELECT pg_try_advisory_lock(hashtext('urr stats rebuild'))"};
    struct pg_result *rows = NULL;
    struct fault f = {0};
    int rc = pg_exec(r->stage->pg[STAGE_STATS], &CLAIM, NULL, &rows, &f);
    if (rc != 0)
        return stage_fail(r->stage, rc, &f);
    bool ours = pg_result_bool(rows, 0, 0);
    pg_result_free(rows);
    return ours ? CLI_OK
                : cli_fail(r->stage->cli, CLI_RETRY,
                           "another urrctl rebuilds the figures right now: wait for it");
}

/* A small transaction around one call that takes the generation, with its audit row. */
static int audited(struct rebuild *r, struct pg *pg, const struct cli_change *change,
                   const char *before, const char *word, struct fault *f)
{
    char after[160];
    (void)snprintf(after, sizeof after, "{\"generation\":%d,\"step\":\"%s\"}", r->generation, word);
    return cli_audit(pg, change, before, after, f);
}

int rebuild_begin(struct rebuild *r, const struct cli_change *change)
{
    static const struct pg_stmt BEGIN = {"rebuild_begin",
                                         "SELECT stats_rebuild_begin($1, $2, $3, $4)"};
    struct pg *pg = r->stage->pg[STAGE_STATS];
    struct pg_result *rows = NULL;
    struct fault f = {0};
    struct pg_params p;
    if (r->resumed)
        return CLI_OK;
    pg_params_init(&p);
    pg_params_text(&p, cli_operator());
    pg_params_text(&p, r->time_zone);
    if (r->cut_ms)
        pg_params_int8(&p, r->cut_ms);
    else
        pg_params_null(&p);
    pg_params_text(&p, r->group);
    int rc = pg_begin(pg, &f);
    if (rc == 0)
        rc = pg_exec(pg, &BEGIN, &p, &rows, &f);
    if (rc == 0)
        r->generation = (int)pg_result_int(rows, 0, 0);
    pg_result_free(rows);
    if (rc == 0)
        rc = audited(r, pg, change, NULL, "begun", &f);
    if (rc == 0)
        rc = pg_commit(pg, &f);
    if (rc != 0)
        pg_rollback(pg);
    int64_t cut_ms = r->cut_ms;
    if (rc == 0)
        rc = look(r, pg, &f); /* the day up to which is copied */
    r->cut_ms = cut_ms;
    return rc == 0 ? CLI_OK : stage_fail(r->stage, rc, &f);
}

int rebuild_fill(struct rebuild *r)
{
    struct fault f = {0};
    struct cli_progress progress;
    int64_t already = 0;
    for (size_t i = 0; i < r->count; i++)
        already += r->places[i].next - r->places[i].low;
    cli_progress_start(&progress, r->stage->cli, "rebuild", already + rebuild_left(r), already);
    int rc = catch_up(r, r->stage->pg[STAGE_STATS], false, &progress, &f);
    cli_progress_at(&progress, already + r->records);
    cli_progress_end(&progress);
    if (rc == RC_REJECT)
        return cli_fail(r->stage->cli, CLI_REFUSED,
                        "%s; the log was shortened meanwhile: urrctl stats rebuild --abort, then "
                        "begin anew",
                        f.text);
    return rc == 0 ? CLI_OK : stage_fail(r->stage, rc, &f);
}

static int call(struct pg *pg, const char *sql, const struct rebuild *r, const char *text,
                struct fault *f)
{
    struct pg_stmt stmt = {NULL, sql};
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int4(&p, r->generation);
    if (text)
        pg_params_text(&p, text);
    return pg_exec(pg, &stmt, &p, NULL, f);
}

static int compare(struct rebuild *r, struct pg *pg, struct cli_table *t, struct fault *f)
{
    struct pg_result *rows = NULL;
    struct pg_params p;
    int rc = call(pg, "SELECT stats_rebuild_copy($1)", r, NULL, f);
    pg_params_init(&p);
    pg_params_int4(&p, r->generation);
    if (rc == 0)
        rc = pg_exec(pg, stage_sql("rebuild_compare.sql"), &p, &rows, f);
    for (int i = 0; rc == 0 && i < pg_result_rows(rows); i++) {
        cli_put_text(t, pg_result_text(rows, i, 0));
        cli_put_text(t, pg_result_text(rows, i, 1));
        cli_put_text(t, pg_result_text(rows, i, 2));
        cli_put_number(t, pg_result_int(rows, i, 3));
        cli_put_number(t, pg_result_int(rows, i, 4));
    }
    pg_result_free(rows);
    return rc;
}

/* One try, in one transaction. *out_far: too much was left to keep the live consumer waiting. */
static int meet(struct rebuild *r, struct pg *pg, const struct cli_change *change,
                struct cli_table *differences, bool *out_far, struct fault *f)
{
    int rc = pg_begin(pg, f);
    if (rc == 0)
        rc = read_places(r, pg, true, f);
    *out_far = rc == 0 && rebuild_left(r) > NEAR;
    if (rc != 0 || *out_far)
        return rc;
    rc = catch_up(r, pg, true, NULL, f);
    if (rc == 0 && differences)
        rc = compare(r, pg, differences, f);
    if (rc == 0 && change)
        rc = call(pg, "SELECT stats_rebuild_switch($1, $2)", r, r->group, f);
    if (rc == 0 && change) {
        char before[64];
        (void)snprintf(before, sizeof before, "{\"generation\":%d}", r->live_generation);
        rc = audited(r, pg, change, before, "switched", f);
    }
    return rc == 0 ? pg_commit(pg, f) : rc;
}

int rebuild_meet(struct rebuild *r, const struct cli_change *change, struct cli_table *differences)
{
    struct pg *pg = r->stage->pg[STAGE_STATS];
    struct fault f = {0};
    for (int i = 0; i < MAX_MEETINGS; i++) {
        bool far = false;
        int rc = meet(r, pg, change, differences, &far, &f);
        if (rc == 0 && !far)
            return CLI_OK;
        pg_rollback(pg);
        if (rc == RC_RETRY && pg_connected(pg)) { /* lost against the live consumer */
            if (read_places(r, pg, false, &f) == 0)
                continue;
        }
        if (rc != 0)
            return stage_fail(r->stage, rc, &f);
        int code = rebuild_fill(r);
        if (code != CLI_OK)
            return code;
    }
    return cli_fail(r->stage->cli, CLI_RETRY,
                    "the live consumer is always ahead: run it again at a quieter time");
}

int rebuild_abort(struct rebuild *r, const struct cli_change *change)
{
    struct pg *pg = r->stage->pg[STAGE_STATS];
    struct fault f = {0};
    int rc = pg_begin(pg, &f);
    if (rc == 0)
        rc = call(pg, "SELECT stats_rebuild_abort($1, $2)", r, cli_operator(), &f);
    if (rc == 0)
        rc = audited(r, pg, change, NULL, "given up", &f);
    if (rc == 0)
        rc = pg_commit(pg, &f);
    if (rc != 0) {
        pg_rollback(pg);
        return stage_fail(r->stage, rc, &f);
    }
    return CLI_OK;
}

int rebuild_clean(struct rebuild *r)
{
    static const struct pg_stmt CLEAN = {"rebuild_clean", "SELECT stats_rebuild_clean($1)"};
    struct pg *pg = r->stage->pg[STAGE_STATS];
    struct fault f = {0};
    int64_t gone = 1;
    while (gone > 0) {
        struct pg_result *rows = NULL;
        struct pg_params p;
        pg_params_init(&p);
        pg_params_int4(&p, CLEAN_STEP);
        int rc = pg_exec(pg, &CLEAN, &p, &rows, &f);
        if (rc != 0)
            return stage_fail(r->stage, rc, &f);
        gone = pg_result_int(rows, 0, 0);
        pg_result_free(rows);
    }
    return CLI_OK;
}

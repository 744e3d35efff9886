/* dlq_act.c - redrive and discard: a mark and, for a redrive, an outbox row, in one transaction.
 *
 * Going through the outbox makes an interrupted redrive harmless: what is marked has left or will
 * leave, what is not marked has not. A record that two groups refused is sent once; the other
 * group's letter is only marked, also when the run was killed in between and runs again. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/change.h"
#include "cli/dlq.h"
#include "cli/progress.h"
#include "cli/stage.h"
#include "consumers/engine/dead_letter.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/pg.h"

enum { STEP_MS = 100, MAX_STEP = 500, STEP_BYTES = 16 << 20, COLUMN_BYTES = 64 << 20 };

enum column {
    NUMBER,
    TOPIC,
    PARTITION,
    OFFSET,
    SENDS,
    KEY,
    VALUE,
    TIMESTAMP,
    ATTEMPTS,
    HEADER_NUMBER,
    HEADER_NAME,
    HEADER_VALUE,
    COLUMNS
};

struct step { /* letters of one group that share a transaction */
    struct pg_array columns[COLUMNS];
    int32_t count;
    int64_t twins;
};

static void step_init(struct step *s)
{
    static const enum pg_type TYPES[COLUMNS] = {PG_INT4, PG_TEXT,  PG_INT4,  PG_INT8,
                                                PG_BOOL, PG_BYTEA, PG_BYTEA, PG_INT8,
                                                PG_INT4, PG_INT4,  PG_TEXT,  PG_BYTEA};
    *s = (struct step){0};
    for (int i = 0; i < COLUMNS; i++)
        pg_array_init(&s->columns[i], TYPES[i], COLUMN_BYTES);
}

static void step_done(struct step *s)
{
    for (int i = 0; i < COLUMNS; i++)
        pg_array_done(&s->columns[i]);
}

static void step_reset(struct step *s)
{
    for (int i = 0; i < COLUMNS; i++)
        pg_array_reset(&s->columns[i]);
    s->count = 0;
    s->twins = 0;
}

static void put_bytes(struct pg_array *a, const void *data, size_t len)
{
    if (data)
        (void)pg_array_bytes(a, data, len);
    else
        (void)pg_array_null(a);
}

static void put_header(struct step *s, const char *name, const void *value, size_t len)
{
    (void)pg_array_int4(&s->columns[HEADER_NUMBER], s->count);
    (void)pg_array_text(&s->columns[HEADER_NAME], name);
    put_bytes(&s->columns[HEADER_VALUE], value, len);
}

/* The publisher's headers as they were, and how often it was tried: the next refusal counts on. */
static void put_headers(struct step *s, const struct dlq_letter *l, int attempts)
{
    char text[16];
    for (size_t i = 0; i < l->header_count; i++)
        if (strncmp(l->headers[i].name, DEAD_LETTER_PREFIX, strlen(DEAD_LETTER_PREFIX)) != 0)
            put_header(s, l->headers[i].name, l->headers[i].value, l->headers[i].len);
    int len = snprintf(text, sizeof text, "%d", attempts);
    put_header(s, DEAD_LETTER_ATTEMPTS, text, (size_t)len);
}

static void step_add(struct step *s, const struct dlq_letter *l, bool sends, int attempts)
{
    (void)pg_array_int4(&s->columns[NUMBER], s->count);
    (void)pg_array_text(&s->columns[TOPIC], l->source_topic);
    (void)pg_array_int4(&s->columns[PARTITION], l->source_partition);
    (void)pg_array_int8(&s->columns[OFFSET], l->source_offset);
    (void)pg_array_bool(&s->columns[SENDS], sends);
    put_bytes(&s->columns[KEY], sends ? l->key : NULL, l->key_len);
    put_bytes(&s->columns[VALUE], sends ? l->value : NULL, l->value_len);
    if (l->timestamp_ms > 0)
        (void)pg_array_int8(&s->columns[TIMESTAMP], l->timestamp_ms);
    else
        (void)pg_array_null(&s->columns[TIMESTAMP]);
    (void)pg_array_int4(&s->columns[ATTEMPTS], l->attempts);
    put_headers(s, l, attempts);
    s->count++;
    s->twins += !sends;
}

static int audit(struct pg *pg, const char *command, const char *group, const char *before,
                 int64_t count, struct fault *f)
{
    char after[96];
    struct cli_change change = {.command = command, .target = group};
    (void)snprintf(after, sizeof after, "{\"letters\":%lld}", (long long)count);
    return cli_audit(pg, &change, before, after, f);
}

static int step_send(struct step *s, struct pg *pg, const char *group, const char *by,
                     struct dlq_tally *tally, struct fault *f)
{
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, group);
    for (int i = 0; i < COLUMNS; i++)
        pg_params_array(&p, &s->columns[i]);
    pg_params_text(&p, by);
    int rc = pg_begin(pg, f);
    if (rc == 0)
        rc = pg_exec(pg, stage_sql("dlq_redrive.sql"), &p, &rows, f);
    int64_t marked = rows ? pg_result_int(rows, 0, 0) : 0;
    int64_t sent = rows ? pg_result_int(rows, 0, 1) : 0;
    pg_result_free(rows);
    if (rc == 0 && marked)
        rc = audit(pg, "dlq redrive", group, NULL, marked, f);
    if (rc == 0)
        rc = pg_commit(pg, f);
    if (rc != 0) {
        pg_rollback(pg);
        return rc;
    }
    tally->done += sent;
    tally->twins += marked - sent;
    tally->already += s->count - marked;
    step_reset(s);
    return 0;
}

static bool same_source(const struct dlq_letter *a, const struct dlq_letter *b)
{
    return a->source_offset == b->source_offset && a->source_partition == b->source_partition &&
           a->source_topic && b->source_topic && strcmp(a->source_topic, b->source_topic) == 0;
}

/* Of the letters of one record: was it sent already, or will an earlier one of this run send it? */
static bool goes_with_another(const struct dlq *d, const struct stage *stage, size_t at,
                              int *out_attempts)
{
    const struct dlq_letter *l = &d->letters[at];
    bool twin = false;
    *out_attempts = l->attempts;
    size_t from = at > 4096 ? at - 4096 : 0;
    size_t to = at + 4096 < d->count ? at + 4096 : d->count;
    for (size_t i = from; i < to; i++) {
        const struct dlq_letter *other = &d->letters[i];
        if (i == at || !same_source(other, l))
            continue;
        *out_attempts = other->attempts > *out_attempts ? other->attempts : *out_attempts;
        twin = twin || other->state == DLQ_REDRIVEN || (i < at && !dlq_obstacle(other, stage));
    }
    return twin;
}

static void rest(int ms)
{
    struct timespec wait = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&wait, &wait) != 0)
        ;
}

/* Letters of one database, in their order, paced. */
static int redrive_in(struct dlq *d, struct stage *stage, enum stage_database which, const char *by,
                      int rate, struct dlq_tally *tally, struct cli_progress *progress)
{
    struct pg *pg = NULL;
    struct fault f = {0};
    struct step step;
    const char *group = NULL;
    int per_step = rate * STEP_MS / 1000;
    per_step = per_step < 1 ? 1 : per_step > MAX_STEP ? MAX_STEP : per_step;
    int pause_ms = per_step * 1000 / rate;
    int rc = 0;
    step_init(&step);
    for (size_t i = 0; i < d->count && rc == 0; i++) {
        struct dlq_letter *l = &d->letters[i];
        int attempts;
        if (dlq_obstacle(l, stage) || stage_of_group(stage, l->group) != which)
            continue;
        int code = pg ? CLI_OK : stage_pg(stage, which, &pg);
        if (code != CLI_OK) {
            step_done(&step);
            return code;
        }
        group = l->group;
        bool twin = goes_with_another(d, stage, i, &attempts);
        step_add(&step, l, !twin, attempts);
        if (step.count < per_step && step.columns[VALUE].bytes.len < STEP_BYTES)
            continue;
        rc = step_send(&step, pg, group, by, tally, &f);
        cli_progress_at(progress, tally->done + tally->twins + tally->already);
        rest(pause_ms);
    }
    if (rc == 0 && step.count)
        rc = step_send(&step, pg, group, by, tally, &f);
    step_done(&step);
    return rc == 0 ? CLI_OK : stage_fail(stage, rc, &f);
}

int dlq_redrive(struct dlq *d, struct stage *stage, const char *by, int rate,
                struct dlq_tally *tally)
{
    struct cli_progress progress;
    int64_t total = 0;
    for (size_t i = 0; i < d->count; i++)
        total += dlq_obstacle(&d->letters[i], stage) == NULL;
    cli_progress_start(&progress, stage->cli, "redrive", total, 0);
    int code = CLI_OK;
    for (int i = 0; i < STAGE_DATABASES && code == CLI_OK; i++)
        code = redrive_in(d, stage, (enum stage_database)i, by, rate, tally, &progress);
    cli_progress_end(&progress);
    return code;
}

static int discard_some(struct pg *pg, const char *group, struct pg_array columns[4],
                        const char *by, const char *note, int64_t *out, struct fault *f)
{
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, group);
    for (int i = 0; i < 4; i++)
        pg_params_array(&p, &columns[i]);
    pg_params_text(&p, by);
    pg_params_text(&p, note);
    int rc = pg_begin(pg, f);
    if (rc == 0)
        rc = pg_exec(pg, stage_sql("dlq_discard.sql"), &p, &rows, f);
    *out = rows ? pg_result_int(rows, 0, 0) : 0;
    pg_result_free(rows);
    if (rc == 0 && *out)
        rc = audit(pg, "dlq discard", group, NULL, *out, f);
    if (rc == 0)
        rc = pg_commit(pg, f);
    if (rc != 0)
        pg_rollback(pg);
    return rc;
}

static int discard_in(struct dlq *d, struct stage *stage, enum stage_database which, const char *by,
                      const char *note, struct dlq_tally *tally)
{
    static const enum pg_type TYPES[4] = {PG_TEXT, PG_INT4, PG_INT8, PG_INT4};
    struct pg_array columns[4];
    struct pg *pg = NULL;
    struct fault f = {0};
    const char *group = NULL;
    int64_t marked = 0, asked = 0;
    for (int i = 0; i < 4; i++)
        pg_array_init(&columns[i], TYPES[i], COLUMN_BYTES);
    for (size_t i = 0; i < d->count; i++) {
        const struct dlq_letter *l = &d->letters[i];
        if (l->state != DLQ_OPEN || stage_of_group(stage, l->group) != which)
            continue;
        group = l->group;
        asked++;
        (void)pg_array_text(&columns[0], l->source_topic);
        (void)pg_array_int4(&columns[1], l->source_partition);
        (void)pg_array_int8(&columns[2], l->source_offset);
        (void)pg_array_int4(&columns[3], l->attempts);
    }
    int code = asked ? stage_pg(stage, which, &pg) : CLI_OK;
    if (asked && code == CLI_OK) {
        int rc = discard_some(pg, group, columns, by, note, &marked, &f);
        code = rc == 0 ? CLI_OK : stage_fail(stage, rc, &f);
    }
    tally->done += marked;
    tally->already += code == CLI_OK ? asked - marked : 0;
    for (int i = 0; i < 4; i++)
        pg_array_done(&columns[i]);
    return code;
}

int dlq_discard(struct dlq *d, struct stage *stage, const char *by, const char *note,
                struct dlq_tally *tally)
{
    int code = CLI_OK;
    for (int i = 0; i < STAGE_DATABASES && code == CLI_OK; i++)
        code = discard_in(d, stage, (enum stage_database)i, by, note, tally);
    return code;
}

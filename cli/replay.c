/* replay.c - every step is a transaction with its audit row. */
#include "cli/replay.h"

#include <stdio.h>
#include <string.h>

#include "cli/change.h"
#include "cli/servers.h"
#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/pg.h"

enum { ARRAY_BYTES = 1 << 16, MAX_JSON = 1 << 16 };

static void load_counts(const struct pg_result *rows, int column, struct reader_counts *out)
{
    *out = (struct reader_counts){.read = pg_result_int(rows, 0, column),
                                  .applied = pg_result_int(rows, 0, column + 1),
                                  .noop = pg_result_int(rows, 0, column + 2),
                                  .duplicate = pg_result_int(rows, 0, column + 3),
                                  .ignored = pg_result_int(rows, 0, column + 4),
                                  .dead = pg_result_int(rows, 0, column + 5)};
}

int replay_find(struct pg *pg, const char *group, const char *topic, struct replay *out,
                struct fault *f)
{
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, group);
    pg_params_text(&p, topic);
    int rc = pg_exec(pg, cli_stmt("replay_open.sql"), &p, &rows, f);
    if (rc != 0)
        return rc;
    *out = (struct replay){0};
    for (int i = 0; i < pg_result_rows(rows) && out->count < ENGINE_MAX_PARTITIONS; i++) {
        out->id = pg_result_int(rows, i, 0);
        (void)snprintf(out->started_by, sizeof out->started_by, "%s", pg_result_text(rows, i, 1));
        out->dead_letters = pg_result_bool(rows, i, 3);
        out->from[out->count] = pg_result_int(rows, i, 5);
        out->ranges[out->count++] =
            (struct reader_range){.partition = (int32_t)pg_result_int(rows, i, 4),
                                  .to = pg_result_int(rows, i, 6),
                                  .next = pg_result_int(rows, i, 7),
                                  .generation = pg_result_int(rows, i, 8)};
    }
    if (out->id)
        load_counts(rows, 9, &out->counts);
    pg_result_free(rows);
    return 0;
}

/* What the audit says of it. */
static void describe(const struct replay *r, const char *state, struct buf *out)
{
    struct json_out j;
    json_begin(&j, out);
    json_object(&j, NULL);
    json_put_int(&j, "replay", r->id);
    json_put_str(&j, "state", state);
    json_put_int(&j, "applied", r->counts.applied);
    json_array(&j, "ranges");
    for (size_t i = 0; i < r->count; i++) {
        json_object(&j, NULL);
        json_put_int(&j, "partition", r->ranges[i].partition);
        json_put_int(&j, "from", r->from[i]);
        json_put_int(&j, "to", r->ranges[i].to);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
}

/* The audit row, and the end of the transaction. */
static int commit(struct pg *pg, const struct cli_change *c, const struct replay *r,
                  const char *before, const char *after, struct fault *f)
{
    struct buf was, is;
    buf_init(&was, MAX_JSON);
    buf_init(&is, MAX_JSON);
    if (before)
        describe(r, before, &was);
    describe(r, after, &is);
    int rc = cli_audit(pg, c, before ? buf_text(&was) : NULL, buf_text(&is), f);
    if (rc == 0)
        rc = pg_commit(pg, f);
    buf_done(&was);
    buf_done(&is);
    return rc;
}

static int insert(struct pg *pg, const char *group, const char *topic, struct replay *r,
                  struct fault *f)
{
    struct pg_array partition, from, to;
    pg_array_init(&partition, PG_INT4, ARRAY_BYTES);
    pg_array_init(&from, PG_INT8, ARRAY_BYTES);
    pg_array_init(&to, PG_INT8, ARRAY_BYTES);
    for (size_t i = 0; i < r->count; i++) {
        (void)pg_array_int4(&partition, r->ranges[i].partition);
        (void)pg_array_int8(&from, r->from[i]);
        (void)pg_array_int8(&to, r->ranges[i].to);
    }
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, group);
    pg_params_text(&p, topic);
    pg_params_array(&p, &partition);
    pg_params_array(&p, &from);
    pg_params_array(&p, &to);
    pg_params_bool(&p, r->dead_letters);
    pg_params_text(&p, cli_operator());
    struct pg_result *rows = NULL;
    int rc = pg_exec(pg, cli_stmt("replay_start.sql"), &p, &rows, f);
    if (rc == 0)
        r->id = pg_result_int(rows, 0, 0);
    pg_result_free(rows);
    pg_array_done(&partition);
    pg_array_done(&from);
    pg_array_done(&to);
    return rc;
}

int replay_start(struct pg *pg, const struct cli_change *c, const char *group, const char *topic,
                 struct replay *r, struct fault *f)
{
    int rc = pg_begin(pg, f);
    if (rc == 0)
        rc = insert(pg, group, topic, r, f);
    if (rc == 0)
        rc = commit(pg, c, r, NULL, "started", f);
    if (rc != 0)
        pg_rollback(pg);
    return rc;
}

static int exec_id(struct pg *pg, const char *file, int64_t id, const char *outcome,
                   struct pg_result **out, struct fault *f)
{
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, id);
    if (outcome)
        pg_params_text(&p, outcome);
    return pg_exec(pg, cli_stmt(file), &p, out, f);
}

int replay_take(struct pg *pg, const struct cli_change *c, struct replay *r, struct fault *f)
{
    int rc = pg_begin(pg, f);
    if (rc == 0)
        rc = exec_id(pg, "replay_take.sql", r->id, NULL, NULL, f);
    if (rc == 0)
        rc = commit(pg, c, r, "interrupted", "resumed", f);
    if (rc != 0)
        pg_rollback(pg);
    for (size_t i = 0; i < r->count && rc == 0; i++)
        r->ranges[i].generation++;
    return rc;
}

int replay_end(struct pg *pg, const struct cli_change *c, const char *outcome, struct replay *r,
               struct fault *f)
{
    struct pg_result *rows = NULL;
    int rc = pg_begin(pg, f);
    if (rc == 0)
        rc = exec_id(pg, "replay_end.sql", r->id, outcome, &rows, f);
    if (rc == 0 && pg_result_rows(rows) != 1)
        rc = fault_set(f, RC_REJECT, "somebody else has ended this replay");
    if (rc == 0) {
        load_counts(rows, 0, &r->counts);
        rc = commit(pg, c, r, "running", outcome, f);
    }
    if (rc != 0)
        pg_rollback(pg);
    pg_result_free(rows);
    return rc;
}

int replay_lock(struct pg *pg, const char *group, const char *topic, bool *out_ours,
                struct fault *f)
{
    static const struct pg_stmt LOCK = {
        "cli_replay_lock",
        "SELECT pg_try_advisory_lock(hashtextextended('replay ' || $1 || ' ' || $2, 0))"};
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_textn(&p, group, strlen(group));
    pg_params_textn(&p, topic, strlen(topic));
    int rc = pg_exec(pg, &LOCK, &p, &rows, f);
    if (rc == 0)
        *out_ours = pg_result_bool(rows, 0, 0);
    pg_result_free(rows);
    return rc;
}

int64_t replay_size(const struct replay *r)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->count; i++)
        sum += r->ranges[i].to - r->from[i];
    return sum;
}

int64_t replay_left(const struct replay *r)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->count; i++)
        sum += r->ranges[i].to > r->ranges[i].next ? r->ranges[i].to - r->ranges[i].next : 0;
    return sum;
}

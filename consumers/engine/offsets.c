/* offsets.c - the database's offsets are the authority: reading them, judging them, seeking there.
 */
#include <stdio.h>
#include <string.h>

#include "consumers/engine/engine_internal.h"
#include "consumers/engine/start_rules.h"
#include "runtime/fault.h"
#include "runtime/log.h"

enum { ASK_MS = 2000, MAX_TOPIC_PARTITIONS = 4096 };

/* Columns of read_offsets.sql. */
enum { TOPIC, PARTITION, NEXT, GENERATION, LAST_OFFSET, LAST_TIMESTAMP, LAST_KEY_HASH };

static int read_rows(struct engine *e, struct pg_result **out, struct fault *f)
{
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, e->offset_group);
    return pg_exec(e->pg, engine_sql(ENGINE_SQL_READ_OFFSETS), &p, out, f);
}

static int find_row(const struct pg_result *rows, const char *topic, int32_t partition)
{
    for (int i = 0; i < pg_result_rows(rows); i++)
        if (pg_result_int(rows, i, PARTITION) == partition &&
            strcmp(pg_result_text(rows, i, TOPIC), topic) == 0)
            return i;
    return -1;
}

static bool topic_known(const struct pg_result *rows, const char *topic)
{
    for (int i = 0; i < pg_result_rows(rows); i++)
        if (strcmp(pg_result_text(rows, i, TOPIC), topic) == 0)
            return true;
    return false;
}

static int insert_rows(struct engine *e, struct pg_array *topics, struct pg_array *partitions,
                       struct pg_array *offsets, struct fault *f)
{
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, e->offset_group);
    pg_params_array(&p, topics);
    pg_params_array(&p, partitions);
    pg_params_array(&p, offsets);
    return pg_exec(e->pg, engine_sql(ENGINE_SQL_INSERT_OFFSETS), &p, NULL, f);
}

static void halt(struct engine *e, struct partition *part, const char *text)
{
    part->state = PARTITION_BLOCKED;
    if (strcmp(e->halt_text, text) != 0)
        LOG_ERROR("consumer stopped", LOG_STR("group", e->spec->group), LOG_STR("reason", text));
    snprintf(e->halt_text, sizeof e->halt_text, "%s", text);
}

struct new_rows {
    struct pg_array topics, partitions, offsets;
};

static void new_rows_init(struct new_rows *r)
{
    pg_array_init(&r->topics, PG_TEXT, 2 << 20);
    pg_array_init(&r->partitions, PG_INT4, 1 << 20);
    pg_array_init(&r->offsets, PG_INT8, 1 << 20);
}

static void new_rows_done(struct new_rows *r)
{
    pg_array_done(&r->topics);
    pg_array_done(&r->partitions);
    pg_array_done(&r->offsets);
}

static void new_rows_add(struct new_rows *r, const char *topic, int32_t partition, int64_t offset)
{
    pg_array_text(&r->topics, topic);
    pg_array_int4(&r->partitions, partition);
    pg_array_int8(&r->offsets, offset);
}

/* A topic the group meets for the first time gets all its rows at once, whoever holds the
 * partitions: otherwise another instance would take its share for partitions that were added later.
 */
static int introduce_topic(struct engine *e, const char *topic, struct start_decision *out_refused,
                           struct fault *f)
{
    struct new_rows rows;
    new_rows_init(&rows);
    int rc = 0;
    *out_refused = (struct start_decision){0};
    for (int32_t n = 0; n < MAX_TOPIC_PARTITIONS; n++) {
        int64_t low, high;
        rc = kafka_consumer_watermarks(e->kafka, topic, n, ASK_MS, &low, &high, f);
        if (rc == RC_REJECT) { /* one past the last */
            rc = 0;
            break;
        }
        struct kafka_start committed = {topic, n, KAFKA_OFFSET_NONE};
        if (!rc)
            rc = kafka_consumer_committed(e->kafka, &committed, 1, ASK_MS, f);
        if (rc)
            break;
        struct start_view v = {.group = e->spec->group,
                               .topic = topic,
                               .partition = n,
                               .committed = committed.offset,
                               .low = low,
                               .high = high};
        start_rules_decide(&v, out_refused);
        if (out_refused->action == START_REFUSE)
            break;
        new_rows_add(&rows, topic, n, out_refused->offset);
    }
    if (!rc && out_refused->action != START_REFUSE)
        rc = insert_rows(e, &rows.topics, &rows.partitions, &rows.offsets, f);
    new_rows_done(&rows);
    return rc;
}

static int introduce_topics(struct engine *e, struct pg_result **rows, struct fault *f)
{
    bool again = false;
    for (size_t i = 0; i < e->partition_count; i++) {
        const char *topic = e->partitions[i].topic;
        struct start_decision refused;
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || strcmp(e->partitions[k].topic, topic) == 0;
        if (seen || topic_known(*rows, topic))
            continue;
        int rc = introduce_topic(e, topic, &refused, f);
        if (rc)
            return rc;
        again = true;
        for (size_t k = i; k < e->partition_count && refused.action == START_REFUSE; k++)
            if (strcmp(e->partitions[k].topic, topic) == 0)
                halt(e, &e->partitions[k], refused.text);
    }
    if (!again)
        return 0;
    pg_result_free(*rows);
    *rows = NULL;
    return read_rows(e, rows, f);
}

static int record_gap(struct engine *e, const struct start_view *v, bool *out_accepted,
                      struct fault *f)
{
    struct pg_result *r = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, e->offset_group);
    pg_params_text(&p, v->topic);
    pg_params_int4(&p, v->partition);
    pg_params_int8(&p, v->next_offset);
    pg_params_int8(&p, v->low);
    int rc = pg_exec(e->pg, engine_sql(ENGINE_SQL_RECORD_GAP), &p, &r, f);
    if (rc)
        return rc;
    *out_accepted = pg_result_bool(r, 0, 0);
    if (pg_result_bool(r, 0, 1)) {
        metric_add(e->metrics.gaps, 1);
        LOG_ERROR("records left the log unread", LOG_STR("group", v->group),
                  LOG_STR("topic", v->topic), LOG_INT("partition", v->partition),
                  LOG_INT("from", v->next_offset), LOG_INT("to", v->low));
    }
    pg_result_free(r);
    return 0;
}

static int skip_gap(struct engine *e, const struct start_view *v, struct partition *part,
                    struct fault *f)
{
    struct pg_result *r = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, e->offset_group);
    pg_params_text(&p, v->topic);
    pg_params_int4(&p, v->partition);
    pg_params_int8(&p, v->next_offset);
    pg_params_int8(&p, v->low);
    pg_params_int8(&p, part->generation);
    int rc = pg_exec(e->pg, engine_sql(ENGINE_SQL_SKIP_GAP), &p, &r, f);
    if (rc)
        return rc;
    bool moved = pg_result_affected(r) == 1;
    pg_result_free(r);
    if (!moved)
        return fault_set(f, RC_RETRY, "the offset row has moved meanwhile");
    part->next_offset = v->low;
    return 0;
}

static void load_row(struct partition *part, const struct pg_result *rows, int row)
{
    part->next_offset = pg_result_int(rows, row, NEXT);
    part->generation = pg_result_int(rows, row, GENERATION);
    part->has_last = !pg_result_null(rows, row, LAST_OFFSET);
    part->last_offset = pg_result_int(rows, row, LAST_OFFSET);
    part->last_timestamp = pg_result_int(rows, row, LAST_TIMESTAMP);
    part->last_key_hash = pg_result_int(rows, row, LAST_KEY_HASH);
}

/* A halt ends when every place is found and proven. */
static void lift_halt(struct engine *e)
{
    for (size_t i = 0; i < e->partition_count; i++)
        if (e->partitions[i].state != PARTITION_RUNNING)
            return;
    if (!e->halt_text[0])
        return;
    e->halt_text[0] = '\0';
    LOG_INFO("consumer goes on", LOG_STR("group", e->spec->group));
    engine_reset(e); /* what was read while halted was not kept */
}

static int seek(struct engine *e, struct partition *part, enum partition_state state,
                int64_t offset, struct fault *f)
{
    int rc = kafka_consumer_seek(e->kafka, part->topic, part->number, offset, f);
    if (rc == RC_REJECT) /* taken away meanwhile; the next poll says so */
        return fault_set(f, RC_RETRY, "%s[%d] is not ours", part->topic, part->number);
    if (rc)
        return rc;
    part->state = state;
    part->delivered = offset;
    part->eof = -1;
    return 0;
}

static int view_partition(struct engine *e, struct partition *part, const struct pg_result *rows,
                          struct start_view *v, struct fault *f)
{
    int row = find_row(rows, part->topic, part->number);
    *v = (struct start_view){.group = e->spec->group,
                             .topic = part->topic,
                             .partition = part->number,
                             .has_row = row >= 0,
                             .topic_known = topic_known(rows, part->topic),
                             .committed = KAFKA_OFFSET_NONE};
    if (row >= 0) {
        load_row(part, rows, row);
        v->next_offset = part->next_offset;
        v->has_last = part->has_last;
        v->last_offset = part->last_offset;
    } else {
        struct kafka_start committed = {part->topic, part->number, KAFKA_OFFSET_NONE};
        int rc = kafka_consumer_committed(e->kafka, &committed, 1, ASK_MS, f);
        if (rc)
            return rc;
        v->committed = committed.offset;
    }
    int rc = kafka_consumer_watermarks(e->kafka, part->topic, part->number, ASK_MS, &v->low,
                                       &v->high, f);
    return rc == RC_REJECT ? RC_RETRY : rc;
}

static int act(struct engine *e, struct partition *part, const struct start_view *v,
               const struct start_decision *d, struct fault *f)
{
    bool accepted = false;
    char text[300];
    int rc = 0;
    switch (d->action) {
    case START_READ:
        return seek(e, part, PARTITION_RUNNING, d->offset, f);
    case START_VERIFY:
        return seek(e, part, PARTITION_VERIFYING, d->offset, f);
    case START_INSERT: {
        struct new_rows row;
        new_rows_init(&row);
        new_rows_add(&row, part->topic, part->number, d->offset);
        rc = insert_rows(e, &row.topics, &row.partitions, &row.offsets, f);
        new_rows_done(&row);
        return rc; /* still pending: judged again with its row */
    }
    case START_GAP:
        rc = record_gap(e, v, &accepted, f);
        if (!rc && !accepted && e->spec->stop_on_gap) {
            start_rules_gap(v, text, sizeof text);
            halt(e, part, text);
            return 0;
        }
        return rc ? rc : skip_gap(e, v, part, f); /* still pending */
    case START_REFUSE:
        halt(e, part, d->text);
        return 0;
    }
    return 0;
}

static int resolve_partition(struct engine *e, struct partition *part, struct pg_result **rows,
                             struct fault *f)
{
    /* A row may have to be made, then a gap skipped, then the place is found. */
    for (int step = 0; step < 4 && part->state == PARTITION_PENDING; step++) {
        struct start_view v;
        struct start_decision d;
        int rc = view_partition(e, part, *rows, &v, f);
        if (rc)
            return rc;
        start_rules_decide(&v, &d);
        rc = act(e, part, &v, &d, f);
        if (rc)
            return rc;
        if (part->state == PARTITION_PENDING) {
            pg_result_free(*rows);
            *rows = NULL;
            rc = read_rows(e, rows, f);
            if (rc)
                return rc;
        }
    }
    return part->state == PARTITION_PENDING
               ? fault_set(f, RC_RETRY, "the place of %s[%d] keeps moving", part->topic,
                           part->number)
               : 0;
}

int offsets_resolve(struct engine *e, struct fault *f)
{
    struct pg_result *rows = NULL;
    int rc = read_rows(e, &rows, f);
    if (!rc)
        rc = introduce_topics(e, &rows, f);
    for (size_t i = 0; i < e->partition_count && !rc; i++)
        if (e->partitions[i].state == PARTITION_PENDING)
            rc = resolve_partition(e, &e->partitions[i], &rows, f);
    pg_result_free(rows);
    if (rc)
        return rc;
    e->pending = false;
    lift_halt(e);
    return 0;
}

void offsets_verify_failed(struct engine *e, struct partition *p)
{
    struct start_view v = {.group = e->spec->group,
                           .topic = p->topic,
                           .partition = p->number,
                           .last_offset = p->last_offset};
    char text[300];
    start_rules_recreated(&v, text, sizeof text);
    halt(e, p, text);
}

void offsets_verify(struct engine *e, struct partition *p, const struct kafka_message *m)
{
    bool same = m->offset == p->last_offset && m->timestamp_ms == p->last_timestamp &&
                batch_key_hash(m->key, m->key_len) == p->last_key_hash;
    if (!same) {
        offsets_verify_failed(e, p);
        return;
    }
    p->state = PARTITION_RUNNING;
    p->delivered = p->next_offset;
    struct fault f;
    /* An operator may have moved the place far from the last applied record. */
    if (p->next_offset != p->last_offset + 1 &&
        kafka_consumer_seek(e->kafka, p->topic, p->number, p->next_offset, &f) != 0) {
        p->state = PARTITION_PENDING;
        e->pending = true;
    }
    lift_halt(e);
}

int offsets_watch(struct engine *e, struct fault *f)
{
    struct pg_result *rows = NULL;
    int rc = read_rows(e, &rows, f);
    if (rc)
        return rc;
    bool moved = false;
    for (size_t i = 0; i < e->partition_count; i++) {
        struct partition *p = &e->partitions[i];
        int row = find_row(rows, p->topic, p->number);
        if (p->state == PARTITION_BLOCKED || p->state == PARTITION_PENDING || row < 0 ||
            pg_result_int(rows, row, NEXT) != p->next_offset ||
            pg_result_int(rows, row, GENERATION) != p->generation)
            moved = true;
    }
    pg_result_free(rows);
    if (moved)
        engine_reset(e);
    return 0;
}

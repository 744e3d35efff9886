/* transaction.c - one batch, or a part of it, in one transaction:
 *
 *   1  BEGIN; compare-and-swap the offsets; claim the keys            one round trip
 *   2  lock; apply, wave by wave                                      one per call
 *   3  release the keys of the dead; append dead letters; COMMIT      one round trip
 *
 * The swap comes first: whoever lost the partition, or whose place an operator moved, learns it
 * before anything else is touched, and two instances can never both apply a record. */
#include <stdlib.h>
#include <string.h>

#include "consumers/engine/dead_letter.h"
#include "consumers/engine/engine_internal.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"

struct moved { /* one partition's part of the range */
    struct partition *partition;
    const struct batch_item *last;
};

struct transaction {
    struct engine *e;
    size_t lo, hi;
    struct moved moved[ENGINE_MAX_PARTITIONS];
    size_t moved_count;
    struct batch_item *keys[ENGINE_MAX_BATCH];
    size_t key_count;
    struct engine_event *fresh[ENGINE_MAX_BATCH];
    size_t fresh_count;
    struct engine_tx hooks;
    struct dead_letters dead;
    struct engine_brake brake;
};

static void find_moved(struct transaction *t)
{
    t->moved_count = 0;
    for (size_t i = t->lo; i < t->hi; i++) {
        const struct batch_item *item = &t->e->batch.items[i];
        size_t k = 0;
        while (k < t->moved_count && t->moved[k].partition != item->partition)
            k++;
        t->moved[k].partition = item->partition;
        t->moved[k].last = item;
        if (k == t->moved_count)
            t->moved_count++;
    }
}

static int queue_swap(struct transaction *t, struct fault *f)
{
    struct pg_array a[8];
    static const enum pg_type types[8] = {PG_TEXT, PG_INT4, PG_INT8, PG_INT8,
                                          PG_INT8, PG_INT8, PG_INT8, PG_INT8};
    for (int i = 0; i < 8; i++)
        pg_array_init(&a[i], types[i], 1 << 20);
    for (size_t i = 0; i < t->moved_count; i++) {
        const struct partition *p = t->moved[i].partition;
        const struct engine_record *r = &t->moved[i].last->record;
        pg_array_text(&a[0], p->topic);
        pg_array_int4(&a[1], p->number);
        pg_array_int8(&a[2], p->next_offset);
        pg_array_int8(&a[3], p->generation);
        pg_array_int8(&a[4], r->offset + 1);
        pg_array_int8(&a[5], r->offset);
        pg_array_int8(&a[6], r->timestamp_ms);
        pg_array_int8(&a[7], batch_key_hash(r->key, r->key_len));
    }
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, t->e->offset_group);
    for (int i = 0; i < 8; i++)
        pg_params_array(&p, &a[i]);
    int rc = pg_queue(t->e->pg, engine_sql(ENGINE_SQL_CAS_OFFSETS), &p, f);
    for (int i = 0; i < 8; i++)
        pg_array_done(&a[i]);
    return rc;
}

static int queue_keys(struct transaction *t, enum engine_sql which, bool dead_only, struct fault *f)
{
    struct pg_array keys;
    pg_array_init(&keys, PG_TEXT, 1 << 20);
    for (size_t i = 0; i < t->key_count; i++)
        if (!dead_only ||
            (t->keys[i]->fate == BATCH_FRESH && t->keys[i]->event.outcome == ENGINE_DEAD))
            pg_array_text(&keys, t->keys[i]->event.key);
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, t->e->dedupe_group);
    pg_params_array(&p, &keys);
    int rc = keys.count ? pg_queue(t->e->pg, engine_sql(which), &p, f) : 0;
    pg_array_done(&keys);
    return rc;
}

/* Keys that did not come back were there already. */
static void mark_fresh(struct transaction *t, const struct pg_result *claimed)
{
    for (size_t i = 0; i < t->key_count; i++)
        t->keys[i]->fate = BATCH_DUPLICATE;
    int rows = claimed ? pg_result_rows(claimed) : 0;
    for (int i = 0; i < rows; i++) {
        struct batch_item *item = batch_find(t->keys, t->key_count, pg_result_text(claimed, i, 0));
        if (item)
            item->fate = BATCH_FRESH;
    }
    t->fresh_count = 0;
    for (size_t i = t->lo; i < t->hi; i++)
        if (t->e->batch.items[i].fate == BATCH_FRESH)
            t->fresh[t->fresh_count++] = &t->e->batch.items[i].event;
}

static int open_transaction(struct transaction *t, bool *out_ours, struct fault *f)
{
    struct engine *e = t->e;
    struct pg_result *results[3] = {0};
    t->key_count = batch_prepare(&e->batch, t->lo, t->hi, t->keys);
    bool swaps = !reader_rehearses(e); /* a rehearsal has no place of its own */
    size_t claim = swaps ? 2 : 1, count = claim + (t->key_count > 0);
    find_moved(t);
    struct fault scrap;
    if (pg_queue(e->pg, &PG_BEGIN, NULL, &scrap) == 0 && (!swaps || queue_swap(t, &scrap) == 0))
        queue_keys(t, ENGINE_SQL_CLAIM_KEYS, false, &scrap);
    int rc = pg_collect(e->pg, results, count, f);
    if (rc)
        return rc;
    *out_ours = !swaps || pg_result_affected(results[1]) == (int64_t)t->moved_count;
    mark_fresh(t, results[claim]);
    for (size_t i = 0; i < count; i++)
        pg_result_free(results[i]);
    return 0;
}

static int apply_waves(struct transaction *t, struct fault *f)
{
    struct engine *e = t->e;
    uint32_t count = waves_plan(&e->waves, t->fresh, t->fresh_count);
    for (uint32_t wave = 0; wave < count; wave++)
        for (unsigned h = 0; e->spec->handlers[h].name; h++) {
            size_t n = waves_select(&e->waves, t->fresh, t->fresh_count, wave, h);
            int rc = n ? e->spec->handlers[h].apply(&t->hooks, e->waves.sorted, n, f) : 0;
            if (rc)
                return rc;
        }
    metric_observe(e->metrics.waves, count);
    return 0;
}

static int apply(struct transaction *t, struct fault *f)
{
    const struct engine_spec *spec = t->e->spec;
    int rc = 0;
    if (t->fresh_count == 0)
        return 0;
    if (spec->lock)
        rc = spec->lock(&t->hooks, t->fresh, t->fresh_count, f);
    if (!rc)
        rc = apply_waves(t, f);
    if (!rc && spec->before_commit)
        rc = spec->before_commit(&t->hooks, t->fresh, t->fresh_count, &t->brake, f);
    return rc;
}

/* The same event again in the batch shares the fate of a dead first one: neither is lost. */
static const char *dead_reason(const struct batch_item *item, const char **out_detail)
{
    const struct batch_item *judged =
        item->fate == BATCH_DUPLICATE && item->first ? item->first : item;
    *out_detail = item->refused_detail;
    if (item->fate == BATCH_REFUSED)
        return item->refused_reason;
    if (judged->fate != BATCH_FRESH || judged->event.outcome != ENGINE_DEAD)
        return NULL;
    *out_detail = judged->event.detail;
    return judged->event.reason ? judged->event.reason : "refused";
}

static int close_transaction(struct transaction *t, struct fault *f)
{
    struct engine *e = t->e;
    size_t queued = 1;
    bool release = false;
    if (e->reader)
        reader_begin(e);
    for (size_t i = t->lo; i < t->hi; i++) {
        const struct batch_item *item = &e->batch.items[i];
        const char *detail, *reason = dead_reason(item, &detail);
        if (e->reader)
            reader_count(e, item, reason != NULL);
        if (reason && reader_writes_dead(e))
            dead_letters_add(&t->dead, item, e->spec->group, reason, detail);
        release = release || (item->fate == BATCH_FRESH && item->event.outcome == ENGINE_DEAD);
    }
    struct fault scrap;
    int rc = 0;
    if (reader_rehearses(e)) {
        pg_rollback(e->pg);
        return 0;
    }
    if (e->reader)
        rc = reader_queue_counts(e, &queued, &scrap);
    if (!rc && release) {
        rc = queue_keys(t, ENGINE_SQL_RELEASE_KEYS, true, &scrap);
        queued++;
    }
    if (!rc && dead_letters_count(&t->dead)) {
        rc = dead_letters_queue(&t->dead, e->pg, &scrap);
        queued++;
    }
    if (!rc)
        pg_queue(e->pg, &PG_COMMIT, NULL, &scrap);
    return pg_collect(e->pg, NULL, queued, f);
}

static void count_outcomes(struct transaction *t)
{
    struct engine_metrics *m = &t->e->metrics;
    for (size_t i = t->lo; i < t->hi; i++) {
        const struct batch_item *item = &t->e->batch.items[i];
        const char *detail, *reason = dead_reason(item, &detail);
        if (reason) {
            metric_add(m->dead, 1);
            engine_metrics_dead(m->group, reason);
            LOG_WARN("dead letter", LOG_STR("group", m->group),
                     LOG_STR("topic", item->record.topic),
                     LOG_INT("partition", item->record.partition),
                     LOG_INT("offset", item->record.offset), LOG_STR("reason", reason),
                     LOG_STR("detail", detail));
        } else if (item->fate == BATCH_IGNORED) {
            metric_add(m->ignored, 1);
        } else if (item->fate == BATCH_DUPLICATE) {
            metric_add(m->duplicate, 1);
        } else {
            metric_add(item->event.outcome == ENGINE_NOOP ? m->noop : m->applied, 1);
        }
    }
}

static void advance(struct transaction *t)
{
    struct kafka_start done[ENGINE_MAX_PARTITIONS];
    for (size_t i = 0; i < t->moved_count; i++) {
        struct partition *p = t->moved[i].partition;
        const struct engine_record *r = &t->moved[i].last->record;
        p->next_offset = r->offset + 1;
        p->has_last = true;
        p->last_offset = r->offset;
        p->last_timestamp = r->timestamp_ms;
        p->last_key_hash = batch_key_hash(r->key, r->key_len);
        p->applied_time_ms = r->timestamp_ms;
        done[i] = (struct kafka_start){p->topic, p->number, p->next_offset};
    }
    if (t->e->reader)
        return;
    kafka_consumer_commit(t->e->kafka, done, t->moved_count);
    count_outcomes(t);
    if (t->e->spec->committed && t->fresh_count)
        t->e->spec->committed(t->e->spec->state, t->fresh, t->fresh_count);
}

static enum transaction_end run(struct transaction *t, struct fault *f)
{
    struct engine *e = t->e;
    bool ours = false;
    if (open_transaction(t, &ours, f) != 0)
        return TRANSACTION_FAILED;
    if (!ours) {
        metric_add(e->metrics.fenced, 1);
        return TRANSACTION_FENCED;
    }
    if (apply(t, f) != 0)
        return TRANSACTION_FAILED;
    if (t->brake.engaged && e->reader && reader_braked(e, &t->brake, f))
        return TRANSACTION_BRAKED;
    if (t->brake.engaged && !e->reader) {
        metric_add(e->metrics.brakes, 1);
        pg_rollback(e->pg);
        /* Not paused in the database means not paused for the others: try the batch again. */
        return control_pause(e, &t->brake, f) == 0 ? TRANSACTION_BRAKED : TRANSACTION_FAILED;
    }
    return close_transaction(t, f) == 0 ? TRANSACTION_DONE : TRANSACTION_FAILED;
}

enum transaction_end transaction_run(struct engine *e, size_t lo, size_t hi, struct fault *f)
{
    static _Thread_local struct transaction t; /* 20 kB, and one per thread is enough */
    t = (struct transaction){.e = e, .lo = lo, .hi = hi};
    t.hooks = (struct engine_tx){.pg = e->pg,
                                 .arena = &e->arena,
                                 .state = e->spec->state,
                                 .group = e->spec->group,
                                 .now_ms = clock_wall_ms(),
                                 .engine = e};
    dead_letters_init(&t.dead);
    enum transaction_end end = run(&t, f);
    if (end == TRANSACTION_DONE)
        advance(&t);
    else
        pg_rollback(e->pg);
    if (e->reader)
        reader_ended(e, end);
    dead_letters_done(&t.dead);
    arena_reset(&e->arena);
    return end;
}

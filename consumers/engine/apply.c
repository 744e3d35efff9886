/* apply.c - what a failed transaction means, and what to do about it.
 *
 *   lost a race            the same events again, a little later; five times in a row while a fresh
 *                          connection answers counts as poison
 *   server away, disk full wait, keep polling with fetching paused, blame nobody
 *   schema or rights wrong the same: an operator must act, and no event is to blame
 *   a unique key, alone    the same once more: the row it met may be another instance's news
 *   anything else          poison: each half in a transaction of its own (the swap of the offsets
 * makes each half final), down to the one bad event, which becomes a dead letter */
#include <stdio.h>
#include <string.h>

#include "consumers/engine/engine_internal.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"

enum { MAX_IN_A_ROW = 5, AWAY_WAIT_MS = 1000 };

enum verdict { VERDICT_DONE, VERDICT_ABANDON, VERDICT_POISON };

/* An event that is alone and meets a unique key may only have lost a race: another instance wrote
 * the row after this transaction had looked. It is committed by now, so one more look will tell. */
static bool may_be_a_race(const struct pg_error *err, size_t events)
{
    return events == 1 && strcmp(err->sqlstate, "23505") == 0;
}

static bool connection_lost(const struct pg_error *err)
{
    return strncmp(err->sqlstate, "08", 2) == 0 || strcmp(err->sqlstate, "57P02") == 0;
}

/* Makes sure of a connection; false: stopping, or the batch is stale. */
static bool reconnect(struct engine *e)
{
    struct fault f;
    while (!pg_connected(e->pg)) {
        if (pg_connect(e->pg, &f) == 0)
            break;
        engine_database_failed(e, &f);
        if (!engine_wait(e, AWAY_WAIT_MS))
            return false;
    }
    return true;
}

/* After a failure: true to try again, false when it is time to think of poison. */
static bool worth_another_try(struct engine *e, enum pg_class class, const struct pg_error *err,
                              int *in_a_row, const struct fault *why)
{
    struct fault f;
    engine_metrics_retry(e->metrics.group, pg_error_name(class));
    LOG_DEBUG("transaction failed", LOG_STR("class", pg_error_name(class)),
              LOG_STR("error", why->text), LOG_STR("sqlstate", err->sqlstate));
    if (class == PG_CLASS_CONFLICT || (class == PG_CLASS_AWAY && connection_lost(err))) {
        /* A server that is away proves nothing against the events; but one that they took down has
         * to come back before it can be told. */
        while (pg_probe(e->pg, &f) != 0) {
            engine_database_failed(e, &f);
            if (!engine_wait(e, AWAY_WAIT_MS))
                return true;
        }
        if (++*in_a_row >= MAX_IN_A_ROW)
            return false;
        engine_wait(e, backoff_next_ms(&e->backoff));
        return true;
    }
    engine_database_failed(e, why);
    engine_wait(e, AWAY_WAIT_MS);
    return true;
}

static enum verdict try_range(struct engine *e, size_t lo, size_t hi, struct fault *why)
{
    int in_a_row = 0;
    bool raced = false;
    backoff_reset(&e->backoff);
    for (;;) {
        if (e->stale || !reconnect(e))
            return VERDICT_ABANDON;
        enum transaction_end end = transaction_run(e, lo, hi, why);
        if (end == TRANSACTION_DONE)
            return VERDICT_DONE;
        if (end != TRANSACTION_FAILED)
            return VERDICT_ABANDON;
        struct pg_error err = *pg_error(e->pg);
        enum pg_class class = err.class;
        if (class == PG_CLASS_NONE) /* a hook refused without the database */
            class = why->rc == RC_RETRY   ? PG_CLASS_CONFLICT
                    : why->rc == RC_FATAL ? PG_CLASS_BROKEN
                                          : PG_CLASS_DATA;
        if (class == PG_CLASS_DATA && !raced && may_be_a_race(&err, hi - lo)) {
            raced = true;
            class = PG_CLASS_CONFLICT;
        }
        if (class == PG_CLASS_DATA)
            return VERDICT_POISON;
        if (engine_stopping(e)) /* waits are cut short now: five quick failures prove nothing */
            return VERDICT_ABANDON;
        if (!worth_another_try(e, class, &err, &in_a_row, why)) {
            snprintf(why->text, sizeof why->text, "gave up after %d attempts, last error %s",
                     MAX_IN_A_ROW, err.sqlstate);
            why->rc = RC_RETRY;
            return VERDICT_POISON;
        }
    }
}

static void condemn(struct batch_item *item, const struct fault *why)
{
    item->decoded = BATCH_REFUSED;
    item->refused_reason = why->rc == RC_RETRY ? "retries_exhausted" : "database_refused";
    snprintf(item->refused_detail, sizeof item->refused_detail, "%.*s", ENGINE_DETAIL_MAX - 1,
             why->text);
}

/* A single bad event: its dead letter moves the offset on. That failing too is no event's fault. */
static enum verdict bury(struct engine *e, size_t at, const struct fault *why)
{
    struct fault f = *why;
    engine_metrics_retry(e->metrics.group, "poison");
    condemn(&e->batch.items[at], why);
    while (try_range(e, at, at + 1, &f) == VERDICT_POISON) {
        LOG_ERROR("a dead letter cannot be written", LOG_STR("error", f.text));
        engine_database_failed(e, &f);
        if (!engine_wait(e, AWAY_WAIT_MS))
            return VERDICT_ABANDON;
    }
    return e->stale ? VERDICT_ABANDON : VERDICT_DONE;
}

static enum verdict apply_range(struct engine *e, size_t lo, size_t hi)
{
    struct fault why = {0};
    enum verdict v = try_range(e, lo, hi, &why);
    if (v != VERDICT_POISON)
        return v;
    if (hi - lo == 1)
        return bury(e, lo, &why);
    engine_metrics_retry(e->metrics.group, "poison");
    size_t mid = lo + (hi - lo) / 2; /* recursion: ten levels for a thousand events */
    v = apply_range(e, lo, mid);
    return v == VERDICT_DONE ? apply_range(e, mid, hi) : v;
}

void apply_batch(struct engine *e)
{
    e->applied_us = clock_mono_us();
    int64_t start = clock_mono_us();
    size_t n = e->batch.count;
    enum verdict v = e->stale ? VERDICT_ABANDON : apply_range(e, 0, n);
    metric_observe(e->metrics.batch_events, (double)n);
    metric_observe(e->metrics.apply_seconds, (double)(clock_mono_us() - start) / 1e6);
    if (v == VERDICT_DONE)
        batch_clear(&e->batch);
    else
        engine_reset(e);
}

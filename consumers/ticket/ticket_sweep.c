/* ticket_sweep.c - once a second: ends reservations nobody paid for, forgets old event keys.
 *
 * A reservation ends only when every partition of the topic has been read up to a moment 60 s after
 * its hold. How many partitions there are is Kafka's to say: one that was added a minute ago may
 * hold a payment before the group has heard of it. */
#include "consumers/ticket/ticket_internal.h"
#include "runtime/clock.h"
#include "runtime/fault.h"

enum {
    SWEEP_STEP = 500, /* reservations per transaction */
    PRUNE_STEP = 2000,
    PRUNE_REST_MS = 60000 /* after a step that found little */
};

static int expire_due(struct engine_tx *tx, bool *out_more, struct fault *f)
{
    struct ticket_consumer *t = tx->state;
    int32_t partitions = 0;
    int rc = engine_partitions(tx, t->topic, &partitions, f);
    if (rc)
        return rc;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int4(&p, SWEEP_STEP);
    pg_params_int4(&p, partitions);
    pg_params_text(&p, t->group);
    pg_params_text(&p, t->topic);
    struct pg_result *r = NULL;
    rc = pg_exec(tx->pg, &t->statements[TICKET_SQL_EXPIRE_DUE], &p, &r, f);
    if (rc)
        return rc;
    *out_more = pg_result_int(r, 0, 1) == SWEEP_STEP;
    metric_set(t->metrics.sweep_blocked, pg_result_null(r, 0, 0));
    metric_set(t->metrics.caught_up_age, pg_result_real(r, 0, 0));
    metric_add(t->metrics.expired, (uint64_t)pg_result_int(r, 0, 2));
    pg_result_free(r);
    return 0;
}

/* The ledger keeps every payment for ever, so an old key protects nothing any more. */
static int prune(struct engine_tx *tx, struct fault *f)
{
    struct ticket_consumer *t = tx->state;
    int64_t now = clock_mono_ms();
    if (now < t->next_prune_ms)
        return 0;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, t->group);
    pg_params_int4(&p, t->prune_after_days);
    pg_params_int4(&p, PRUNE_STEP);
    struct pg_result *r = NULL;
    int rc = pg_exec(tx->pg, &t->statements[TICKET_SQL_PRUNE], &p, &r, f);
    if (rc)
        return rc;
    int64_t gone = pg_result_affected(r);
    metric_add(t->metrics.pruned, (uint64_t)gone);
    if (gone < PRUNE_STEP)
        t->next_prune_ms = now + PRUNE_REST_MS;
    pg_result_free(r);
    return 0;
}

int ticket_sweep(struct engine_tx *tx, struct fault *f)
{
    struct ticket_consumer *t = tx->state;
    metric_set(t->metrics.brake_engaged, 0); /* nobody sweeps while the brake holds */
    int rc = expire_due(tx, &tx->again, f);
    return rc || tx->again ? rc : prune(tx, f);
}

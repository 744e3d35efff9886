/* ticket_apply.c - a batch's transaction: lock, one call per kind of event, brake.
 *
 * Every call takes one array per column. The statements answer only with events that did not
 * simply take effect, so the usual answer is empty. */
#include <stdio.h>
#include <string.h>

#include "consumers/ticket/ticket_internal.h"
#include "runtime/fault.h"

/* Columns of the handlers' answers. */
enum { ORD, OUTCOME, REASON };

static void reset_columns(struct ticket_columns *c)
{
    struct pg_array *const all[] = {&c->ord,    &c->kind,   &c->payment, &c->order,
                                    &c->saga,   &c->user,   &c->type,    &c->subject,
                                    &c->amount, &c->method, &c->time};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pg_array_reset(all[i]);
}

static const char *type_name(const struct ticket_body *b)
{
    return event_payment_type_name((enum event_payment_type)b->event.payment.payment_type);
}

/* What ticket_lock_batch() reads. */
static void fill_for_lock(struct ticket_columns *c, struct engine_event *const *events, size_t n)
{
    reset_columns(c);
    for (size_t i = 0; i < n; i++) {
        const struct ticket_body *b = events[i]->body;
        pg_array_int4(&c->ord, (int32_t)i);
        pg_array_text(&c->kind, b->event.type == EVENT_PAYMENT_REFUNDED ? "refunded" : "confirmed");
        pg_array_text(&c->payment, b->event.payment.payment_id);
        pg_array_text(&c->saga, b->event.saga_id);
        pg_array_text(&c->type, type_name(b));
        pg_array_uuid(&c->subject, b->subject);
    }
}

/* What the ticket_apply functions read. */
static void fill_for_apply(struct ticket_columns *c, struct engine_event *const *events, size_t n)
{
    reset_columns(c);
    for (size_t i = 0; i < n; i++) {
        const struct ticket_body *b = events[i]->body;
        const struct event_payment *p = &b->event.payment;
        pg_array_int4(&c->ord, (int32_t)i);
        pg_array_text(&c->payment, p->payment_id);
        pg_array_text(&c->order, p->order_id);
        pg_array_text(&c->saga, b->event.saga_id);
        pg_array_text(&c->user, p->user_id);
        pg_array_text(&c->type, type_name(b));
        pg_array_uuid(&c->subject, b->subject);
        if (p->amount == EVENT_NO_AMOUNT)
            pg_array_null(&c->amount);
        else
            pg_array_int8(&c->amount, p->amount);
        pg_array_text(&c->method, p->method);
        pg_array_int8(&c->time, b->event.timestamp_ms);
    }
}

static struct ticket_reason *find_reason(struct ticket_consumer *t, const char *name)
{
    if (!name)
        return NULL;
    for (size_t i = 0; i < t->reason_count; i++)
        if (strcmp(t->reasons[i].name, name) == 0)
            return &t->reasons[i];
    if (t->reason_count == TICKET_MAX_REASONS) /* the functions know fewer: a bug, and no crash */
        return &t->reasons[TICKET_MAX_REASONS - 1];
    struct ticket_reason *r = &t->reasons[t->reason_count++];
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

static int find_outcome(const char *name, enum ticket_outcome *out)
{
    static const char *const names[TICKET_OUTCOME_COUNT] = {
        [TICKET_APPLIED] = "applied",
        [TICKET_NOOP] = "noop",
        [TICKET_REFUND_REQUESTED] = "refund_requested",
        [TICKET_LEDGER_ONLY] = "ledger_only",
        [TICKET_DEAD] = "dead",
    };
    for (int i = 0; name && i < TICKET_OUTCOME_COUNT; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum ticket_outcome)i;
            return 0;
        }
    return RC_FATAL;
}

static void take_outcome(struct engine_event *e, enum ticket_outcome outcome,
                         struct ticket_reason *reason)
{
    struct ticket_body *b = e->body;
    const char *payment = b->event.payment.payment_id;
    b->outcome = outcome;
    b->reason = reason;
    if (outcome == TICKET_NOOP)
        e->outcome = ENGINE_NOOP;
    else if (outcome == TICKET_DEAD)
        engine_dead(e, reason ? reason->name : "refused", "payment %.64s of %s %s",
                    payment ? payment : "(no id)", type_name(b),
                    b->subject ? b->subject : "(none)");
}

static int take_answers(struct ticket_consumer *t, const struct pg_result *r,
                        struct engine_event *const *events, size_t n, struct fault *f)
{
    for (size_t i = 0; i < n; i++) {
        struct ticket_body *b = events[i]->body;
        b->outcome = TICKET_APPLIED;
        b->reason = NULL;
    }
    for (int i = 0; i < pg_result_rows(r); i++) {
        int64_t ord = pg_result_int(r, i, ORD);
        enum ticket_outcome outcome;
        if (ord < 0 || (size_t)ord >= n ||
            find_outcome(pg_result_text(r, i, OUTCOME), &outcome) != 0)
            return fault_set(f, RC_FATAL, "ticket_db's functions are not of this version");
        take_outcome(events[ord], outcome, find_reason(t, pg_result_text(r, i, REASON)));
    }
    return 0;
}

static int apply(struct engine_tx *tx, enum ticket_handler handler,
                 struct engine_event *const *events, size_t n, struct fault *f)
{
    struct ticket_consumer *t = tx->state;
    struct ticket_columns *c = &t->columns;
    fill_for_apply(c, events, n);
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, &c->ord);
    pg_params_array(&p, &c->payment);
    pg_params_array(&p, &c->order);
    pg_params_array(&p, &c->saga);
    pg_params_array(&p, &c->user);
    if (handler == TICKET_REFUNDED)
        pg_params_array(&p, &c->type);
    pg_params_array(&p, &c->subject);
    pg_params_array(&p, &c->amount);
    if (handler != TICKET_REFUNDED)
        pg_params_array(&p, &c->method);
    pg_params_array(&p, &c->time);
    struct pg_result *r = NULL;
    int rc = pg_exec(tx->pg, &t->statements[handler], &p, &r, f);
    if (rc)
        return rc;
    rc = take_answers(t, r, events, n, f);
    pg_result_free(r);
    return rc;
}

static int confirmed_reservation(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                                 struct fault *f)
{
    return apply(tx, TICKET_CONFIRMED_RESERVATION, events, n, f);
}

static int confirmed_transfer(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                              struct fault *f)
{
    return apply(tx, TICKET_CONFIRMED_TRANSFER, events, n, f);
}

static int confirmed_membership(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                                struct fault *f)
{
    return apply(tx, TICKET_CONFIRMED_MEMBERSHIP, events, n, f);
}

static int refunded(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                    struct fault *f)
{
    return apply(tx, TICKET_REFUNDED, events, n, f);
}

const struct engine_handler TICKET_HANDLERS[] = {
    [TICKET_CONFIRMED_RESERVATION] = {"confirmed_reservation", confirmed_reservation},
    [TICKET_CONFIRMED_TRANSFER] = {"confirmed_transfer", confirmed_transfer},
    [TICKET_CONFIRMED_MEMBERSHIP] = {"confirmed_membership", confirmed_membership},
    [TICKET_REFUNDED] = {"refunded", refunded},
    {NULL, NULL}};

/* A key is a kind and an id: "payment p-17". The same words as decode's, so that they meet. */
static void add_conflict(struct engine_event *e, const char *key)
{
    char kind[16];
    const char *space = strchr(key, ' ');
    if (!space || (size_t)(space - key) >= sizeof kind) {
        engine_conflict(e, "", key);
        return;
    }
    memcpy(kind, key, (size_t)(space - key));
    kind[space - key] = '\0';
    engine_conflict(e, kind, space + 1);
}

int ticket_lock(struct engine_tx *tx, struct engine_event *const *events, size_t n, struct fault *f)
{
    struct ticket_consumer *t = tx->state;
    struct ticket_columns *c = &t->columns;
    fill_for_lock(c, events, n);
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, &c->ord);
    pg_params_array(&p, &c->kind);
    pg_params_array(&p, &c->payment);
    pg_params_array(&p, &c->saga);
    pg_params_array(&p, &c->type);
    pg_params_array(&p, &c->subject);
    struct pg_result *r = NULL;
    int rc = pg_exec(tx->pg, &t->statements[TICKET_SQL_LOCK_BATCH], &p, &r, f);
    if (rc)
        return rc;
    for (int i = 0; i < pg_result_rows(r); i++) {
        int64_t ord = pg_result_int(r, i, 0);
        if (ord >= 0 && (size_t)ord < n)
            add_conflict(events[ord], pg_result_text(r, i, 1));
    }
    pg_result_free(r);
    return 0;
}

/* The brake counts payments that were heard for the first time. */
static int32_t count_confirmations(struct engine_event *const *events, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ticket_body *b = events[i]->body;
        if (b->event.type == EVENT_PAYMENT_CONFIRMED &&
            (b->outcome == TICKET_APPLIED || b->outcome == TICKET_REFUND_REQUESTED))
            count++;
    }
    return count;
}

static int check_brake(struct engine_tx *tx, int32_t confirmations, struct engine_brake *brake,
                       struct fault *f)
{
    struct ticket_consumer *t = tx->state;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, tx->group);
    pg_params_int4(&p, confirmations);
    struct pg_result *r = NULL;
    int rc = pg_exec(tx->pg, &t->statements[TICKET_SQL_BRAKE_CHECK], &p, &r, f);
    if (rc)
        return rc;
    int64_t requests = pg_result_int(r, 0, 1), seen = pg_result_int(r, 0, 2);
    if (requests > 0)
        metric_set(t->metrics.brake_requests, (double)requests);
    if (pg_result_bool(r, 0, 0)) {
        brake->engaged = true;
        brake->reason = "refund_brake";
        snprintf(brake->detail, sizeof brake->detail,
                 "%lld refund requests within 60 s for %lld confirmations; none of this batch left",
                 (long long)requests, (long long)seen);
        metric_set(t->metrics.brake_engaged, 1);
    }
    pg_result_free(r);
    return 0;
}

int ticket_before_commit(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                         struct engine_brake *brake, struct fault *f)
{
    const struct ticket_consumer *t = tx->state;
    int32_t confirmations = count_confirmations(events, n);
    /* Only a confirmation can ask for a refund, and only confirmations are counted. */
    int rc = confirmations ? check_brake(tx, confirmations, brake, f) : 0;
    if (!rc && t->planted && !brake->engaged)
        rc = ticket_planted_publish(t->planted, tx, f);
    return rc;
}

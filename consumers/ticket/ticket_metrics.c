/* ticket_metrics.c - what became of the payments, for Prometheus. */
#include "consumers/ticket/ticket_internal.h"

enum {
    PAYMENTS,
    REFUND_REQUESTS,
    EXPIRED,
    SWEEP_BLOCKED,
    CAUGHT_UP_AGE,
    PRUNED,
    BRAKE_ENGAGED,
    BRAKE_REQUESTS
};

const struct metric_def TICKET_CONSUMER_METRICS[] = {
    [PAYMENTS] = {"urr_ticket_payments_total", METRIC_COUNTER,
                  "Payment events by kind and outcome: applied, noop, refund_requested, "
                  "ledger_only, dead.",
                  "kind,outcome", NULL, 0},
    [REFUND_REQUESTS] = {"urr_ticket_refund_requests_total", METRIC_COUNTER,
                         "Refund requests the consumer decided by itself, by reason.", "reason",
                         NULL, 0},
    [EXPIRED] = {"urr_ticket_expired_total", METRIC_COUNTER,
                 "Pending reservations ended by the sweeper.", NULL, NULL, 0},
    [SWEEP_BLOCKED] = {"urr_ticket_sweep_blocked", METRIC_GAUGE,
                       "1 while a partition was never caught up: nothing expires.", NULL, NULL, 0},
    [CAUGHT_UP_AGE] = {"urr_ticket_caught_up_age_seconds", METRIC_GAUGE,
                       "Age of the moment up to which all payments are known.", NULL, NULL, 0},
    [PRUNED] = {"urr_ticket_pruned_total", METRIC_COUNTER,
                "Old rows of processed_events that were deleted.", NULL, NULL, 0},
    [BRAKE_ENGAGED] = {"urr_ticket_brake_engaged", METRIC_GAUGE,
                       "1 after this instance pulled the refund brake, until the group goes on. "
                       "Alert on it.",
                       NULL, NULL, 0},
    [BRAKE_REQUESTS] = {"urr_ticket_brake_requests", METRIC_GAUGE,
                        "Own refund requests of 60 s, as the last batch with one counted them.",
                        NULL, NULL, 0},
    {0}};

static struct metric *plain(int which)
{
    return metrics_series(&TICKET_CONSUMER_METRICS[which], NULL);
}

void ticket_metrics_init(struct ticket_metrics *m)
{
    static const char *const outcomes[TICKET_OUTCOME_COUNT] = {
        "applied", "noop", "refund_requested", "ledger_only", "dead"};
    for (int h = 0; h < TICKET_HANDLER_COUNT; h++)
        for (int o = 0; o < TICKET_OUTCOME_COUNT; o++)
            m->payments[h][o] =
                metrics_series(&TICKET_CONSUMER_METRICS[PAYMENTS],
                               (const char *[]){TICKET_HANDLERS[h].name, outcomes[o]});
    m->expired = plain(EXPIRED);
    m->sweep_blocked = plain(SWEEP_BLOCKED);
    m->caught_up_age = plain(CAUGHT_UP_AGE);
    m->pruned = plain(PRUNED);
    m->brake_engaged = plain(BRAKE_ENGAGED);
    m->brake_requests = plain(BRAKE_REQUESTS);
}

struct metric *ticket_metrics_refund_requests(const char *reason)
{
    return metrics_series(&TICKET_CONSUMER_METRICS[REFUND_REQUESTS], (const char *[]){reason});
}

void ticket_metrics_committed(void *state, struct engine_event *const *events, size_t n)
{
    struct ticket_consumer *t = state;
    for (size_t i = 0; i < n; i++) {
        const struct ticket_body *b = events[i]->body;
        metric_add(t->metrics.payments[events[i]->handler][b->outcome], 1);
        if (b->outcome != TICKET_REFUND_REQUESTED || !b->reason)
            continue;
        if (!b->reason->refund_requests)
            b->reason->refund_requests = ticket_metrics_refund_requests(b->reason->name);
        metric_add(b->reason->refund_requests, 1);
    }
}

/* stats_addition.c - from an event of any family to a row of stats_apply(). */
#include "consumers/stats/stats_addition.h"

#include <stddef.h>

#include "events/event.h"

const char *const STATS_TOPICS[] = {"payment-events", "reservation-events", "transfer-events",
                                    "membership-events", NULL};

void stats_addition(const struct event *e, struct stats_addition *a)
{
    *a = (struct stats_addition){
        .type = event_type_name(e->type), .time_ms = e->timestamp_ms, .amount = EVENT_NO_AMOUNT};
    switch (e->type) {
    case EVENT_PAYMENT_CONFIRMED:
    case EVENT_PAYMENT_REFUNDED:
        a->payment = true;
        a->amount = e->payment.amount;
        a->detail = event_payment_type_name((enum event_payment_type)e->payment.payment_type);
        break;
    case EVENT_RESERVATION_CANCELLED:
        a->detail =
            event_cancel_reason_name((enum event_cancel_reason)e->reservation.cancel_reason);
        /* fall through */
    case EVENT_RESERVATION_CREATED:
    case EVENT_RESERVATION_CONFIRMED:
        a->event_id = e->reservation.event_id;
        a->amount = e->reservation.total_amount;
        break;
    case EVENT_TRANSFER_COMPLETED:
        a->amount = e->transfer.total_price;
        break;
    default:
        break;
    }
}

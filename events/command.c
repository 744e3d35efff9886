/* command.c - what the ticket service asks of payment services. */
#include "events/event_def.h"

#include "events/topics.h"

static const struct event_field REFUND_REQUESTED[] = {
    EVENT_SAGA_FIELD,
    {"paymentId", EVENT_KIND_ID, EVENT_REQUIRED, EVENT_AT(refund_request.payment_id),
     "The payment to give back, whole. Asked for once.", NULL, EVENT_OK},
    {"orderId", EVENT_KIND_ID, EVENT_NULLABLE, EVENT_AT(refund_request.order_id),
     "Its order; the record's key (paymentId when absent).", NULL, EVENT_OK},
    {"userId", EVENT_KIND_ID, EVENT_NULLABLE, EVENT_AT(refund_request.user_id), "Who paid.", NULL,
     EVENT_OK},
    {"amount", EVENT_KIND_AMOUNT, EVENT_REQUIRED, EVENT_AT(refund_request.amount),
     "What was paid, in whole currency units.", NULL, EVENT_OK},
    {"reason", EVENT_KIND_TEXT, EVENT_REQUIRED, EVENT_AT(refund_request.reason),
     "Why the money goes back.", NULL, EVENT_OK},
    {0},
};

const struct event_def EVENT_COMMAND_DEFS[] = {
    {EVENT_PAYMENT_REFUND_REQUESTED, "PAYMENT_REFUND_REQUESTED", TOPIC_PAYMENT_COMMANDS,
     "Please give this payment back and answer with PAYMENT_REFUNDED.", REFUND_REQUESTED, NULL},
    {0},
};

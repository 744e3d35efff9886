/* payment.c - money came in, money went back. Published by payment services. */
#include "events/event_def.h"

#include "events/topics.h"

static const char *const PAYMENT_TYPES[] = {"reservation", "transfer", "membership", NULL};

#define PAYMENT_HEAD(id_doc)                                                              \
    {"paymentId", EVENT_KIND_ID, EVENT_NULLABLE, EVENT_AT(payment.payment_id),            \
     id_doc,      NULL,          EVENT_OK},                                               \
        {"orderId",                                                                       \
         EVENT_KIND_ID,                                                                   \
         EVENT_NULLABLE,                                                                  \
         EVENT_AT(payment.order_id),                                                      \
         "The order; the record's key.",                                                  \
         NULL,                                                                            \
         EVENT_OK},                                                                       \
        {"userId",                                                                        \
         EVENT_KIND_ID,                                                                   \
         EVENT_NULLABLE,                                                                  \
         EVENT_AT(payment.user_id),                                                       \
         "Who paid. Needed for a transfer.",                                              \
         NULL,                                                                            \
         EVENT_OK},                                                                       \
        {"reservationId",                                                                 \
         EVENT_KIND_ID,                                                                   \
         EVENT_NULLABLE,                                                                  \
         EVENT_AT(payment.reservation_id),                                                \
         "What was paid for, where paymentType is reservation.",                          \
         NULL,                                                                            \
         EVENT_OK},                                                                       \
        {"referenceId",                                                                   \
         EVENT_KIND_ID,                                                                   \
         EVENT_NULLABLE,                                                                  \
         EVENT_AT(payment.reference_id),                                                  \
         "What was paid for, where paymentType is transfer or membership.",               \
         NULL,                                                                            \
         EVENT_OK},                                                                       \
    {                                                                                     \
        "paymentType", EVENT_KIND_CHOICE, EVENT_NULLABLE, EVENT_AT(payment.payment_type), \
            "What kind of thing was paid for; reservation when absent.", PAYMENT_TYPES,   \
            EVENT_UNKNOWN_PAYMENT_TYPE                                                    \
    }

static const struct event_field CONFIRMED[] = {
    PAYMENT_HEAD("The payment. Each takes effect once."),
    {"amount", EVENT_KIND_AMOUNT, EVENT_REQUIRED, EVENT_AT(payment.amount),
     "What was paid, in whole currency units.", NULL, EVENT_OK},
    {"paymentMethod", EVENT_KIND_TEXT, EVENT_NULLABLE, EVENT_AT(payment.method),
     "How it was paid, for example card.", NULL, EVENT_OK},
    {"sagaId", EVENT_KIND_ID, EVENT_OPTIONAL, EVENT_AT(saga_id),
     "Follows one purchase through all its events.", NULL, EVENT_OK},
    {0},
};

static const struct event_field REFUNDED[] = {
    PAYMENT_HEAD("The payment that went back. It alone is enough."),
    {"amount", EVENT_KIND_AMOUNT, EVENT_NULLABLE, EVENT_AT(payment.amount),
     "What went back, in whole currency units; the whole payment when absent.", NULL, EVENT_OK},
    {"reason", EVENT_KIND_TEXT, EVENT_NULLABLE, EVENT_AT(payment.reason), "Why it went back.", NULL,
     EVENT_OK},
    {"sagaId", EVENT_KIND_ID, EVENT_OPTIONAL, EVENT_AT(saga_id),
     "Follows one purchase through all its events.", NULL, EVENT_OK},
    {0},
};

const char *event_payment_type_name(enum event_payment_type type)
{
    return PAYMENT_TYPES[type];
}

const char *event_payment_subject(const struct event *e)
{
    const struct event_payment *p = &e->payment;
    if (p->payment_type != EVENT_PAY_RESERVATION)
        return p->reference_id;
    return p->reservation_id ? p->reservation_id : p->reference_id;
}

static const char *confirmed_missing(const struct event *e)
{
    if (!event_payment_subject(e))
        return e->payment.payment_type == EVENT_PAY_RESERVATION ? "reservationId" : "referenceId";
    if (e->payment.payment_type == EVENT_PAY_TRANSFER && !e->payment.user_id)
        return "userId";
    return NULL;
}

static const char *refunded_missing(const struct event *e)
{
    bool named = e->payment.payment_id || e->saga_id || event_payment_subject(e);
    return named ? NULL : "paymentId";
}

const struct event_def EVENT_PAYMENT_DEFS[] = {
    {EVENT_PAYMENT_CONFIRMED, "PAYMENT_CONFIRMED", TOPIC_PAYMENT_EVENTS,
     "A payment service has taken the money.", CONFIRMED, confirmed_missing},
    {EVENT_PAYMENT_REFUNDED, "PAYMENT_REFUNDED", TOPIC_PAYMENT_EVENTS,
     "A payment service has given the money back.", REFUNDED, refunded_missing},
    {0},
};

/* reservation.c - a reservation's life, as the ticket service tells it. */
#include "events/event_def.h"

#include "events/topics.h"

static const char *const CANCEL_REASONS[] = {
    "expired", "user", "refunded", "amount_mismatch", "seat_lost", "event_cancelled", NULL};

#define RESERVATION_HEAD                                                                      \
    EVENT_SAGA_FIELD,                                                                         \
        {"reservationId",                                                                     \
         EVENT_KIND_ID,                                                                       \
         EVENT_REQUIRED,                                                                      \
         EVENT_AT(reservation.reservation_id),                                                \
         "The reservation; the record's key.",                                                \
         NULL,                                                                                \
         EVENT_OK},                                                                           \
        {"userId",                                                                            \
         EVENT_KIND_ID,                                                                       \
         EVENT_REQUIRED,                                                                      \
         EVENT_AT(reservation.user_id),                                                       \
         "Whose reservation it is.",                                                          \
         NULL,                                                                                \
         EVENT_OK},                                                                           \
        {"eventId",                                                                           \
         EVENT_KIND_ID,                                                                       \
         EVENT_REQUIRED,                                                                      \
         EVENT_AT(reservation.event_id),                                                      \
         "The concert or show.",                                                              \
         NULL,                                                                                \
         EVENT_OK},                                                                           \
    {                                                                                         \
        "totalAmount", EVENT_KIND_AMOUNT, EVENT_REQUIRED, EVENT_AT(reservation.total_amount), \
            "Its price in whole currency units.", NULL, EVENT_OK                              \
    }

static const struct event_field CREATED[] = {RESERVATION_HEAD, {0}};

static const struct event_field CONFIRMED[] = {
    RESERVATION_HEAD,
    {"paymentMethod", EVENT_KIND_TEXT, EVENT_NULLABLE, EVENT_AT(reservation.method),
     "How it was paid.", NULL, EVENT_OK},
    {0},
};

static const struct event_field CANCELLED[] = {
    RESERVATION_HEAD,
    {"reason", EVENT_KIND_CHOICE, EVENT_REQUIRED, EVENT_AT(reservation.cancel_reason),
     "Why it ended.", CANCEL_REASONS, EVENT_UNKNOWN_CANCEL_REASON},
    {0},
};

const char *event_cancel_reason_name(enum event_cancel_reason reason)
{
    return CANCEL_REASONS[reason];
}

const struct event_def EVENT_RESERVATION_DEFS[] = {
    {EVENT_RESERVATION_CREATED, "RESERVATION_CREATED", TOPIC_RESERVATION_EVENTS,
     "Seats or standing places are held and wait for their payment.", CREATED, NULL},
    {EVENT_RESERVATION_CONFIRMED, "RESERVATION_CONFIRMED", TOPIC_RESERVATION_EVENTS,
     "The reservation is paid and its seats are sold.", CONFIRMED, NULL},
    {EVENT_RESERVATION_CANCELLED, "RESERVATION_CANCELLED", TOPIC_RESERVATION_EVENTS,
     "The reservation has ended and its seats are free.", CANCELLED, NULL},
    {0},
};

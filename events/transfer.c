/* transfer.c - a ticket goes from one fan to another, as the ticket service tells it. */
#include "events/event_def.h"

#include "events/topics.h"

#define TRANSFER_HEAD                                                                              \
    EVENT_SAGA_FIELD,                                                                              \
        {"transferId",                                                                             \
         EVENT_KIND_ID,                                                                            \
         EVENT_REQUIRED,                                                                           \
         EVENT_AT(transfer.transfer_id),                                                           \
         "The listing; the record's key.",                                                         \
         NULL,                                                                                     \
         EVENT_OK},                                                                                \
        {"reservationId",                                                                          \
         EVENT_KIND_ID,                                                                            \
         EVENT_REQUIRED,                                                                           \
         EVENT_AT(transfer.reservation_id),                                                        \
         "The reservation that changes hands.",                                                    \
         NULL,                                                                                     \
         EVENT_OK},                                                                                \
    {                                                                                              \
        "sellerId", EVENT_KIND_ID, EVENT_REQUIRED, EVENT_AT(transfer.seller_id), "Who listed it.", \
            NULL, EVENT_OK                                                                         \
    }

static const struct event_field COMPLETED[] = {
    TRANSFER_HEAD,
    {"buyerId", EVENT_KIND_ID, EVENT_REQUIRED, EVENT_AT(transfer.buyer_id), "Whose it is now.",
     NULL, EVENT_OK},
    {"totalPrice", EVENT_KIND_AMOUNT, EVENT_REQUIRED, EVENT_AT(transfer.total_price),
     "What the buyer paid, fee included, in whole currency units.", NULL, EVENT_OK},
    {0},
};

static const struct event_field CANCELLED[] = {
    TRANSFER_HEAD,
    {"reason", EVENT_KIND_TEXT, EVENT_REQUIRED, EVENT_AT(transfer.reason), "Why the listing ended.",
     NULL, EVENT_OK},
    {0},
};

const struct event_def EVENT_TRANSFER_DEFS[] = {
    {EVENT_TRANSFER_COMPLETED, "TRANSFER_COMPLETED", TOPIC_TRANSFER_EVENTS,
     "The buyer has paid; reservation and seats belong to the buyer.", COMPLETED, NULL},
    {EVENT_TRANSFER_CANCELLED, "TRANSFER_CANCELLED", TOPIC_TRANSFER_EVENTS,
     "The listing has ended without a sale.", CANCELLED, NULL},
    {0},
};

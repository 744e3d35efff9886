/* event_key.c - under which key an event travels, and under which it counts as seen. */
#include "events/event.h"

#include <stdio.h>
#include <string.h>

#include "runtime/arena.h"

static bool is_payment(const struct event *e)
{
    return e->type == EVENT_PAYMENT_CONFIRMED || e->type == EVENT_PAYMENT_REFUNDED;
}

static const char *own_id(const struct event *e)
{
    switch (e->type) {
    case EVENT_RESERVATION_CREATED:
    case EVENT_RESERVATION_CONFIRMED:
    case EVENT_RESERVATION_CANCELLED:
        return e->reservation.reservation_id;
    case EVENT_TRANSFER_COMPLETED:
    case EVENT_TRANSFER_CANCELLED:
        return e->transfer.transfer_id;
    case EVENT_MEMBERSHIP_ACTIVATED:
        return e->membership.membership_id;
    case EVENT_PAYMENT_REFUND_REQUESTED:
        return e->refund_request.payment_id;
    default:
        return e->payment.payment_id;
    }
}

const char *event_kafka_key(const struct event *e)
{
    const char *order = NULL;
    if (is_payment(e))
        order = e->payment.order_id;
    else if (e->type == EVENT_PAYMENT_REFUND_REQUESTED)
        order = e->refund_request.order_id;
    return order ? order : own_id(e);
}

static const char *join(struct arena *arena, const char *type, const char *middle, const char *id)
{
    char key[EVENT_KEY_MAX + 1];
    int len = middle ? snprintf(key, sizeof key, "%s:%s:%s", type, middle, id)
                     : snprintf(key, sizeof key, "%s:%s", type, id);
    return arena_strndup(arena, key, (size_t)len < sizeof key ? (size_t)len : sizeof key - 1);
}

/* One saga has several payments, so the saga's id counts only where no payment is named. */
const char *event_ticket_key(const struct event *e, struct arena *arena)
{
    const char *type = event_type_name(e->type);
    if (!is_payment(e))
        return join(arena, type, NULL, own_id(e));
    if (e->payment.payment_id)
        return join(arena, type, NULL, e->payment.payment_id);
    if (e->saga_id)
        return join(arena, type, NULL, e->saga_id);
    return join(arena, type,
                event_payment_type_name((enum event_payment_type)e->payment.payment_type),
                event_payment_subject(e));
}

const char *event_stats_key(const struct event *e, struct arena *arena)
{
    if (is_payment(e) || e->type == EVENT_PAYMENT_REFUND_REQUESTED)
        return event_ticket_key(e, arena);
    char key[EVENT_KEY_MAX + 1];
    int len = snprintf(key, sizeof key, "%s:%s:%lld", event_type_name(e->type), own_id(e),
                       (long long)e->timestamp_ms);
    return arena_strndup(arena, key, (size_t)len);
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c;
    if (c >= 'a' && c <= 'f')
        return c;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 'a';
    return 0;
}

bool event_uuid(const char *text, char out[EVENT_UUID_LEN + 1])
{
    char canonical[EVENT_UUID_LEN + 1];
    if (!text || strnlen(text, EVENT_UUID_LEN + 1) != EVENT_UUID_LEN)
        return false;
    for (int i = 0; i < EVENT_UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        int c = dash ? (text[i] == '-' ? '-' : 0) : hex(text[i]);
        if (!c)
            return false;
        canonical[i] = (char)c;
    }
    canonical[EVENT_UUID_LEN] = '\0';
    memcpy(out, canonical, sizeof canonical);
    return true;
}

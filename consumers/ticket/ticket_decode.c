/* ticket_decode.c - a record of payment-events becomes a payment whose subject is a UUID. */
#include <string.h>

#include "consumers/ticket/ticket_internal.h"
#include "events/topics.h"
#include "runtime/arena.h"
#include "runtime/fault.h"

/* Ids are opaque at the edge; what cannot be a row of ticket_db never gets near a cast. */
static int take_subject(struct arena *arena, struct ticket_body *body, struct event_reject *why,
                        struct fault *f)
{
    const char *text = event_payment_subject(&body->event);
    char uuid[EVENT_UUID_LEN + 1];
    if (!text)
        return 0;
    if (!event_uuid(text, uuid)) {
        why->reason = EVENT_BAD_SUBJECT_ID;
        return fault_set(f, RC_REJECT, "the subject of the payment is no UUID: %.64s", text);
    }
    body->subject = arena_strdup(arena, uuid);
    return body->subject ? 0 : fault_set(f, RC_RETRY, "the batch's memory is full");
}

static int decode_body(struct arena *arena, const struct engine_record *r, struct ticket_body *body,
                       struct event_reject *why, struct fault *f)
{
    /* The contract's name of the topic, whatever it is called in this cluster. */
    struct event_source src = {TOPIC_PAYMENT_EVENTS, r->value, r->value_len, r->timestamp_ms,
                               r->now_ms};
    int rc = event_decode(&src, arena, &body->event, why, f);
    return rc ? rc : take_subject(arena, body, why, f);
}

int ticket_decode(struct arena *arena, struct engine_event *out, struct engine_reject *out_reject,
                  void *state, struct fault *f)
{
    (void)state;
    struct event_reject why = {0};
    struct ticket_body *body = arena_alloc(arena, sizeof *body);
    if (!body)
        return fault_set(f, RC_RETRY, "the batch's memory is full");
    memset(body, 0, sizeof *body);
    int rc = decode_body(arena, out->record, body, &why, f);
    if (rc == RC_REJECT) {
        out_reject->reason = event_reason_name(why.reason);
        memcpy(out_reject->unknown, why.unknown, sizeof why.unknown);
    }
    if (rc)
        return rc;
    const struct event_payment *p = &body->event.payment;
    out->body = body;
    out->handler =
        body->event.type == EVENT_PAYMENT_REFUNDED ? TICKET_REFUNDED : (unsigned)p->payment_type;
    if (p->payment_id)
        engine_conflict(out, "payment", p->payment_id);
    if (body->subject)
        engine_conflict(out, "subject", body->subject);
    out->key = event_ticket_key(&body->event, arena);
    return out->key ? 0 : fault_set(f, RC_RETRY, "the batch's memory is full");
}

/* event.h - what crosses Kafka: every type, its fields and rules, decoded and encoded by one table.
 *
 * A family (payment, reservation, transfer, membership, command) is one file with the description
 * of its types; decode, validation, encode and docs/asyncapi.yaml all follow that description. */
#ifndef EVENT_H
#define EVENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct fault;

enum event_type {
    EVENT_PAYMENT_CONFIRMED,
    EVENT_PAYMENT_REFUNDED,
    EVENT_RESERVATION_CREATED,
    EVENT_RESERVATION_CONFIRMED,
    EVENT_RESERVATION_CANCELLED,
    EVENT_TRANSFER_COMPLETED,
    EVENT_TRANSFER_CANCELLED,
    EVENT_MEMBERSHIP_ACTIVATED,
    EVENT_PAYMENT_REFUND_REQUESTED,
    EVENT_TYPE_COUNT
};

enum event_payment_type { EVENT_PAY_RESERVATION, EVENT_PAY_TRANSFER, EVENT_PAY_MEMBERSHIP };

enum event_cancel_reason {
    EVENT_CANCEL_EXPIRED,
    EVENT_CANCEL_USER,
    EVENT_CANCEL_REFUNDED,
    EVENT_CANCEL_AMOUNT_MISMATCH,
    EVENT_CANCEL_SEAT_LOST,
    EVENT_CANCEL_EVENT_CANCELLED
};

enum {
    EVENT_MAX_BYTES = 64 * 1024, /* a larger value is none of ours */
    EVENT_ID_MAX = 128,          /* printable ASCII */
    EVENT_TEXT_MAX = 1000,       /* free text: reasons, payment methods */
    EVENT_KEY_MAX = 255          /* processed_events.event_key */
};
#define EVENT_NO_AMOUNT INT64_C(-1)
#define EVENT_AMOUNT_MAX (INT64_C(1) << 53)
#define EVENT_MIN_TIME_MS INT64_C(1577836800000) /* 2020-01-01T00:00:00Z */
#define EVENT_MAX_AHEAD_MS INT64_C(86400000)     /* a publisher's clock may be a day ahead */

/* Strings are NULL where the field is absent or null; they live in the arena of the decode. */
struct event_payment { /* PAYMENT_CONFIRMED, PAYMENT_REFUNDED */
    const char *payment_id, *order_id, *user_id, *reservation_id, *reference_id;
    int payment_type; /* enum event_payment_type */
    int64_t amount;   /* EVENT_NO_AMOUNT: a refund that does not say */
    const char *method, *reason;
};
struct event_reservation {
    const char *reservation_id, *user_id, *event_id;
    int64_t total_amount;
    const char *method;
    int cancel_reason; /* enum event_cancel_reason; RESERVATION_CANCELLED only */
};
struct event_transfer {
    const char *transfer_id, *reservation_id, *seller_id, *buyer_id;
    int64_t total_price;
    const char *reason;
};
struct event_membership {
    const char *membership_id, *user_id, *artist_id;
};
struct event_refund_request {
    const char *payment_id, *order_id, *user_id;
    int64_t amount;
    const char *reason;
};

struct event {
    enum event_type type;
    int64_t timestamp_ms; /* UTC; the record's own time where the event has none */
    const char *saga_id;
    union {
        struct event_payment payment;
        struct event_reservation reservation;
        struct event_transfer transfer;
        struct event_membership membership;
        struct event_refund_request refund_request;
    };
};

/* Why an event is refused. The names go into dead-letter headers, metrics and docs/dead-letters.md.
 */
enum event_reason {
    EVENT_OK,
    EVENT_EMPTY_VALUE,
    EVENT_TOO_LARGE,
    EVENT_BAD_JSON,
    EVENT_NOT_OBJECT,
    EVENT_MISSING_TYPE,
    EVENT_UNKNOWN_TYPE,
    EVENT_WRONG_TOPIC,
    EVENT_UNKNOWN_PAYMENT_TYPE,
    EVENT_UNKNOWN_CANCEL_REASON,
    EVENT_MISSING_FIELD,
    EVENT_BAD_ID,
    EVENT_BAD_TEXT,
    EVENT_BAD_AMOUNT,
    EVENT_BAD_TIMESTAMP,
    EVENT_TIMESTAMP_RANGE,
    EVENT_BAD_SUBJECT_ID,
    EVENT_REASON_COUNT
};
const char *event_reason_name(enum event_reason reason);
const char *event_reason_doc(enum event_reason reason);

/* Where a value came from. `topic` NULL: any topic's types are welcome (the CLI). */
struct event_source {
    const char *topic;
    const void *value;
    size_t len;
    int64_t record_time_ms; /* Kafka's timestamp; <= 0: unknown */
    int64_t now_ms;
};

struct event_reject {
    enum event_reason reason;
    char unknown[EVENT_ID_MAX + 1]; /* the type or paymentType nobody knows: KAFKA_IGNORED_TYPES */
};

/* 0; RC_REJECT with *out_reject and *f saying which rule is broken; RC_RETRY when the arena is full
 * (nothing wrong with the event). *out is written only when returning 0. */
int event_decode(const struct event_source *src, struct arena *arena, struct event *out,
                 struct event_reject *out_reject, struct fault *f);

/* Appends the JSON object (ISO timestamp in UTC). RC_REJECT with *f when the event breaks a rule or
 * does not fit: nothing is appended then. */
int event_encode(const struct event *e, struct buf *out, struct fault *f);

const char *event_type_name(enum event_type type);
/* RC_REJECT when there is no such type. */
int event_type_find(const char *name, enum event_type *out_type);
const char *event_topic(enum event_type type);
const char *event_payment_type_name(enum event_payment_type type);
const char *event_cancel_reason_name(enum event_cancel_reason reason);

/* The Kafka key: orderId, reservationId, ...; payments without orderId use paymentId; NULL: none.
 */
const char *event_kafka_key(const struct event *e);

/* What a payment is for: reservationId (or referenceId); transfer and membership: referenceId. */
const char *event_payment_subject(const struct event *e);

/* Keys of processed_events, by the rules of the ticket and the stats group. NULL past the arena. */
const char *event_ticket_key(const struct event *e, struct arena *arena);
const char *event_stats_key(const struct event *e, struct arena *arena);

/* Ids at the edge are opaque; entities of ticket_db are UUIDs. Writes the lower-case form; false
 * when `text` is NULL or not 8-4-4-4-12 hexadecimal digits (then: EVENT_BAD_SUBJECT_ID). */
enum { EVENT_UUID_LEN = 36 };
bool event_uuid(const char *text, char out[EVENT_UUID_LEN + 1]);

#endif

/* event_def.h - how a family describes its types. Inside events/ only. */
#ifndef EVENT_DEF_H
#define EVENT_DEF_H
#include "events/event.h"

enum event_kind {
    EVENT_KIND_ID,     /* const char *: 1-128 printable bytes */
    EVENT_KIND_TEXT,   /* const char *: up to EVENT_TEXT_MAX bytes of UTF-8 */
    EVENT_KIND_AMOUNT, /* int64_t: whole, 0..2^53 */
    EVENT_KIND_CHOICE  /* int: the index of one of `choices` */
};

enum event_presence {
    EVENT_REQUIRED,
    EVENT_NULLABLE, /* may be absent or null; written as null */
    EVENT_OPTIONAL  /* may be absent or null; left out when absent */
};

struct event_field {
    const char *name;
    enum event_kind kind;
    enum event_presence presence;
    size_t offset; /* in struct event */
    const char *doc;
    const char *const *choices; /* CHOICE: NULL-terminated; an absent one reads as the first */
    enum event_reason unknown;  /* CHOICE: the reason for a value that is none of them */
};

struct event_def {
    enum event_type type;
    const char *name;
    const char *topic;
    const char *doc;
    const struct event_field *fields; /* ends with a NULL name */
    /* Rules that span fields; may be NULL. Names the missing field, or returns NULL when all is
     * well. */
    const char *(*missing)(const struct event *e);
};

#define EVENT_AT(member) offsetof(struct event, member)
#define EVENT_SAGA_FIELD                                                   \
    {                                                                      \
        "sagaId", EVENT_KIND_ID, EVENT_NULLABLE, EVENT_AT(saga_id),        \
            "Follows one purchase through all its events.", NULL, EVENT_OK \
    }

enum { EVENT_MAX_FIELDS = 12 };

extern const struct event_def EVENT_PAYMENT_DEFS[];     /* events/payment.c */
extern const struct event_def EVENT_RESERVATION_DEFS[]; /* events/reservation.c */
extern const struct event_def EVENT_TRANSFER_DEFS[];    /* events/transfer.c */
extern const struct event_def EVENT_MEMBERSHIP_DEFS[];  /* events/membership.c */
extern const struct event_def EVENT_COMMAND_DEFS[];     /* events/command.c */

/* The description of that type. */
const struct event_def *event_def(enum event_type type);

/* One value against its field's rule: EVENT_OK or the broken rule. */
enum event_reason event_check_id(const char *text);
enum event_reason event_check_text(const char *text);
enum event_reason event_check_amount(int64_t amount);
enum event_reason event_check_time(int64_t ms, int64_t now_ms);

#endif

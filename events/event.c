/* event.c - names, reasons, and the checks that decode and encode share. */
#include "events/event.h"

#include <string.h>

#include "events/event_def.h"
#include "runtime/fault.h"

static const struct {
    const char *name, *doc;
} REASONS[EVENT_REASON_COUNT] = {
    [EVENT_OK] = {"ok", "Nothing is wrong."},
    [EVENT_EMPTY_VALUE] = {"empty_value", "The record has no value (a tombstone or no bytes)."},
    [EVENT_TOO_LARGE] = {"too_large", "The value is larger than 64 KiB: none of our events is."},
    [EVENT_BAD_JSON] = {"bad_json",
                        "The value is not JSON that can be read without guessing: broken syntax or "
                        "UTF-8, a NUL, a key twice, too deep."},
    [EVENT_NOT_OBJECT] = {"not_object", "The value is JSON, but not an object."},
    [EVENT_MISSING_TYPE] = {"missing_type", "There is no `type`, and only payment-events may do "
                                            "without (legacy publishers)."},
    [EVENT_UNKNOWN_TYPE] = {"unknown_type",
                            "Nobody here knows this `type`; KAFKA_IGNORED_TYPES may name it."},
    [EVENT_WRONG_TOPIC] = {"wrong_topic", "The type is known, but belongs to another topic."},
    [EVENT_UNKNOWN_PAYMENT_TYPE] = {"unknown_payment_type",
                                    "Nobody here knows this `paymentType`; KAFKA_IGNORED_TYPES may "
                                    "name it."},
    [EVENT_UNKNOWN_CANCEL_REASON] =
        {"unknown_cancel_reason", "A RESERVATION_CANCELLED whose `reason` is none of the known."},
    [EVENT_MISSING_FIELD] = {"missing_field", "A required field is absent or null."},
    [EVENT_BAD_ID] = {"bad_id", "An id is not a string of 1 to 128 printable ASCII bytes."},
    [EVENT_BAD_TEXT] = {"bad_text", "A text field is not a string, or is longer than 1,000 bytes."},
    [EVENT_BAD_AMOUNT] = {"bad_amount", "An amount is not a whole number from 0 to 2^53."},
    [EVENT_BAD_TIMESTAMP] = {"bad_timestamp",
                             "`timestamp` is neither ISO-8601 with a zone nor epoch milliseconds."},
    [EVENT_TIMESTAMP_RANGE] = {"timestamp_range",
                               "`timestamp` is before 2020 or more than 24 hours ahead."},
    [EVENT_BAD_SUBJECT_ID] = {"bad_subject_id",
                              "What was paid for is no UUID, so it cannot be in ticket_db."},
};

const char *event_reason_name(enum event_reason reason)
{
    return REASONS[reason].name;
}

const char *event_reason_doc(enum event_reason reason)
{
    return REASONS[reason].doc;
}

static const struct event_def *const FAMILIES[] = {
    EVENT_PAYMENT_DEFS,    EVENT_RESERVATION_DEFS, EVENT_TRANSFER_DEFS,
    EVENT_MEMBERSHIP_DEFS, EVENT_COMMAND_DEFS,
};

const struct event_def *event_def(enum event_type type)
{
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++)
        for (const struct event_def *d = FAMILIES[i]; d->name; d++)
            if (d->type == type)
                return d;
    return NULL;
}

const char *event_type_name(enum event_type type)
{
    return event_def(type)->name;
}

const char *event_topic(enum event_type type)
{
    return event_def(type)->topic;
}

int event_type_find(const char *name, enum event_type *out_type)
{
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++)
        for (const struct event_def *d = FAMILIES[i]; d->name; d++)
            if (strcmp(d->name, name) == 0) {
                *out_type = d->type;
                return 0;
            }
    return RC_REJECT;
}

enum event_reason event_check_id(const char *text)
{
    size_t len = 0;
    for (; text[len]; len++)
        if (text[len] < 0x20 || text[len] > 0x7e || len == EVENT_ID_MAX)
            return EVENT_BAD_ID;
    return len > 0 ? EVENT_OK : EVENT_BAD_ID;
}

enum event_reason event_check_text(const char *text)
{
    return strnlen(text, EVENT_TEXT_MAX + 1) <= EVENT_TEXT_MAX ? EVENT_OK : EVENT_BAD_TEXT;
}

enum event_reason event_check_amount(int64_t amount)
{
    return amount >= 0 && amount <= EVENT_AMOUNT_MAX ? EVENT_OK : EVENT_BAD_AMOUNT;
}

enum event_reason event_check_time(int64_t ms, int64_t now_ms)
{
    bool inside = ms >= EVENT_MIN_TIME_MS && ms <= now_ms + EVENT_MAX_AHEAD_MS;
    return inside ? EVENT_OK : EVENT_TIMESTAMP_RANGE;
}

/* event_decode.c - bytes from strangers into a struct event, by the type's description. */
#include "events/event.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "events/event_def.h"
#include "events/topics.h"
#include "runtime/arena.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"

struct decoding {
    const struct event_source *src;
    struct arena *arena;
    struct event_reject *reject;
    struct fault *f;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct decoding *d, enum event_reason why,
                                                        const char *fmt, ...)
{
    char text[sizeof d->f->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    d->reject->reason = why;
    return fault_set(d->f, RC_REJECT, "%s", text);
}

static int refuse_unknown(struct decoding *d, enum event_reason why, const cJSON *item)
{
    const char *value = cJSON_IsString(item) ? item->valuestring : "(not a string)";
    snprintf(d->reject->unknown, sizeof d->reject->unknown, "%.*s", EVENT_ID_MAX, value);
    return refuse(d, why, "%s is '%.64s'", item->string, value);
}

static int keep_string(struct decoding *d, const cJSON *item, const char **out)
{
    *out = arena_strdup(d->arena, item->valuestring);
    return *out ? 0 : fault_set(d->f, RC_RETRY, "no room to decode an event");
}

static bool whole_number(const cJSON *item, int64_t *out)
{
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= (double)JSON_MAX_INT) ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *out = (int64_t)item->valuedouble;
    return true;
}

static int decode_choice(struct decoding *d, const struct event_field *field, const cJSON *item,
                         int *out)
{
    for (int i = 0; cJSON_IsString(item) && field->choices[i]; i++)
        if (strcmp(field->choices[i], item->valuestring) == 0) {
            *out = i;
            return 0;
        }
    return refuse_unknown(d, field->unknown, item);
}

static int decode_amount(struct decoding *d, const struct event_field *field, const cJSON *item,
                         int64_t *out)
{
    int64_t amount = -1;
    if (!whole_number(item, &amount) || event_check_amount(amount) != EVENT_OK)
        return refuse(d, EVENT_BAD_AMOUNT, "%s is no whole amount from 0 to 2^53", field->name);
    *out = amount;
    return 0;
}

static int decode_value(struct decoding *d, const struct event_field *field, const cJSON *item,
                        void *at)
{
    switch (field->kind) {
    case EVENT_KIND_ID:
        if (!cJSON_IsString(item) || event_check_id(item->valuestring) != EVENT_OK)
            return refuse(d, EVENT_BAD_ID, "%s is not 1 to 128 printable bytes", field->name);
        return keep_string(d, item, at);
    case EVENT_KIND_TEXT:
        if (!cJSON_IsString(item) || event_check_text(item->valuestring) != EVENT_OK)
            return refuse(d, EVENT_BAD_TEXT, "%s is no text of up to 1,000 bytes", field->name);
        return keep_string(d, item, at);
    case EVENT_KIND_AMOUNT:
        return decode_amount(d, field, item, at);
    case EVENT_KIND_CHOICE:
        return decode_choice(d, field, item, at);
    }
    return fault_set(d->f, RC_FATAL, "a field of no kind");
}

static int decode_field(struct decoding *d, const struct event_field *field, const cJSON *item,
                        struct event *e)
{
    void *at = (char *)e + field->offset;
    if (item && !cJSON_IsNull(item))
        return decode_value(d, field, item, at);
    if (field->presence == EVENT_REQUIRED)
        return refuse(d, EVENT_MISSING_FIELD, "%s is missing", field->name);
    if (field->kind == EVENT_KIND_AMOUNT)
        *(int64_t *)at = EVENT_NO_AMOUNT;
    return 0;
}

/* One pass over the members instead of one search per field. */
static int decode_fields(struct decoding *d, const struct event_def *def, const cJSON *object,
                         struct event *e)
{
    const cJSON *found[EVENT_MAX_FIELDS] = {0};
    for (const cJSON *item = object->child; item; item = item->next)
        for (size_t i = 0; def->fields[i].name; i++)
            if (strcmp(def->fields[i].name, item->string) == 0)
                found[i] = item;
    for (size_t i = 0; def->fields[i].name; i++) {
        int rc = decode_field(d, &def->fields[i], found[i], e);
        if (rc)
            return rc;
    }
    const char *missing = def->missing ? def->missing(e) : NULL;
    return missing ? refuse(d, EVENT_MISSING_FIELD, "%s is missing", missing) : 0;
}

static int decode_time(struct decoding *d, const cJSON *object, int64_t *out_ms)
{
    const cJSON *item = json_get(object, "timestamp");
    int64_t ms = d->src->record_time_ms;
    if (!item || cJSON_IsNull(item)) {
        if (ms <= 0)
            return refuse(d, EVENT_BAD_TIMESTAMP, "neither the event nor its record has a time");
    } else if (cJSON_IsString(item)) {
        if (clock_parse_iso(item->valuestring, strlen(item->valuestring), &ms) != 0)
            return refuse(d, EVENT_BAD_TIMESTAMP, "timestamp is not ISO-8601 with a zone");
    } else if (!whole_number(item, &ms)) {
        return refuse(d, EVENT_BAD_TIMESTAMP, "timestamp is no whole number of milliseconds");
    }
    if (event_check_time(ms, d->src->now_ms) != EVENT_OK)
        return refuse(d, EVENT_TIMESTAMP_RANGE, "timestamp %lld is not from 2020 to tomorrow",
                      (long long)ms);
    *out_ms = ms;
    return 0;
}

/* Legacy publishers send no type: a reason field, whatever its value, marks the refund. */
static int decode_type(struct decoding *d, const cJSON *object, enum event_type *out)
{
    const cJSON *item = json_get(object, "type");
    const char *topic = d->src->topic;
    if (!item || cJSON_IsNull(item)) {
        if (topic && strcmp(topic, TOPIC_PAYMENT_EVENTS) != 0)
            return refuse(d, EVENT_MISSING_TYPE, "type is missing");
        *out = json_get(object, "reason") ? EVENT_PAYMENT_REFUNDED : EVENT_PAYMENT_CONFIRMED;
        return 0;
    }
    if (!cJSON_IsString(item) || event_type_find(item->valuestring, out) != 0)
        return refuse_unknown(d, EVENT_UNKNOWN_TYPE, item);
    if (topic && strcmp(topic, event_topic(*out)) != 0)
        return refuse(d, EVENT_WRONG_TOPIC, "%s belongs to %s", item->valuestring,
                      event_topic(*out));
    return 0;
}

static int decode_object(struct decoding *d, const cJSON *object, struct event *out)
{
    if (!cJSON_IsObject(object))
        return refuse(d, EVENT_NOT_OBJECT, "the value is not a JSON object");
    struct event e = {0};
    int rc = decode_type(d, object, &e.type);
    if (!rc)
        rc = decode_fields(d, event_def(e.type), object, &e);
    if (!rc)
        rc = decode_time(d, object, &e.timestamp_ms);
    if (!rc)
        *out = e;
    return rc;
}

int event_decode(const struct event_source *src, struct arena *arena, struct event *out,
                 struct event_reject *out_reject, struct fault *f)
{
    struct fault scrap;
    struct decoding d = {src, arena, out_reject, f ? f : &scrap};
    *out_reject = (struct event_reject){0};
    if (!src->value || src->len == 0)
        return refuse(&d, EVENT_EMPTY_VALUE, "the record has no value");
    if (src->len > EVENT_MAX_BYTES)
        return refuse(&d, EVENT_TOO_LARGE, "the value has %zu bytes", src->len);
    cJSON *json = NULL;
    int rc = json_parse_loose(src->value, src->len, &json, d.f);
    if (rc == RC_REJECT)
        out_reject->reason = EVENT_BAD_JSON;
    if (!rc)
        rc = decode_object(&d, json, out);
    cJSON_Delete(json);
    return rc;
}

/* event_encode.c - a struct event as the JSON that travels, refused where it would break a rule. */
#include "events/event.h"

#include "events/event_def.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"

/* Encoding needs no clock: the upper bound only keeps the year at four digits. */
#define LAST_TIME_MS INT64_C(253402214400000)

static int refuse(struct fault *f, const struct event_def *def, const struct event_field *field,
                  enum event_reason why)
{
    return fault_set(f, RC_REJECT, "%s.%s: %s", def->name, field->name, event_reason_name(why));
}

static bool absent(const struct event_field *field, const void *at)
{
    if (field->kind == EVENT_KIND_CHOICE)
        return false;
    if (field->kind == EVENT_KIND_AMOUNT)
        return *(const int64_t *)at == EVENT_NO_AMOUNT;
    return *(const char *const *)at == NULL;
}

static enum event_reason check(const struct event_field *field, const void *at)
{
    if (absent(field, at))
        return field->presence == EVENT_REQUIRED ? EVENT_MISSING_FIELD : EVENT_OK;
    switch (field->kind) {
    case EVENT_KIND_ID:
        return event_check_id(*(const char *const *)at);
    case EVENT_KIND_TEXT:
        return event_check_text(*(const char *const *)at);
    case EVENT_KIND_AMOUNT:
        return event_check_amount(*(const int64_t *)at);
    case EVENT_KIND_CHOICE:
        for (int i = 0; field->choices[i]; i++)
            if (i == *(const int *)at)
                return EVENT_OK;
        return field->unknown;
    }
    return EVENT_OK;
}

static void put(struct json_out *j, const struct event_field *field, const void *at)
{
    if (absent(field, at)) {
        if (field->presence == EVENT_NULLABLE)
            json_put_null(j, field->name);
    } else if (field->kind == EVENT_KIND_AMOUNT) {
        json_put_int(j, field->name, *(const int64_t *)at);
    } else if (field->kind == EVENT_KIND_CHOICE) {
        json_put_str(j, field->name, field->choices[*(const int *)at]);
    } else {
        json_put_str(j, field->name, *(const char *const *)at);
    }
}

int event_encode(const struct event *e, struct buf *out, struct fault *f)
{
    const struct event_def *def = event_def(e->type);
    for (const struct event_field *field = def->fields; field->name; field++) {
        enum event_reason why = check(field, (const char *)e + field->offset);
        if (why != EVENT_OK)
            return refuse(f, def, field, why);
    }
    const char *missing = def->missing ? def->missing(e) : NULL;
    if (missing)
        return fault_set(f, RC_REJECT, "%s.%s: missing_field", def->name, missing);
    if (event_check_time(e->timestamp_ms, LAST_TIME_MS) != EVENT_OK)
        return fault_set(f, RC_REJECT, "%s.timestamp: timestamp_range", def->name);

    size_t before = out->len;
    char iso[CLOCK_ISO_LEN + 1];
    clock_format_iso(e->timestamp_ms, iso);
    struct json_out j;
    json_begin(&j, out);
    json_object(&j, NULL);
    json_put_str(&j, "type", def->name);
    for (const struct event_field *field = def->fields; field->name; field++)
        put(&j, field, (const char *)e + field->offset);
    json_put_str(&j, "timestamp", iso);
    json_end(&j);
    if (!out->failed)
        return 0;
    out->len = before;
    return fault_set(f, RC_REJECT, "%s: no room for the event", def->name);
}

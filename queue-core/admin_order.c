/* admin_order.c - the way of an operator's order, from the request to the answer. */
#include "queue-core/admin_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/event_directory.h"
#include "queue-core/queue_http.h"
#include "queue-core/request_guard.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/identity.h"
#include "runtime/json.h"

enum { BODY_MAX = 65536 };

static struct admin_order *new_order(struct queue_service *s, struct http_request *req,
                                     const char *event, const char *actor)
{
    struct admin_order *o = calloc(1, sizeof *o);
    if (!o) {
        queue_http_away(s, req);
        return NULL;
    }
    o->s = s;
    o->req = req;
    (void)snprintf(o->event, sizeof o->event, "%s", event);
    (void)snprintf(o->actor, sizeof o->actor, "%s", actor);
    return o;
}

struct admin_order *admin_order_new(struct queue_service *s, struct http_request *req)
{
    struct identity who;
    if (!queue_http_admin(s, req, &who))
        return NULL;
    const char *event = queue_http_event(req);
    return event ? new_order(s, req, event, who.user_id) : NULL;
}

struct admin_order *admin_order_internal(struct queue_service *s, struct http_request *req)
{
    if (!http_header(req, "Authorization")) {
        (void)http_set_header(req, "WWW-Authenticate", "Bearer");
        http_error(req, 401, "UNAUTHORIZED", "The services' token is required.");
        return NULL;
    }
    if (!request_guard_service(req, config_str(s->config, "INTERNAL_API_TOKEN"))) {
        http_error(req, 403, "FORBIDDEN", "This is not the services' token.");
        return NULL;
    }
    const char *event = queue_http_event(req);
    return event ? new_order(s, req, event, "ticket-service") : NULL;
}

static void on_known(enum event_answer answer, const struct event_facts *facts, void *arg)
{
    struct admin_order *o = arg;
    (void)facts;
    if (answer == EVENT_KNOWN) {
        o->act(o);
        return;
    }
    if (answer == EVENT_UNKNOWN)
        queue_http_unknown_event(o->req);
    else
        queue_http_away(o->s, o->req);
    free(o);
}

void admin_order_start(struct admin_order *o, void (*act)(struct admin_order *o))
{
    struct fault f;
    enum event_answer answer;
    const struct event_facts *facts;
    o->act = act;
    if (event_directory_find(o->s, o->event, &answer, &facts))
        on_known(answer, facts, o);
    else if (event_directory_ask(o->s, o->event, on_known, o, &f) != 0)
        admin_order_failed(o, RC_RETRY, f.text);
}

/* The body ------------------------------------------------------------------------------------ */

static void refuse(struct admin_order *o, const char *code, const char *text)
{
    http_error(o->req, 400, code, text);
    free(o);
}

/* *out is NULL where there is no body. False: refused. */
static bool read_object(struct admin_order *o, cJSON **out)
{
    size_t len;
    const char *body = http_body(o->req, &len);
    struct fault f;
    *out = NULL;
    if (len == 0)
        return true;
    if (!request_guard_is_json(o->req)) {
        http_error(o->req, 415, "NOT_JSON", "Send the body as application/json.");
        free(o);
        return false;
    }
    if (json_parse(body, len, out, &f) == 0 && cJSON_IsObject(*out))
        return true;
    refuse(o, "BAD_JSON", *out ? "The body must be a JSON object." : f.text);
    cJSON_Delete(*out);
    return false;
}

bool admin_order_set(struct admin_order *o, const char *name, const char *value)
{
    if (o->setting_count == ROOM_SETTINGS_MAX || strlen(value) >= ADMIN_VALUE_MAX)
        return false;
    char *copy = o->values[o->setting_count];
    (void)snprintf(copy, ADMIN_VALUE_MAX, "%s", value);
    o->settings[o->setting_count++] = (struct room_setting){name, copy};
    return true;
}

/* A JSON value as a setting's text. */
static bool value_text(const cJSON *item, char out[ADMIN_VALUE_MAX])
{
    int64_t ms;
    const char *text = cJSON_GetStringValue(item);
    if (cJSON_IsNull(item))
        out[0] = '\0';
    else if (cJSON_IsBool(item))
        (void)snprintf(out, ADMIN_VALUE_MAX, "%d", cJSON_IsTrue(item));
    else if (cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= 1e15 &&
             (double)(int64_t)item->valuedouble == item->valuedouble)
        (void)snprintf(out, ADMIN_VALUE_MAX, "%" PRId64, (int64_t)item->valuedouble);
    else if (text && strcmp(item->string, "opensAt") == 0 &&
             clock_parse_iso(text, strlen(text), &ms) == 0)
        (void)snprintf(out, ADMIN_VALUE_MAX, "%" PRId64, ms);
    else if (text && strlen(text) < ADMIN_VALUE_MAX)
        (void)snprintf(out, ADMIN_VALUE_MAX, "%s", text);
    else
        return false;
    return true;
}

/* The names are constants of the room's table: the body's text will be gone. */
static const char *setting_name(const char *text)
{
    static const char *const NAMES[] = {
        "activeTtl",  "artist",   "batch",     "claimTtl", "closed",   "closedReason",
        "idle",       "interval", "maxLength", "maxWait",  "opensAt",  "paused",
        "registered", "seenTtl",  "threshold", "title",    "vwrBatch", "vwrInterval"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(NAMES[i], text) == 0)
            return NAMES[i];
    return NULL;
}

static bool read_setting(struct admin_order *o, const cJSON *item, struct fault *f)
{
    char value[ADMIN_VALUE_MAX];
    const char *name = setting_name(item->string);
    if (!name || !value_text(item, value)) {
        (void)fault_set(f, RC_REJECT, "%.64s is no setting of an event, or has no such value",
                        item->string);
        return false;
    }
    struct room_setting s = {name, value};
    if (!room_setting_ok(&s, f))
        return false;
    if (!admin_order_set(o, name, value)) {
        (void)fault_set(f, RC_REJECT, "at most %d settings at once", ROOM_SETTINGS_MAX);
        return false;
    }
    return true;
}

bool admin_order_read_settings(struct admin_order *o)
{
    cJSON *object;
    struct fault f;
    if (!read_object(o, &object))
        return false;
    for (const cJSON *item = object ? object->child : NULL; item; item = item->next) {
        if (read_setting(o, item, &f))
            continue;
        cJSON_Delete(object);
        refuse(o, "BAD_SETTING", f.text);
        return false;
    }
    cJSON_Delete(object);
    return true;
}

bool admin_order_read_text(struct admin_order *o, const char *name, char *out, size_t cap)
{
    cJSON *object;
    out[0] = '\0';
    if (!read_object(o, &object))
        return false;
    const char *text = json_str(object, name);
    bool good = json_is_null_or_absent(object, name) || (text && strlen(text) < cap);
    if (good && text)
        (void)snprintf(out, cap, "%s", text);
    cJSON_Delete(object);
    if (!good)
        refuse(o, "BAD_TEXT", "A text is too long, or is none.");
    return good;
}

static bool read_digits(const char *text, int64_t *out)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 15 || text[digits] != '\0')
        return false;
    *out = strtoll(text, NULL, 10);
    return true;
}

bool admin_order_read_number(struct admin_order *o, const char *name, int64_t min, int64_t max,
                             int64_t *out)
{
    cJSON *object;
    int64_t in_body = *out, in_query = *out;
    const char *query = http_query(o->req, name);
    if (!read_object(o, &object))
        return false;
    bool given = !json_is_null_or_absent(object, name);
    bool good = (!given || json_int(object, name, &in_body)) &&
                (!query || read_digits(query, &in_query)) &&
                (!given || !query || in_body == in_query); /* two that differ: neither is meant */
    int64_t value = given ? in_body : in_query;
    cJSON_Delete(object);
    if (!good || ((given || query) && (value < min || value > max))) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "%s must be a whole number from %" PRId64 " to %" PRId64 ".", name, min,
                       max);
        refuse(o, "BAD_PARAMETER", text);
        return false;
    }
    *out = value;
    return true;
}

/* The answer ---------------------------------------------------------------------------------- */

void admin_order_answer(struct admin_order *o, int status, struct buf *body)
{
    if (o->changed) {
        event_directory_changed(o->s, o->event);
        queue_service_changed(o->s, o->event);
    }
    (void)http_set_header(o->req, "Cache-Control", "no-store");
    http_respond_json(o->req, status, body);
    buf_done(body);
    free(o);
}

void admin_order_failed(struct admin_order *o, int rc, const char *text)
{
    queue_http_failed(o->s, o->req, rc, text);
    free(o);
}

void admin_order_put_view(struct json_out *j, const char *event, const struct room_view *v)
{
    int64_t available = v->threshold - v->active, waiting = v->last_number - v->serving;
    json_put_str(j, "eventId", event);
    json_put_str(j, "title", v->title[0] ? v->title : "Unknown");
    json_put_str(j, "artist", v->artist);
    json_put_int(j, "queueSize", v->queue_size);
    json_put_int(j, "currentUsers", v->active);
    json_put_int(j, "threshold", v->threshold);
    json_put_int(j, "available", available > 0 ? available : 0);
    json_put_int(j, "parked", v->parked);
    json_put_bool(j, "paused", v->paused);
    json_put_bool(j, "closed", v->closed);
    json_put_str(j, "closedReason", v->closed_reason);
    json_put_int(j, "opensAt", v->opens_at_ms);
    json_put_bool(j, "registered", v->registered);
    json_put_bool(j, "restoring", v->restoring);
    json_put_int(j, "admittedLastMinute", v->admitted_last_minute);
    json_put_real(j, "admittedPerSecond", (double)v->admitted_last_minute / 60.0);
    json_put_bool(j, "roomActive", v->room_active);
    json_put_int(j, "serving", v->serving);
    json_put_int(j, "totalInQueue", v->last_number);
    json_put_int(j, "waitingCount", v->room_active && waiting > 0 ? waiting : 0);
}

static void on_view(const struct room_view *v, void *arg)
{
    struct admin_order *o = arg;
    if (v->rc != 0) {
        admin_order_failed(o, v->rc, v->text);
        return;
    }
    struct buf body;
    struct json_out j;
    buf_init(&body, BODY_MAX);
    json_begin(&j, &body);
    json_object(&j, NULL);
    admin_order_put_view(&j, o->event, v);
    json_end(&j);
    admin_order_answer(o, 200, &body);
}

void admin_order_look(struct admin_order *o)
{
    struct fault f;
    if (room_look(o->s->room, o->event, on_view, o, &f) != 0)
        admin_order_failed(o, f.rc, f.text);
}

static void on_configured(const struct room_view *v, void *arg)
{
    struct admin_order *o = arg;
    if (v->rc != 0) {
        admin_order_failed(o, v->rc, v->text);
        return;
    }
    o->changed = true;
    admin_order_look(o);
}

void admin_order_configure(struct admin_order *o)
{
    struct fault f;
    if (room_configure(o->s->room, o->event, o->actor, o->settings, on_configured, o, &f) != 0)
        admin_order_failed(o, f.rc, f.text);
}

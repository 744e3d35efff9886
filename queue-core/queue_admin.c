/* queue_admin.c - Tier 2: view, list, clear, threshold, pause, settings, register, close. */
#include "queue-core/queue_admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/admin_order.h"
#include "queue-core/event_list.h"
#include "queue-core/queue_http.h"
#include "queue-core/queue_service.h"
#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/identity.h"
#include "runtime/json.h"

enum { ANSWER_MAX = 4096, THRESHOLD_MAX = 10000000 };

/* One event ----------------------------------------------------------------------------------- */

static void on_view(struct http_request *req, void *arg)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    if (o)
        admin_order_start(o, admin_order_look);
}

static void clear_some(struct admin_order *o);

static void on_cleared(const struct room_pass *p, void *arg)
{
    struct admin_order *o = arg;
    if (p->rc != 0) {
        admin_order_failed(o, p->rc, p->text);
        return;
    }
    o->count += p->moved;
    if (p->more) {
        clear_some(o);
        return;
    }
    struct buf body;
    struct json_out j;
    buf_init(&body, ANSWER_MAX);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_str(&j, "eventId", o->event);
    json_put_int(&j, "cleared", o->count);
    json_put_str(&j, "message", "The queue is empty.");
    json_end(&j);
    o->changed = true;
    admin_order_answer(o, 200, &body);
}

static void clear_some(struct admin_order *o)
{
    struct fault f;
    if (room_clear(o->s->room, o->event, o->actor, on_cleared, o, &f) != 0)
        admin_order_failed(o, f.rc, f.text);
}

static void on_clear(struct http_request *req, void *arg)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    if (o)
        admin_order_start(o, clear_some);
}

static void on_threshold(struct http_request *req, void *arg)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    int64_t threshold = -1;
    char text[24];
    if (!o || !admin_order_read_number(o, "threshold", 0, THRESHOLD_MAX, &threshold))
        return;
    if (threshold < 0) {
        admin_order_failed(o, RC_REJECT, "threshold is missing");
        return;
    }
    (void)snprintf(text, sizeof text, "%lld", (long long)threshold);
    (void)admin_order_set(o, "threshold", text);
    admin_order_start(o, admin_order_configure);
}

static void set_one(struct http_request *req, void *arg, const char *name, const char *value)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    if (!o)
        return;
    (void)admin_order_set(o, name, value);
    admin_order_start(o, admin_order_configure);
}

static void on_pause(struct http_request *req, void *arg)
{
    set_one(req, arg, "paused", "1");
}

static void on_resume(struct http_request *req, void *arg)
{
    set_one(req, arg, "paused", "");
}

static void on_settings(struct http_request *req, void *arg)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    if (o && admin_order_read_settings(o))
        admin_order_start(o, admin_order_configure);
}

/* Makes an event known; the body may hold any settings. Again: changes them. */
static void on_register(struct http_request *req, void *arg)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    if (!o || !admin_order_read_settings(o))
        return;
    if (!admin_order_set(o, "registered", "1")) {
        admin_order_failed(o, RC_REJECT, "too many settings at once");
        return;
    }
    event_list_add(o->s, o->event);
    admin_order_configure(o);
}

static void close_event(struct admin_order *o)
{
    char reason[ROOM_TEXT_MAX + 1];
    struct fault f;
    if (!o || !admin_order_read_text(o, "reason", reason, sizeof reason))
        return;
    struct room_setting s = {"closedReason", reason[0] ? reason : "closed"};
    if (!room_setting_ok(&s, &f)) {
        admin_order_failed(o, RC_REJECT, f.text);
        return;
    }
    (void)admin_order_set(o, "closedReason", s.value);
    (void)admin_order_set(o, "closed", "1");
    admin_order_start(o, admin_order_configure);
}

static void on_close(struct http_request *req, void *arg)
{
    close_event(admin_order_new(queue_http_service(arg), req));
}

static void on_open(struct http_request *req, void *arg)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    if (!o)
        return;
    (void)admin_order_set(o, "closed", "");
    (void)admin_order_set(o, "closedReason", "");
    admin_order_start(o, admin_order_configure);
}

/* All events ---------------------------------------------------------------------------------- */

static void on_list(struct http_request *req, void *arg)
{
    struct queue_service *s = queue_http_service(arg);
    struct identity who;
    if (queue_http_admin(s, req, &who))
        event_list_answer(s, req);
}

/* The ticket service -------------------------------------------------------------------------- */

static void on_internal_close(struct http_request *req, void *arg)
{
    close_event(admin_order_internal(queue_http_service(arg), req));
}

static void on_left(const struct room_visit *v, void *arg)
{
    static const char *const NAMES[] = {
        [ROOM_QUEUED] = "queued", [ROOM_ACTIVE] = "active", [ROOM_PARKED] = "parked"};
    struct admin_order *o = arg;
    if (v->rc != 0) {
        admin_order_failed(o, v->rc, v->text);
        return;
    }
    bool was_here =
        v->status == ROOM_QUEUED || v->status == ROOM_ACTIVE || v->status == ROOM_PARKED;
    struct buf body;
    struct json_out j;
    buf_init(&body, ANSWER_MAX);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_str(&j, "eventId", o->event);
    json_put_str(&j, "userId", o->user);
    json_put_str(&j, "was", was_here ? NAMES[v->status] : "not_in_queue");
    json_end(&j);
    admin_order_answer(o, 200, &body);
}

static void end_slot(struct admin_order *o)
{
    struct fault f;
    if (room_leave(o->s->room, o->event, o->user, NULL, "sold", on_left, o, &f) != 0)
        admin_order_failed(o, f.rc, f.text);
}

/* The user's order is paid: the slot is free for the next one. */
static void on_internal_sold(struct http_request *req, void *arg)
{
    struct admin_order *o = admin_order_internal(queue_http_service(arg), req);
    if (!o || !admin_order_read_text(o, "userId", o->user, sizeof o->user))
        return;
    if (!room_user_ok(o->user)) {
        admin_order_failed(o, RC_REJECT, "userId is no user's id");
        return;
    }
    admin_order_start(o, end_slot);
}

#define BOTH(method, path, handler)                       \
    {method, "/api/queue/admin" path, handler, NULL},     \
    {                                                     \
        method, "/api/v1/queue/admin" path, handler, NULL \
    }
const struct http_route QUEUE_ADMIN_ROUTES[] = {
    BOTH(HTTP_GET, "", on_list),
    BOTH(HTTP_GET, "/{eventId}", on_view),
    BOTH(HTTP_POST, "/clear/{eventId}", on_clear),
    BOTH(HTTP_PUT, "/threshold/{eventId}", on_threshold),
    BOTH(HTTP_POST, "/threshold/{eventId}", on_threshold),
    BOTH(HTTP_POST, "/pause/{eventId}", on_pause),
    BOTH(HTTP_POST, "/resume/{eventId}", on_resume),
    BOTH(HTTP_PUT, "/settings/{eventId}", on_settings),
    BOTH(HTTP_POST, "/settings/{eventId}", on_settings),
    BOTH(HTTP_POST, "/register/{eventId}", on_register),
    BOTH(HTTP_POST, "/close/{eventId}", on_close),
    BOTH(HTTP_POST, "/open/{eventId}", on_open),
    {HTTP_POST, "/internal/queue/close/{eventId}", on_internal_close, NULL},
    {HTTP_POST, "/internal/queue/sold/{eventId}", on_internal_sold, NULL},
    {HTTP_GET, NULL, NULL, NULL}};

/* queue_api.c - check, status, heartbeat and leave: one script each, one answer each. */
#include "queue-core/queue_api.h"

#include <stdio.h>
#include <string.h>

#include "queue-core/admission.h"
#include "queue-core/event_directory.h"
#include "queue-core/queue_answer.h"
#include "queue-core/queue_http.h"
#include "queue-core/queue_metrics.h"
#include "queue-core/queue_service.h"
#include "queue-core/queue_visit.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/json.h"

enum call { CHECK, STATUS, HEARTBEAT, LEAVE };
enum { RETRY_AFTER_S = 30 };

/* {"error":{"code":…,"message":…,"retry_after":30}} */
static void refuse_newcomer(struct http_request *req, bool full)
{
    char body[256];
    int len = snprintf(body, sizeof body,
                       "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"retry_after\":%d}}",
                       full ? "QUEUE_FULL" : "WAIT_TOO_LONG",
                       full ? "The queue is full. Try again in a moment."
                            : "The wait would be too long. Try again later.",
                       RETRY_AFTER_S);
    (void)http_set_header(req, "Retry-After", "30");
    (void)http_set_header(req, "Cache-Control", "no-store");
    http_respond(req, full ? 503 : 429, "application/json", body, (size_t)len);
}

static void send_to_tier1(struct http_request *req, const char *event)
{
    char body[192];
    int len =
        snprintf(body, sizeof body,
                 "{\"error\":\"Waiting room pass required\",\"redirectTo\":\"/vwr/%s\"}", event);
    (void)http_set_header(req, "Cache-Control", "no-store");
    http_respond(req, 403, "application/json", body, (size_t)len);
}

static void answer_heartbeat(struct http_request *req, enum room_status status)
{
    char body[96];
    int len = snprintf(body, sizeof body, "{\"status\":\"%s\",\"queued\":%s}",
                       queue_answer_status(status), status == ROOM_QUEUED ? "true" : "false");
    (void)http_set_header(req, "Cache-Control", "no-store");
    http_respond(req, 200, "application/json", body, (size_t)len);
}

static void set_entry_token(struct queue_service *s, struct http_request *req,
                            const struct queue_answer *a)
{
    int64_t left_s = (a->expiry_ms - clock_wall_ms()) / 1000;
    queue_http_set_cookie(s, req, "urr-entry-token", a->entry_token, left_s > 0 ? left_s : 0);
    (void)http_set_header(req, "x-queue-entry-token", a->entry_token);
}

static void answer_view(struct queue_visit *v, const struct room_visit *r)
{
    struct queue_visit_texts texts;
    struct queue_answer a;
    struct buf *body = &v->service->scratch;
    const struct event_facts *facts = queue_visit_facts(v);
    if (!queue_visit_answer(v->service, v->event, v->user, r, facts, &texts, &a))
        a.status = ROOM_NOT_IN_QUEUE; /* the slot ends within this second */
    a.event_info = v->kind == CHECK;
    if (a.status == ROOM_ACTIVE)
        set_entry_token(v->service, v->req, &a);
    buf_reset(body);
    queue_answer_write(&a, facts, clock_wall_ms(), body);
    http_respond_json(v->req, 200, body);
}

static void on_visited(const struct room_visit *r, void *arg)
{
    struct queue_visit *v = arg;
    if (r->rc) {
        queue_http_failed(v->service, v->req, r->rc, r->text);
        queue_visit_free(v);
        return;
    }
    queue_metrics_visit(r->status);
    /* The threshold is read where the decision was made: there somebody may have come (back). */
    if (r->threshold >= 0 && (r->status == ROOM_QUEUED || r->status == ROOM_ACTIVE))
        admission_notice(v->service, v->event);
    if (r->threshold >= 0)
        event_directory_heed_epoch(v->service, queue_visit_facts(v));
    if (r->status == ROOM_NEED_TIER1)
        send_to_tier1(v->req, v->event);
    else if (r->status == ROOM_FULL || r->status == ROOM_TOO_LONG)
        refuse_newcomer(v->req, r->status == ROOM_FULL);
    else if (v->kind == HEARTBEAT)
        answer_heartbeat(v->req, r->status);
    else
        answer_view(v, r);
    queue_visit_free(v);
}

static void on_left(const struct room_visit *r, void *arg)
{
    static const char BODY[] = "{\"message\":\"You have left the queue.\"}";
    static const char NOBODY[] = "{\"message\":\"You were not in this queue.\"}";
    struct queue_visit *v = arg;
    if (r->rc) {
        queue_http_failed(v->service, v->req, r->rc, r->text);
    } else {
        const char *body = r->status == ROOM_NOT_IN_QUEUE ? NOBODY : BODY;
        queue_http_set_cookie(v->service, v->req, "urr-entry-token", "", 0);
        (void)http_set_header(v->req, "Cache-Control", "no-store");
        http_respond(v->req, 200, "application/json", body, strlen(body));
    }
    queue_visit_free(v);
}

static void visit(struct queue_visit *v)
{
    struct room *room = v->service->room;
    struct fault f;
    int rc;
    if (v->kind == LEAVE)
        rc = room_leave(room, v->event, v->user, &v->shown, "left", on_left, v, &f);
    else if (v->kind == CHECK)
        rc = room_join(room, v->event, v->user, &v->shown, on_visited, v, &f);
    else
        rc = room_poll(room, v->event, v->user, &v->shown, on_visited, v, &f);
    if (rc) {
        queue_http_failed(v->service, v->req, rc, f.text);
        queue_visit_free(v);
    }
}

static void on_check(struct http_request *req, void *arg)
{
    queue_visit_begin(req, arg, CHECK, visit);
}

static void on_status(struct http_request *req, void *arg)
{
    queue_visit_begin(req, arg, STATUS, visit);
}

static void on_heartbeat(struct http_request *req, void *arg)
{
    queue_visit_begin(req, arg, HEARTBEAT, visit);
}

static void on_leave(struct http_request *req, void *arg)
{
    queue_visit_begin(req, arg, LEAVE, visit);
}

#define BOTH(method, path, handler)                 \
    {method, "/api/queue" path, handler, NULL},     \
    {                                               \
        method, "/api/v1/queue" path, handler, NULL \
    }
const struct http_route QUEUE_API_ROUTES[] = {
    BOTH(HTTP_POST, "/check/{eventId}", on_check),
    BOTH(HTTP_GET, "/status/{eventId}", on_status),
    BOTH(HTTP_POST, "/heartbeat/{eventId}", on_heartbeat),
    BOTH(HTTP_POST, "/leave/{eventId}", on_leave),
    {HTTP_GET, NULL, NULL, NULL},
};

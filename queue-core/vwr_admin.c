/* vwr_admin.c - Tier 1, the operator's side: activate, deactivate, advance, status. */
#include "queue-core/admin_order.h"
#include "queue-core/advancer.h"
#include "queue-core/event_list.h"
#include "queue-core/queue_admin.h"
#include "queue-core/queue_http.h"
#include "queue-core/vwr_api.h"
#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"

enum { ANSWER_MAX = 4096, BATCH = 500, BATCH_MAX = 10000000 };

static void on_operated(const struct room_tier1 *t, void *arg)
{
    struct admin_order *o = arg;
    if (t->rc != 0) {
        admin_order_failed(o, t->rc, t->text);
        return;
    }
    struct buf body;
    struct json_out j;
    int64_t waiting = t->last_number - t->serving;
    advancer_changed(vwr_api_advancer(o->s), o->event, t);
    o->changed = true;
    buf_init(&body, ANSWER_MAX);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_str(&j, "eventId", o->event);
    json_put_bool(&j, "isActive", t->active);
    json_put_int(&j, "totalInQueue", t->last_number);
    json_put_int(&j, "serving", t->serving);
    json_put_int(&j, "waitingCount", t->active && waiting > 0 ? waiting : 0);
    json_put_int(&j, "moved", t->moved);
    json_end(&j);
    admin_order_answer(o, 200, &body);
}

static void operate(struct admin_order *o)
{
    struct fault f;
    if (room_operate(o->s->room, o->event, (enum room_action)o->action, o->actor, o->count,
                     on_operated, o, &f) != 0)
        admin_order_failed(o, f.rc, f.text);
}

static void start(struct http_request *req, void *arg, enum room_action action)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    if (!o)
        return;
    o->action = action;
    o->count = action == ROOM_ADVANCE ? BATCH : 0;
    if (action == ROOM_ADVANCE && !admin_order_read_number(o, "batchSize", 1, BATCH_MAX, &o->count))
        return;
    admin_order_start(o, operate);
}

static void on_activate(struct http_request *req, void *arg)
{
    start(req, arg, ROOM_ACTIVATE);
}

static void on_deactivate(struct http_request *req, void *arg)
{
    start(req, arg, ROOM_DEACTIVATE);
}

static void on_advance(struct http_request *req, void *arg)
{
    start(req, arg, ROOM_ADVANCE);
}

static void on_status(struct http_request *req, void *arg)
{
    struct admin_order *o = admin_order_new(queue_http_service(arg), req);
    if (o)
        admin_order_start(o, admin_order_look);
}

#define BOTH(method, path, handler)                     \
    {method, "/api/admin/vwr" path, handler, NULL},     \
    {                                                   \
        method, "/api/v1/admin/vwr" path, handler, NULL \
    }
const struct http_route VWR_ADMIN_ROUTES[] = {
    BOTH(HTTP_POST, "/activate/{eventId}", on_activate),
    BOTH(HTTP_POST, "/deactivate/{eventId}", on_deactivate),
    BOTH(HTTP_POST, "/advance/{eventId}", on_advance),
    BOTH(HTTP_GET, "/status/{eventId}", on_status),
    {HTTP_GET, NULL, NULL, NULL}};

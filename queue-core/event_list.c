/* event_list.c - the events an operator can choose from. */
#include "queue-core/event_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/admin_order.h"
#include "queue-core/queue_http.h"
#include "queue-core/queue_service.h"
#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/json.h"
#include "runtime/log.h"
#include "runtime/redis.h"

enum { CALL_MS = 2000, ANSWER_MAX = 1 << 20, EVENTS_MAX = 10000 };

/* One answer in the making: views come one after the other. */
struct listing {
    struct queue_service *s;
    struct http_request *req;
    struct buf body;
    struct json_out json;
    size_t count, at;
    bool more;
    char events[EVENT_LIST_MAX][ROOM_EVENT_MAX + 1];
};

static void on_added(const struct redis_result *res, void *arg)
{
    (void)arg;
    if (res->rc != 0)
        LOG_DEBUG("an event is not listed", LOG_STR("reason", res->text));
}

void event_list_add(struct queue_service *s, const char *event)
{
    struct fault f;
    (void)redis_command(s->redis, EVENT_LIST_KEY,
                        REDIS_ARGS(REDIS_STR("SADD"), REDIS_STR(EVENT_LIST_KEY), REDIS_STR(event)),
                        CALL_MS, on_added, NULL, &f);
}

static void fail(struct listing *l, int rc, const char *text)
{
    queue_http_failed(l->s, l->req, rc, text);
    buf_done(&l->body);
    free(l);
}

static void look_at_next(struct listing *l);

static void on_view(const struct room_view *v, void *arg)
{
    struct listing *l = arg;
    if (v->rc != 0) {
        fail(l, v->rc, v->text);
        return;
    }
    json_object(&l->json, NULL);
    admin_order_put_view(&l->json, l->events[l->at++], v);
    json_end(&l->json);
    look_at_next(l);
}

static void look_at_next(struct listing *l)
{
    struct fault f;
    if (l->at < l->count) {
        if (room_look(l->s->room, l->events[l->at], on_view, l, &f) != 0)
            fail(l, f.rc, f.text);
        return;
    }
    json_end(&l->json);
    json_put_bool(&l->json, "more", l->more);
    json_end(&l->json);
    (void)http_set_header(l->req, "Cache-Control", "no-store");
    http_respond_json(l->req, 200, &l->body);
    buf_done(&l->body);
    free(l);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The three sets live in different slots of a cluster: one SMEMBERS each, and doubles dropped. */
static void add(struct listing *l, const char *event)
{
    if (!room_event_ok(event))
        return;
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->events[i], event) == 0)
            return;
    if (l->count == EVENT_LIST_MAX)
        l->more = true;
    else
        (void)snprintf(l->events[l->count++], sizeof *l->events, "%s", event);
}

static void ask_sets(struct listing *l);

static void on_set(const struct redis_result *res, void *arg)
{
    struct listing *l = arg;
    if (res->rc != 0) {
        fail(l, res->rc, res->text);
        return;
    }
    for (size_t i = 0; i < redis_reply_count(res->reply) && i < EVENTS_MAX; i++) {
        const char *event = redis_reply_str(redis_reply_at(res->reply, i), NULL);
        if (event)
            add(l, event);
    }
    l->at++;
    ask_sets(l);
}

static void ask_sets(struct listing *l)
{
    static const char *const SETS[] = {"queue:active-events", "queue:vwr-events", EVENT_LIST_KEY};
    struct fault f;
    if (l->at < sizeof SETS / sizeof *SETS) {
        if (redis_command(l->s->redis, SETS[l->at],
                          REDIS_ARGS(REDIS_STR("SMEMBERS"), REDIS_STR(SETS[l->at])), CALL_MS,
                          on_set, l, &f) != 0)
            fail(l, f.rc, f.text);
        return;
    }
    qsort(l->events, l->count, sizeof *l->events, by_id);
    l->at = 0;
    look_at_next(l);
}

void event_list_answer(struct queue_service *s, struct http_request *req)
{
    struct listing *l = calloc(1, sizeof *l);
    if (!l) {
        queue_http_away(s, req);
        return;
    }
    l->s = s;
    l->req = req;
    buf_init(&l->body, ANSWER_MAX);
    json_begin(&l->json, &l->body);
    json_object(&l->json, NULL);
    json_array(&l->json, "events");
    ask_sets(l);
}

/* vwr_api.c - Tier 1 of urr-queue: assign, check, status. */
#include "queue-core/vwr_api.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/advancer.h"
#include "queue-core/event_directory.h"
#include "queue-core/queue_http.h"
#include "queue-core/queue_service.h"
#include "queue-core/request_guard.h"
#include "queue-core/vwr_token.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"

enum { ANSWER_MAX = 4096 };

const struct metric_def VWR_METRICS[] = {
    {"urr_vwr_assigned_total", METRIC_COUNTER, "Numbers given to visitors of the first room.", NULL,
     NULL, 0},
    {"urr_vwr_checks_total", METRIC_COUNTER,
     "Checks in the first room: admitted, waiting, closed, unknown.", "outcome", NULL, 0},
    {NULL, METRIC_COUNTER, NULL, NULL, NULL, 0},
};

struct vwr_api {
    struct advancer *advancer;
    struct metric *assigned, *admitted, *waiting, *closed, *unknown;
};

/* A request that waits for Redis. */
struct visit {
    struct queue_service *s;
    struct http_request *req;
    struct signed_number number; /* of a check */
    char user[ROOM_USER_MAX + 1];
};

static struct vwr_api *api_of(struct queue_service *s)
{
    return *queue_part_state(s, &VWR_PART);
}

struct advancer *vwr_api_advancer(struct queue_service *s)
{
    return api_of(s)->advancer;
}

int64_t vwr_api_next_poll_s(int64_t ahead)
{
    return ahead <= 500 ? 2 : ahead <= 2000 ? 5 : ahead <= 10000 ? 10 : 15;
}

int64_t vwr_api_wait_s(int64_t position, int64_t serving, double rate)
{
    int64_t ahead = position - serving;
    return ahead > 0 ? (int64_t)ceil((double)ahead / rate) : 0;
}

static struct visit *new_visit(struct queue_service *s, struct http_request *req)
{
    struct visit *v = calloc(1, sizeof *v);
    if (!v) {
        queue_http_away(s, req);
        return NULL;
    }
    v->s = s;
    v->req = req;
    return v;
}

static void send_json(struct http_request *req, int status, struct buf *body)
{
    (void)http_set_header(req, "Cache-Control", "no-store");
    http_respond_json(req, status, body);
    buf_done(body);
}

static void refuse_closed(struct http_request *req, const char *reason)
{
    http_error(req, 410, "EVENT_CLOSED", reason);
}

/* Before anything is written to Redis: ids that nobody registered must not leave keys there. What
 * is known just now is answered at once. */
static void ask_directory(struct visit *v, const char *event, event_directory_fn fn)
{
    struct fault f;
    enum event_answer answer;
    const struct event_facts *facts;
    if (event_directory_find(v->s, event, &answer, &facts)) {
        fn(answer, facts, v);
    } else if (event_directory_ask(v->s, event, fn, v, &f) != 0) {
        queue_http_away(v->s, v->req);
        free(v);
    }
}

/* Assign ------------------------------------------------------------------------------------------
 */

/* The body's userId; false: the refusal has been sent. */
static bool read_user(struct http_request *req, char out[ROOM_USER_MAX + 1])
{
    size_t len;
    const char *body = http_body(req, &len);
    cJSON *object = NULL;
    struct fault f;
    if (!request_guard_is_json(req)) {
        http_error(req, 415, "NOT_JSON", "Send {\"userId\": …} as application/json.");
        return false;
    }
    if (json_parse(body, len, &object, &f) != 0) {
        http_error(req, 400, "BAD_JSON", f.text);
        return false;
    }
    const char *user = json_str(object, "userId");
    bool good = room_user_ok(user);
    if (good)
        memcpy(out, user, strlen(user) + 1);
    else
        http_error(req, 400, "BAD_USER_ID",
                   "userId must be 1 to 128 of A-Z a-z 0-9 . _ @ + : and -.");
    cJSON_Delete(object);
    return good;
}

static void answer_assigned(struct visit *v, const struct room_tier1 *t)
{
    const char *event = http_param(v->req, "eventId");
    struct signed_number n = {t->epoch, t->number, clock_wall_ms() / 1000};
    char rid[SIGNED_NUMBER_LEN + 1];
    signed_number_encode(&v->s->numbers, SIGNED_REQUEST_ID, event, v->user, &n, rid);
    struct advancer_view view;
    double rate = advancer_peek(vwr_api_advancer(v->s), event, &view) ? view.rate
                                                                      : advancer_rate(&v->s->rules);
    struct buf body;
    struct json_out j;
    buf_init(&body, ANSWER_MAX);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_str(&j, "requestId", rid);
    json_put_str(&j, "eventId", event);
    json_put_int(&j, "position", t->number);
    json_put_int(&j, "servingCounter", t->serving);
    json_put_int(&j, "estimatedWait", vwr_api_wait_s(t->number, t->serving, rate));
    json_put_int(&j, "nextPoll", vwr_api_next_poll_s(t->number - t->serving));
    json_end(&j);
    metric_add(api_of(v->s)->assigned, 1);
    send_json(v->req, 200, &body);
}

static void on_assigned(const struct room_tier1 *t, void *arg)
{
    struct visit *v = arg;
    if (t->rc != 0)
        queue_http_failed(v->s, v->req, t->rc, t->text);
    else if (t->closed_reason[0])
        refuse_closed(v->req, t->closed_reason);
    else if (t->number == 0)
        http_error(v->req, 404, "ROOM_NOT_ACTIVE", "This event has no waiting room now: go on.");
    else
        answer_assigned(v, t);
    free(v);
}

static void assign_known(enum event_answer answer, const struct event_facts *facts, void *arg)
{
    struct visit *v = arg;
    struct fault f;
    (void)facts;
    if (answer == EVENT_UNKNOWN)
        queue_http_unknown_event(v->req);
    else if (answer == EVENT_AWAY)
        queue_http_away(v->s, v->req);
    else if (room_assign(v->s->room, http_param(v->req, "eventId"), on_assigned, v, &f) == 0)
        return;
    else
        queue_http_failed(v->s, v->req, f.rc, f.text);
    free(v);
}

static void on_assign(struct http_request *req, void *arg)
{
    struct queue_service *s = queue_http_service(arg);
    const char *event = queue_http_event(req);
    char user[ROOM_USER_MAX + 1];
    if (!event || !read_user(req, user))
        return;
    struct visit *v = new_visit(s, req);
    if (!v)
        return;
    memcpy(v->user, user, sizeof user);
    ask_directory(v, event, assign_known);
}

/* Check -------------------------------------------------------------------------------------------
 */

static void put_place(struct json_out *j, const struct signed_number *n,
                      const struct advancer_view *v, bool admitted)
{
    json_put_bool(j, "admitted", admitted);
    json_put_int(j, "position", n->number);
    json_put_int(j, "servingCounter", v->serving);
}

static void answer_admitted(struct queue_service *s, struct http_request *req,
                            const struct signed_number *n, const struct advancer_view *v)
{
    char token[VWR_TOKEN_MAX];
    struct fault f;
    struct buf body;
    struct json_out j;
    int64_t now_s = clock_wall_ms() / 1000;
    if (vwr_token_sign(s->vwr_keys, http_param(req, "eventId"), http_query(req, "userId"),
                       n->number, http_param(req, "requestId"), now_s, now_s + VWR_TOKEN_TTL_S,
                       token, sizeof token, &f) != 0) {
        queue_http_failed(s, req, f.rc, f.text);
        return;
    }
    buf_init(&body, ANSWER_MAX);
    json_begin(&j, &body);
    json_object(&j, NULL);
    put_place(&j, n, v, true);
    json_put_str(&j, "token", token);
    json_end(&j);
    queue_http_set_cookie(s, req, VWR_COOKIE, token, VWR_TOKEN_TTL_S);
    send_json(req, 200, &body);
}

static void answer_waiting(struct http_request *req, const struct signed_number *n,
                           const struct advancer_view *v)
{
    struct buf body;
    struct json_out j;
    int64_t ahead = n->number - v->serving;
    buf_init(&body, ANSWER_MAX);
    json_begin(&j, &body);
    json_object(&j, NULL);
    put_place(&j, n, v, false);
    if (v->closed_reason[0])
        json_put_str(&j, "closed", v->closed_reason);
    json_put_int(&j, "estimatedWait", vwr_api_wait_s(n->number, v->serving, v->rate));
    json_put_int(&j, "nextPoll", vwr_api_next_poll_s(ahead));
    json_end(&j);
    send_json(req, 200, &body);
}

static void answer_check(struct queue_service *s, struct http_request *req,
                         const struct signed_number *n, const struct advancer_view *v)
{
    struct vwr_api *api = api_of(s);
    if (v->closed_reason[0]) {
        metric_add(api->closed, 1);
        answer_waiting(req, n, v);
    } else if (!v->active || n->number <= v->serving) {
        metric_add(api->admitted, 1);
        answer_admitted(s, req, n, v);
    } else {
        metric_add(api->waiting, 1);
        answer_waiting(req, n, v);
    }
}

static void on_check_view(int rc, const struct advancer_view *view, void *arg)
{
    struct visit *v = arg;
    if (rc != 0)
        queue_http_away(v->s, v->req);
    else
        answer_check(v->s, v->req, &v->number, view);
    free(v);
}

static void on_check(struct http_request *req, void *arg)
{
    struct queue_service *s = queue_http_service(arg);
    const char *event = queue_http_event(req), *user = http_query(req, "userId");
    struct signed_number n;
    struct advancer_view view;
    struct fault f;
    if (!event)
        return;
    if (!room_user_ok(user)) {
        http_error(req, 400, "BAD_USER_ID",
                   "userId must be 1 to 128 of A-Z a-z 0-9 . _ @ + : and -.");
        return;
    }
    /* Signed for this event: it is one of ours, nobody need be asked whether it exists. */
    if (signed_number_verify(&s->numbers, SIGNED_REQUEST_ID, event, user,
                             http_param(req, "requestId"), clock_wall_ms() / 1000, &n) != 0) {
        metric_add(api_of(s)->unknown, 1);
        http_error(req, 404, "UNKNOWN_REQUEST",
                   "This number is unknown or too old: get a new one.");
        return;
    }
    if (advancer_peek(vwr_api_advancer(s), event, &view)) {
        answer_check(s, req, &n, &view);
        return;
    }
    struct visit *v = new_visit(s, req);
    if (!v)
        return;
    v->number = n;
    if (advancer_ask(vwr_api_advancer(s), event, on_check_view, v, &f) != 0) {
        queue_http_away(s, req);
        free(v);
    }
}

/* Status ------------------------------------------------------------------------------------------
 */

static void answer_status(struct http_request *req, const struct advancer_view *v)
{
    struct buf body;
    struct json_out j;
    int64_t waiting = v->last_number - v->serving;
    buf_init(&body, ANSWER_MAX);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_str(&j, "eventId", http_param(req, "eventId"));
    json_put_bool(&j, "isActive", v->active);
    json_put_int(&j, "totalInQueue", v->last_number);
    json_put_int(&j, "serving", v->serving);
    json_put_int(&j, "waitingCount", v->active && waiting > 0 ? waiting : 0);
    if (v->closed_reason[0])
        json_put_str(&j, "closed", v->closed_reason);
    json_end(&j);
    send_json(req, 200, &body);
}

static void on_status_view(int rc, const struct advancer_view *view, void *arg)
{
    struct visit *v = arg;
    if (rc != 0)
        queue_http_away(v->s, v->req);
    else
        answer_status(v->req, view);
    free(v);
}

static void status_known(enum event_answer answer, const struct event_facts *facts, void *arg)
{
    struct visit *v = arg;
    struct fault f;
    (void)facts;
    if (answer == EVENT_UNKNOWN)
        queue_http_unknown_event(v->req);
    else if (answer == EVENT_AWAY ||
             advancer_ask(vwr_api_advancer(v->s), http_param(v->req, "eventId"), on_status_view, v,
                          &f) != 0)
        queue_http_away(v->s, v->req);
    else
        return;
    free(v);
}

static void on_status(struct http_request *req, void *arg)
{
    struct queue_service *s = queue_http_service(arg);
    const char *event = queue_http_event(req);
    struct advancer_view view;
    if (!event)
        return;
    if (advancer_peek(vwr_api_advancer(s), event, &view)) {
        answer_status(req, &view);
        return;
    }
    struct visit *v = new_visit(s, req);
    if (v)
        ask_directory(v, event, status_known);
}

/* The gate strips /vwr-api; without a gate both spellings are ours. */
#define BOTH(method, path, handler)                \
    {method, "/vwr" path, handler, NULL},          \
    {                                              \
        method, "/vwr-api/vwr" path, handler, NULL \
    }
const struct http_route VWR_ROUTES[] = {BOTH(HTTP_POST, "/assign/{eventId}", on_assign),
                                        BOTH(HTTP_GET, "/check/{eventId}/{requestId}", on_check),
                                        BOTH(HTTP_GET, "/status/{eventId}", on_status),
                                        {HTTP_GET, NULL, NULL, NULL}};

/* The part ----------------------------------------------------------------------------------------
 */

static struct metric *checks(const char *outcome)
{
    return metrics_series(&VWR_METRICS[1], (const char *[]){outcome});
}

/* Somebody changed a room, here or elsewhere: known now, not at the next tick. */
static void on_changed(const char *data, size_t len, void *arg)
{
    struct vwr_api *api = arg;
    char event[ROOM_EVENT_MAX + 1];
    if (!data || len > ROOM_EVENT_MAX)
        return; /* missed messages: the tick tells */
    memcpy(event, data, len);
    event[len] = '\0';
    advancer_changed(api->advancer, event, NULL);
}

static int vwr_open(struct queue_service *s, struct fault *f)
{
    struct vwr_api *api = calloc(1, sizeof *api);
    if (!api)
        return fault_set(f, RC_FATAL, "no memory for the first room");
    *queue_part_state(s, &VWR_PART) = api;
    api->assigned = metrics_series(&VWR_METRICS[0], NULL);
    api->admitted = checks("admitted");
    api->waiting = checks("waiting");
    api->closed = checks("closed");
    api->unknown = checks("unknown");
    int rc = advancer_new(s->loop, s->redis, s->room, advancer_rate(&s->rules), &api->advancer, f);
    return rc == 0 ? queue_service_listen(s, QUEUE_CHANNEL_CHANGED, on_changed, api, f) : rc;
}

static void vwr_close(struct queue_service *s)
{
    struct vwr_api *api = api_of(s);
    if (!api)
        return;
    advancer_free(api->advancer);
    free(api);
    *queue_part_state(s, &VWR_PART) = NULL;
}

const struct queue_part VWR_PART = {"vwr", vwr_open, vwr_close};

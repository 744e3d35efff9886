/* queue_visit.c - from a request to a visit, and from the room's answer to what is told. */
#include "queue-core/queue_visit.h"

#include <stdlib.h>
#include <string.h>

#include "queue-core/event_directory.h"
#include "queue-core/queue_http.h"
#include "queue-core/queue_service.h"
#include "queue-core/vwr_token.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/identity.h"

static const char *header_or(struct http_request *req, const char *header, const char *other)
{
    const char *text = http_header(req, header);
    return text ? text : other;
}

static void read_shown(struct queue_visit *v, int64_t now_s)
{
    struct queue_service *s = v->service;
    struct http_request *req = v->req;
    struct room_shown *out = &v->shown;
    struct fault f;
    struct signed_number place;
    struct vwr_claim claim;
    int64_t exp_s;
    const char *text = header_or(req, "x-queue-place", http_query(req, "place"));
    if (text && signed_number_verify(&s->numbers, SIGNED_PLACE, v->event, v->user, text, now_s,
                                     &place) == 0) {
        out->place_epoch = place.epoch;
        out->place_number = place.number;
    }
    text = header_or(req, "x-queue-entry-token", http_cookie(req, "urr-entry-token"));
    if (text && *text &&
        entry_token_verify(s->entry_keys, text, v->event, v->user, now_s, &exp_s, &f) == 0)
        out->token_expiry_ms = exp_s * 1000;
    text = header_or(req, "x-vwr-token", http_cookie(req, "urr-vwr-token"));
    if (text && *text &&
        vwr_token_verify(s->vwr_keys, &s->numbers, text, v->event, now_s, &claim, &f) == 0) {
        out->tier1_epoch = claim.epoch;
        out->tier1_number = claim.number;
    }
}

static void proceed(enum event_answer answer, const struct event_facts *facts, void *arg)
{
    struct queue_visit *v = arg;
    (void)facts;
    if (answer == EVENT_KNOWN) {
        v->go(v);
        return;
    }
    if (answer == EVENT_UNKNOWN)
        queue_http_unknown_event(v->req);
    else
        queue_http_away(v->service, v->req);
    queue_visit_free(v);
}

void queue_visit_begin(struct http_request *req, void *worker, int kind,
                       void (*go)(struct queue_visit *v))
{
    struct queue_service *s = queue_http_service(worker);
    struct identity who;
    struct fault f;
    enum event_answer answer;
    const struct event_facts *facts;
    const char *event = queue_http_event(req);
    if (!event || !queue_http_user(s, req, &who))
        return;
    struct queue_visit *v = calloc(1, sizeof *v);
    if (!v) {
        queue_http_away(s, req);
        return;
    }
    v->service = s;
    v->req = req;
    v->event = event;
    v->kind = kind;
    v->go = go;
    memcpy(v->user, who.user_id, strlen(who.user_id) + 1);
    read_shown(v, clock_wall_ms() / 1000);
    if (event_directory_find(s, event, &answer, &facts)) {
        proceed(answer, facts, v);
    } else if (event_directory_ask(s, event, proceed, v, &f) != 0) {
        queue_http_away(s, req);
        queue_visit_free(v);
    }
}

void queue_visit_free(struct queue_visit *v)
{
    free(v);
}

const struct event_facts *queue_visit_facts(const struct queue_visit *v)
{
    enum event_answer answer;
    const struct event_facts *facts;
    return event_directory_find(v->service, v->event, &answer, &facts) ? facts : NULL;
}

bool queue_visit_answer(struct queue_service *s, const char *event, const char *user,
                        const struct room_visit *r, const struct event_facts *facts,
                        struct queue_visit_texts *texts, struct queue_answer *out)
{
    int64_t now_s = clock_wall_ms() / 1000;
    struct fault f;
    *out = (struct queue_answer){.status = r->status,
                                 .position = r->position,
                                 .queue_size = r->queue_size,
                                 .active = r->active,
                                 .threshold = r->threshold,
                                 .expiry_ms = r->expiry_ms,
                                 .reason = r->reason};
    if (out->threshold < 0 && facts && facts->looked)
        out->threshold = facts->threshold;
    if (r->number > 0) {
        const struct signed_number n = {r->place_epoch, r->number, now_s};
        signed_number_encode(&s->numbers, SIGNED_PLACE, event, user, &n, texts->place);
        out->place = texts->place;
    }
    if (r->status != ROOM_ACTIVE)
        return true;
    out->entry_token = texts->token;
    return entry_token_sign(s->entry_keys, event, user, now_s, r->expiry_ms / 1000, texts->token,
                            sizeof texts->token, &f) == 0;
}

/* queue_stream.c - opens streams, runs the rounds, and tells what changed. */
#include "queue-core/queue_stream.h"

#include <stdlib.h>
#include <string.h>

#include "queue-core/admission.h"
#include "queue-core/event_directory.h"
#include "queue-core/queue_answer.h"
#include "queue-core/queue_http.h"
#include "queue-core/queue_metrics.h"
#include "queue-core/queue_service.h"
#include "queue-core/queue_stream_table.h"
#include "queue-core/queue_visit.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/loop.h"

enum { EVENT_BYTES = 4096, MIN_GAP_MS = 2, MAX_LOOKS = 64 };

struct queue_streams {
    struct queue_service *service; /* NULL: closing, the last stream's end frees this */
    struct stream_table *table;
    struct loop_timer *timer;
    uint32_t looks; /* under way */
    uint32_t per_user;
    bool walking, again; /* a round is under way; another one is wanted at once */
    int64_t begun_ms, gap_ms;
    struct buf text;
};

/* A look at some streams of one event. */
struct look {
    struct queue_streams *streams;
    uint32_t count;
    struct stream *list[STREAM_BATCH];
};

/* Telling ------------------------------------------------------------------------------------- */

static const struct event_facts *facts_of(struct queue_streams *q, const char *event)
{
    enum event_answer answer;
    const struct event_facts *facts;
    return event_directory_find(q->service, event, &answer, &facts) ? facts : NULL;
}

/* A client too far behind is cut by the server: it comes back and is told anew. */
static void send_answer(struct queue_streams *q, struct stream *s, const struct queue_answer *a,
                        const struct event_facts *facts)
{
    static const char *const NAMES[] = {[QUEUE_EVENT_POSITION] = "position",
                                        [QUEUE_EVENT_ADMITTED] = "admitted",
                                        [QUEUE_EVENT_CLOSED] = "closed"};
    enum queue_event event = a->status == ROOM_QUEUED   ? QUEUE_EVENT_POSITION
                             : a->status == ROOM_ACTIVE ? QUEUE_EVENT_ADMITTED
                                                        : QUEUE_EVENT_CLOSED;
    buf_reset(&q->text);
    queue_answer_write(a, facts, clock_wall_ms(), &q->text);
    if (!s->http || q->text.failed)
        return;
    s->told_ms = loop_now_ms(q->service->loop);
    s->position = a->position;
    s->active = a->status == ROOM_ACTIVE;
    s->expiry_ms = a->expiry_ms;
    queue_metrics_sent(event);
    if (http_stream_send(s->http, NAMES[event], NULL, buf_text(&q->text)) == 0 &&
        event == QUEUE_EVENT_CLOSED)
        http_stream_close(s->http);
}

/* Tells what the room said, whatever was told before. */
static void tell_visit(struct queue_streams *q, struct stream *s, const struct room_visit *r,
                       bool with_place)
{
    struct queue_visit_texts texts;
    struct queue_answer a;
    const char *event = s->event->id;
    const struct event_facts *facts = facts_of(q, event);
    if (!queue_visit_answer(q->service, event, s->user, r, facts, &texts, &a))
        a.status = ROOM_NOT_IN_QUEUE;
    if (!with_place)
        a.place = NULL;
    a.event_info = with_place;
    if (r->number > 0) {
        s->place_epoch = r->place_epoch;
        s->number = r->number;
    }
    send_answer(q, s, &a, facts);
}

/* Redis does not know the user any more: left, cleared, the slot's end; or Redis lost it, and the
 * place brings it back. */
static void on_asked_again(const struct room_visit *r, void *arg)
{
    struct stream *s = arg;
    if (s->http && r->rc == 0) {
        if (r->status == ROOM_QUEUED || r->status == ROOM_ACTIVE)
            admission_notice(s->owner->service, s->event->id);
        tell_visit(s->owner, s, r, true);
    }
    stream_table_unpin(s);
}

static void ask_again(struct queue_streams *q, struct stream *s)
{
    struct fault f;
    const struct room_shown shown = {.place_epoch = s->place_epoch,
                                     .place_number = s->number,
                                     .token_expiry_ms = s->active ? s->expiry_ms : 0};
    s->pins++;
    if (room_poll(q->service->room, s->event->id, s->user, &shown, on_asked_again, s, &f) != 0)
        stream_table_unpin(s); /* the next round asks again */
}

static void tell_watched(struct queue_streams *q, struct stream *s, const struct room_watch *w,
                         const struct room_watched *u)
{
    bool due = loop_now_ms(q->service->loop) - s->told_ms >= STREAM_REPEAT_MS;
    struct room_visit r = {.status = u->status,
                           .position = u->position,
                           .queue_size = w->queue_size,
                           .active = w->active,
                           .threshold = -1,
                           .expiry_ms = u->expiry_ms,
                           .reason = w->closed_reason};
    if (u->status != ROOM_ACTIVE && w->closed_reason[0])
        r.status = ROOM_CLOSED;
    else if (u->status == ROOM_NOT_IN_QUEUE) {
        ask_again(q, s);
        return;
    }
    if (r.status == ROOM_QUEUED && !s->active && s->position == u->position && !due)
        return;
    if (r.status == ROOM_ACTIVE && s->active && s->expiry_ms == u->expiry_ms && !due)
        return;
    tell_visit(q, s, &r, false);
}

/* Looking ------------------------------------------------------------------------------------- */

static void end_look(struct look *l)
{
    for (uint32_t i = 0; i < l->count; i++)
        stream_table_unpin(l->list[i]);
    l->streams->looks--;
    free(l);
}

static void on_watched(const struct room_watch *w, void *arg)
{
    struct look *l = arg;
    for (uint32_t i = 0; w->rc == 0 && i < l->count && i < w->count; i++)
        if (l->list[i]->http)
            tell_watched(l->streams, l->list[i], w, &w->users[i]);
    end_look(l);
}

static struct look *new_look(struct queue_streams *q)
{
    struct look *l = q->looks < MAX_LOOKS ? malloc(sizeof *l) : NULL;
    if (!l)
        return NULL;
    l->streams = q;
    l->count = 0;
    q->looks++;
    return l;
}

/* Takes the look, whose streams are pinned and of one event. */
static void send_look(struct queue_streams *q, struct look *l)
{
    const char *users[STREAM_BATCH];
    struct fault f;
    for (uint32_t i = 0; i < l->count; i++)
        users[i] = l->list[i]->user;
    if (l->count == 0 || room_watch(q->service->room, l->list[0]->event->id, users, l->count,
                                    on_watched, l, &f) != 0)
        end_look(l);
}

/* Rounds -------------------------------------------------------------------------------------- */

static void begin_round(struct queue_streams *q)
{
    uint32_t batches = stream_table_count(q->table) / STREAM_BATCH + 1;
    q->walking = true;
    q->again = false;
    q->begun_ms = loop_now_ms(q->service->loop);
    q->gap_ms = STREAM_ROUND_MS * 3 / 4 / batches; /* spread, and done before the next is due */
    q->gap_ms = q->gap_ms > MIN_GAP_MS ? q->gap_ms : MIN_GAP_MS;
    stream_table_begin(q->table);
}

static void end_round(struct queue_streams *q)
{
    int64_t took = loop_now_ms(q->service->loop) - q->begun_ms;
    int64_t wait = STREAM_ROUND_MS > took ? STREAM_ROUND_MS - took : MIN_GAP_MS;
    q->walking = false;
    queue_metrics_round((double)took / 1000);
    if (stream_table_count(q->table) > 0)
        loop_timer_start(q->timer, q->again ? MIN_GAP_MS : wait, 0);
}

/* One batch per turn, so that requests pass in between. */
static void on_timer(void *arg)
{
    struct queue_streams *q = arg;
    if (!q->walking)
        begin_round(q);
    struct look *l = new_look(q);
    if (l && (l->count = stream_table_step(q->table, l->list, STREAM_BATCH)) == 0) {
        end_look(l);
        end_round(q);
        return;
    }
    if (l)
        send_look(q, l);
    loop_timer_start(q->timer, q->again ? MIN_GAP_MS : q->gap_ms, 0);
}

static void round_now(struct queue_streams *q)
{
    if (stream_table_count(q->table) == 0)
        return;
    q->again = true;
    loop_timer_start(q->timer, 0, 0);
}

static void on_changed(const char *data, size_t len, void *arg)
{
    (void)data;
    (void)len;
    round_now(arg);
}

static struct look *gather(struct queue_streams *q, struct look *l, struct stream *s)
{
    for (; s; s = stream_table_same(s)) {
        if (l && l->count == STREAM_BATCH) {
            send_look(q, l);
            l = NULL;
        }
        if (!l && !(l = new_look(q)))
            return NULL; /* the round will find them */
        s->pins++;
        l->list[l->count++] = s;
    }
    return l;
}

/* "event user user …" */
static void on_promoted(const char *data, size_t len, void *arg)
{
    struct queue_streams *q = arg;
    struct look *l = NULL;
    char event[ROOM_EVENT_MAX + 1], user[ROOM_USER_MAX + 1];
    size_t n = data ? strcspn(data, " ") : 0;
    if (!data) {
        round_now(q); /* messages may have been missed */
        return;
    }
    if (n == 0 || n > ROOM_EVENT_MAX || n >= len || stream_table_count(q->table) == 0)
        return;
    memcpy(event, data, n);
    event[n] = '\0';
    for (const char *at = data + n; *at == ' '; at += n) {
        at++;
        n = strcspn(at, " ");
        if (n == 0 || n > ROOM_USER_MAX)
            continue;
        memcpy(user, at, n);
        user[n] = '\0';
        l = gather(q, l, stream_table_find(q->table, event, user));
    }
    if (l)
        send_look(q, l);
}

/* Opening ------------------------------------------------------------------------------------- */

static void free_streams(struct queue_streams *q)
{
    stream_table_free(q->table);
    buf_done(&q->text);
    free(q);
}

static void on_closed(struct http_stream *http, void *arg)
{
    struct stream *s = arg;
    struct queue_streams *q = s->owner;
    (void)http;
    queue_metrics_streams(-1);
    stream_table_close(q->table, s);
    if (!q->service && stream_table_count(q->table) == 0)
        free_streams(q);
}

/* One user's tabs are few; more of them are a mistake or worse. */
static void make_room(struct queue_streams *q, const char *event, const char *user)
{
    struct stream *s = stream_table_find(q->table, event, user), *oldest = s;
    uint32_t count = 0;
    for (; s; s = stream_table_same(s)) {
        oldest = s;
        count++;
    }
    if (oldest && count >= q->per_user && oldest->http)
        http_stream_close(oldest->http);
}

static void start_stream(struct queue_visit *v, const struct room_visit *r)
{
    struct queue_streams *q = v->service->streams;
    make_room(q, v->event, v->user);
    struct stream *s = stream_table_add(q->table, v->event, v->user);
    if (!s) {
        queue_http_away(v->service, v->req);
        return;
    }
    s->owner = q;
    s->http = http_stream_start(v->req, on_closed, s);
    if (!s->http) {
        stream_table_close(q->table, s);
        return;
    }
    queue_metrics_streams(1);
    tell_visit(q, s, r, true);
    if (stream_table_count(q->table) == 1)
        loop_timer_start(q->timer, STREAM_ROUND_MS, 0);
}

static void on_opened(const struct room_visit *r, void *arg)
{
    struct queue_visit *v = arg;
    if (r->rc) {
        queue_http_failed(v->service, v->req, r->rc, r->text);
    } else if (r->status == ROOM_QUEUED || r->status == ROOM_ACTIVE || r->status == ROOM_CLOSED) {
        if (r->threshold >= 0 && r->status != ROOM_CLOSED)
            admission_notice(v->service, v->event);
        start_stream(v, r);
    } else {
        http_error(v->req, 409, "NOT_IN_QUEUE", "Join first: POST /api/queue/check/{eventId}.");
    }
    queue_visit_free(v);
}

static void open_visit(struct queue_visit *v)
{
    struct fault f;
    int rc = room_poll(v->service->room, v->event, v->user, &v->shown, on_opened, v, &f);
    if (rc) {
        queue_http_failed(v->service, v->req, rc, f.text);
        queue_visit_free(v);
    }
}

static void on_stream(struct http_request *req, void *arg)
{
    queue_visit_begin(req, arg, 0, open_visit);
}

const struct http_route QUEUE_STREAM_ROUTES[] = {
    {HTTP_GET, "/api/queue/stream/{eventId}", on_stream, NULL},
    {HTTP_GET, "/api/v1/queue/stream/{eventId}", on_stream, NULL},
    {HTTP_GET, "/events/{eventId}/tickets/waiting", on_stream, NULL},
    {HTTP_GET, NULL, NULL, NULL},
};

static int open_streams(struct queue_service *s, struct fault *f)
{
    struct queue_streams *q = calloc(1, sizeof *q);
    if (!q || !(q->table = stream_table_new())) {
        free(q);
        return fault_set(f, RC_FATAL, "no memory for the streams");
    }
    q->service = s;
    q->per_user = (uint32_t)config_int(s->config, "QUEUE_STREAMS_PER_USER");
    buf_init(&q->text, EVENT_BYTES);
    s->streams = q;
    int rc = loop_timer_new(s->loop, on_timer, q, &q->timer, f);
    if (rc == 0)
        rc = queue_service_listen(s, QUEUE_CHANNEL_PROMOTED, on_promoted, q, f);
    return rc == 0 ? queue_service_listen(s, QUEUE_CHANNEL_CHANGED, on_changed, q, f) : rc;
}

/* Streams that the drain has not ended are cut by the HTTP server, after this. */
static void close_streams(struct queue_service *s)
{
    struct queue_streams *q = s->streams;
    if (!q)
        return;
    loop_timer_free(q->timer);
    q->service = NULL;
    s->streams = NULL;
    if (stream_table_count(q->table) == 0)
        free_streams(q);
}

const struct queue_part QUEUE_STREAM_PART = {"streams", open_streams, close_streams};

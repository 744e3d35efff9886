/* http_stream.c - server-sent events: one-way answers that stay open, and the paced broadcast.
 *
 * A stream's bytes go to the kernel at once; what it does not take waits in the connection's
 * output, at most max_stream_bytes of it. A client that is further behind is cut: it reconnects and
 * catches up, instead of making the server remember for it.
 *
 * Every end of a stream passes through http_stream_cut(), which moves it to the list `ended`; the
 * reaper calls on_close from there. So on_close never runs inside http_stream_send() or a broadcast
 * visit. */
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/http_internal.h"
#include "runtime/loop.h"

enum { TICK_MS = 2, SKIPS_PER_VISIT = 64, MAX_PASSES = 256 };

/* One topic's broadcast. New streams enter the list at its head, behind every cursor: a pass visits
 * those that were there when it began. */
struct http_broadcast_pass {
    struct http_broadcast_pass *next;
    struct http_stream *cursor; /* NULL: the pass has ended */
    http_stream_fn fn;
    void *arg;
    uint32_t per_tick;
    bool again; /* asked for meanwhile, with the fn and arg below */
    http_stream_fn again_fn;
    void *again_arg;
    char topic[HTTP_TOPIC_LEN + 1];
};

struct http_stream *http_stream_start(struct http_request *req, http_stream_fn on_close, void *arg)
{
    struct http_server *s = req->server;
    struct http_conn *c = req->conn;
    struct http_stream *stream = calloc(1, sizeof *stream);
    if (!stream || !s) {
        free(stream);
        http_error(req, 503, "OVERLOADED", "There is no room for a stream.");
        return NULL;
    }
    *stream = (struct http_stream){.server = s, .on_close = on_close, .arg = arg};
    LIST_INSERT_HEAD(&s->streams, stream, link);
    s->stream_count++;
    http_metrics_streams(1);
    http_response_record(req, 200, 0);
    bool only_head = req->message.verb == HTTP_VERB_HEAD;
    TAILQ_REMOVE(&s->under_way, req, link);
    if (c) {
        if (!req->has_cache_control)
            (void)http_set_header(req, "Cache-Control", "no-cache");
        (void)http_set_header(req, "X-Accel-Buffering", "no"); /* nginx passes events on at once */
        http_response_head(req, http_conn_out(c), 200, "text/event-stream");
        c->under_way = NULL;
        c->close_after = true;
        c->stream = stream;
        stream->conn = c;
    }
    http_request_release(req);
    if (!c) {
        http_stream_cut(stream);
    } else if (only_head || s->draining) {
        http_stream_close(stream);
    } else {
        http_conn_answered(c);
    }
    return stream;
}

void http_stream_cut(struct http_stream *stream)
{
    struct http_server *s = stream->server;
    for (struct http_broadcast_pass *p = s->passes; p; p = p->next)
        if (p->cursor == stream)
            p->cursor = LIST_NEXT(stream, link);
    LIST_REMOVE(stream, link);
    LIST_INSERT_HEAD(&s->ended, stream, link);
    stream->conn = NULL;
    s->stream_count--;
    http_metrics_streams(-1);
    http_server_reap_soon(s);
}

void http_stream_reap(struct http_server *s)
{
    struct http_stream *stream;
    while ((stream = LIST_FIRST(&s->ended)) != NULL) {
        LIST_REMOVE(stream, link);
        if (stream->on_close)
            stream->on_close(stream, stream->arg);
        free(stream);
    }
}

static void put_line(struct buf *b, const char *field, const char *value, size_t len)
{
    (void)buf_puts(b, field);
    (void)buf_append(b, value, len);
    (void)buf_putc(b, '\n');
}

/* A line break of any kind inside data starts another "data:" line. */
static void put_data(struct buf *b, const char *data)
{
    for (;;) {
        size_t len = strcspn(data, "\r\n");
        put_line(b, "data: ", data, len);
        if (data[len] == '\0')
            return;
        data += len + (data[len] == '\r' && data[len + 1] == '\n' ? 2 : 1);
    }
}

static void encode(struct buf *b, const char *event, const char *id, const char *data)
{
    if (id)
        put_line(b, "id: ", id, strcspn(id, "\r\n"));
    if (event)
        put_line(b, "event: ", event, strcspn(event, "\r\n"));
    put_data(b, data);
    (void)buf_putc(b, '\n');
}

int http_stream_send(struct http_stream *stream, const char *event, const char *id,
                     const char *data)
{
    struct http_conn *c = stream->conn;
    if (!c)
        return RC_RETRY;
    struct http_server *s = stream->server;
    size_t unsent = http_conn_unsent(c);
    size_t room = s->limits.max_stream_bytes > unsent ? s->limits.max_stream_bytes - unsent : 0;
    struct buf *out = http_conn_out(c);
    size_t before = out->len, max = out->max;
    if (before + room < max)
        out->max = before + room;
    encode(out, event, id, data);
    out->max = max;
    if (out->failed) {
        out->failed = false;
        out->len = before;
        http_metrics_refused(HTTP_REFUSED_STREAM);
        http_conn_close(c);
        return RC_RETRY;
    }
    if (!c->processing && !c->write_on)
        http_conn_flush(c);
    return 0;
}

size_t http_stream_pending(const struct http_stream *stream)
{
    return stream->conn ? http_conn_unsent(stream->conn) : 0;
}

void http_stream_close(struct http_stream *stream)
{
    struct http_conn *c = stream->conn;
    if (!c)
        return;
    c->stream = NULL;
    http_stream_cut(stream);
    http_conn_end(c);
}

void http_stream_set_topic(struct http_stream *stream, const char *topic)
{
    size_t len = strnlen(topic, HTTP_TOPIC_LEN);
    memcpy(stream->topic, topic, len);
    stream->topic[len] = '\0';
}

/* Visits at most per_tick streams of the pass's topic; skipping others is cheap, but not free. */
static void visit_some(struct http_broadcast_pass *p)
{
    uint32_t visits = 0;
    uint64_t looks = 0;
    while (p->cursor && visits < p->per_tick && looks++ < (uint64_t)p->per_tick * SKIPS_PER_VISIT) {
        struct http_stream *stream = p->cursor;
        p->cursor = LIST_NEXT(stream, link); /* first: fn may close the stream */
        if (strcmp(stream->topic, p->topic) == 0) {
            p->fn(stream, p->arg);
            visits++;
        }
    }
}

/* Starts what was asked for during the pass. False: nothing was. */
static bool begin_again(struct http_server *s, struct http_broadcast_pass *p)
{
    if (!p->again)
        return false;
    p->again = false;
    p->fn = p->again_fn;
    p->arg = p->again_arg;
    p->cursor = LIST_FIRST(&s->streams);
    return p->cursor != NULL;
}

static void on_tick(void *arg)
{
    struct http_server *s = arg;
    for (struct http_broadcast_pass *p = s->passes; p; p = p->next)
        visit_some(p); /* fn may ask for further passes: they go to the list's head */
    for (struct http_broadcast_pass **at = &s->passes; *at;) {
        struct http_broadcast_pass *p = *at;
        if (p->cursor || begin_again(s, p)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        s->pass_count--;
        free(p);
    }
    if (!s->passes)
        loop_timer_stop(s->broadcast_timer);
}

static struct http_broadcast_pass *new_pass(struct http_server *s, const char *topic)
{
    struct fault f;
    if (s->pass_count >= MAX_PASSES)
        return NULL;
    if (!s->broadcast_timer && loop_timer_new(s->loop, on_tick, s, &s->broadcast_timer, &f) != 0)
        return NULL;
    struct http_broadcast_pass *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    memcpy(p->topic, topic, strnlen(topic, HTTP_TOPIC_LEN));
    if (!s->passes)
        loop_timer_start(s->broadcast_timer, TICK_MS, TICK_MS);
    p->next = s->passes;
    s->passes = p;
    s->pass_count++;
    return p;
}

int http_broadcast(struct http_server *s, const char *topic, uint32_t per_tick, http_stream_fn fn,
                   void *arg)
{
    struct http_broadcast_pass *p = s->passes;
    while (p && strncmp(p->topic, topic, HTTP_TOPIC_LEN) != 0)
        p = p->next;
    if (p && p->cursor) {
        p->again = true;
        p->again_fn = fn;
        p->again_arg = arg;
        return 0;
    }
    if (LIST_EMPTY(&s->streams))
        return 0;
    if (!p && !(p = new_pass(s, topic)))
        return RC_RETRY;
    p->per_tick = per_tick > 0 ? per_tick : 1;
    p->fn = fn;
    p->arg = arg;
    p->cursor = LIST_FIRST(&s->streams);
    return 0;
}

void http_stream_stop(struct http_server *s)
{
    while (s->passes) {
        struct http_broadcast_pass *next = s->passes->next;
        free(s->passes);
        s->passes = next;
    }
    loop_timer_free(s->broadcast_timer);
}

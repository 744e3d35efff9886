/* http_conn.c - one connection: bytes in, requests out, answers back in order.
 *
 * Reads land in the loop's one read buffer and are parsed there; only what cannot be looked at yet
 * (its predecessor is unanswered, or the client does not take its answers) is copied into
 * `pending`. Answers to one read gather in the loop's one output buffer and leave in one call; only
 * what the kernel does not take is copied. An idle connection therefore owns no buffer at all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_internal.h"
#include "runtime/loop.h"

enum { MAX_LINGER_BYTES = 1 << 20, KEEP_OUT = 1 << 20 };

static void process(struct http_conn *c, const char *data, size_t len);

void http_conn_phase(struct http_conn *c, enum http_phase phase)
{
    struct http_server *s = c->server;
    TAILQ_REMOVE(&s->phases[c->phase], c, link);
    s->lingering += phase == HTTP_PHASE_LINGER;
    s->lingering -= c->phase == HTTP_PHASE_LINGER;
    c->phase = phase;
    c->since_ms = loop_now_ms(s->loop);
    TAILQ_INSERT_TAIL(&s->phases[phase], c, link);
}

size_t http_conn_unsent(const struct http_conn *c)
{
    return c->out.len - c->out_sent + c->tail_len;
}

/* Its turn has not come: the last request is unanswered, or the client does not read. */
static bool busy(const struct http_conn *c)
{
    return c->under_way || c->stream || http_conn_unsent(c) > 0 || c->close_after;
}

/* Keeps input for later; past the bound the kernel keeps it, and TCP slows the client. */
static void keep(struct http_conn *c, const char *data, size_t len)
{
    if (buf_append(&c->pending, data, len) != 0) {
        http_conn_close(c);
        return;
    }
    if (c->pending.len + HTTP_READ_BYTES > c->pending.max && !c->read_off) {
        c->read_off = true;
        (void)event_del(&c->read_event);
    }
}

static void detach(struct http_conn *c)
{
    if (c->under_way) {
        c->under_way->conn = NULL;
        c->under_way = NULL;
    }
    if (c->stream) {
        struct http_stream *stream = c->stream;
        c->stream = NULL;
        http_stream_cut(stream);
    }
    if (c->reading) {
        http_request_release(c->reading);
        c->reading = NULL;
    }
}

void http_conn_close(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (c->phase == HTTP_PHASE_DEAD)
        return;
    TAILQ_REMOVE(&s->phases[c->phase], c, link);
    s->lingering -= c->phase == HTTP_PHASE_LINGER;
    c->phase = HTTP_PHASE_DEAD;
    TAILQ_INSERT_TAIL(&s->dead, c, link);
    (void)event_del(&c->read_event);
    (void)event_del(&c->write_event);
    (void)close(c->fd);
    c->fd = -1;
    if (s->corked == c) {
        buf_reset(&s->out);
        s->corked = NULL;
    }
    detach(c);
    s->open--;
    http_metrics_connections(-1);
    http_server_reap_soon(s);
}

/* Everything is written and the connection ends. Unread input would turn the close into a reset,
 * which can reach the client before it has read the answer: so shut one way and read on for a
 * while. */
static void finish(struct http_conn *c)
{
    if (!c->linger || c->peer_closed) {
        http_conn_close(c);
        return;
    }
    (void)shutdown(c->fd, SHUT_WR);
    buf_done(&c->pending);
    if (c->read_off) {
        c->read_off = false;
        (void)event_add(&c->read_event, NULL);
    }
    http_conn_phase(c, HTTP_PHASE_LINGER);
}

/* Where it stands after input or output. HEADER and BODY keep the time they were entered at. */
static void settle(struct http_conn *c, bool fresh)
{
    enum http_phase phase = HTTP_PHASE_IDLE;
    if (c->stream)
        phase = HTTP_PHASE_STREAM;
    else if (http_conn_unsent(c) > 0)
        phase = HTTP_PHASE_WRITING;
    else if (c->under_way)
        phase = HTTP_PHASE_HANDLING;
    else if (c->reading)
        phase = c->parse.head_done ? HTTP_PHASE_BODY : HTTP_PHASE_HEADER;
    if (phase != c->phase || fresh)
        http_conn_phase(c, phase);
}

struct buf *http_conn_out(struct http_conn *c)
{
    struct http_server *s = c->server;
    bool shared = http_conn_unsent(c) == 0 && (!s->corked || s->corked == c);
    if (!shared)
        return &c->out;
    s->corked = c; /* until its flush */
    return &s->out;
}

static void want_write(struct http_conn *c, bool on)
{
    if (c->write_on == on)
        return;
    c->write_on = on;
    if (on)
        (void)event_add(&c->write_event, NULL);
    else
        (void)event_del(&c->write_event);
}

/* Sends iov; returns the bytes taken, or -1 when the connection is lost. */
static ssize_t transmit(int fd, struct iovec *iov, size_t count)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    return n;
}

/* Books n bytes as sent: first from `from` (at *offset), then from the tail. */
static void taken(struct http_conn *c, const struct buf *from, size_t *offset, size_t n)
{
    size_t left = from->len - *offset;
    size_t first = n < left ? n : left;
    *offset += first;
    if (c->tail_len > 0) {
        c->tail += n - first;
        c->tail_len -= n - first;
    }
}

static void reset_out(struct buf *b, size_t keep_bytes)
{
    if (b->cap > keep_bytes)
        buf_done(b);
    else
        buf_reset(b);
}

void http_conn_flush(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (c->phase == HTTP_PHASE_DEAD)
        return;
    bool shared = s->corked == c;
    struct buf *from = shared ? &s->out : &c->out;
    size_t offset = shared ? 0 : c->out_sent;
    /* Nothing in it yet: NULL + 0 is undefined in C. */
    char *unsent = from->data ? from->data + offset : NULL;
    struct iovec iov[2] = {{unsent, from->len - offset}, {(void *)c->tail, c->tail_len}};
    if (shared && from->len == 0) {
        s->corked = NULL;
        return;
    }
    ssize_t n = transmit(c->fd, iov, c->tail_len > 0 ? 2 : 1);
    if (n < 0) {
        http_conn_close(c);
        return;
    }
    taken(c, from, &offset, (size_t)n);
    if (shared) {
        int rc =
            offset < from->len ? buf_append(&c->out, from->data + offset, from->len - offset) : 0;
        c->out_sent = 0;
        reset_out(&s->out, KEEP_OUT);
        s->corked = NULL;
        if (rc != 0) {
            http_conn_close(c);
            return;
        }
    } else {
        c->out_sent = offset;
        if (offset == from->len) {
            c->out_sent = 0;
            buf_done(&c->out);
        }
    }
    want_write(c, http_conn_unsent(c) > 0);
}

/* Goes on after an answer has left or output has drained. */
static void go_on(struct http_conn *c)
{
    if (c->phase == HTTP_PHASE_DEAD)
        return;
    if (http_conn_unsent(c) == 0 && c->close_after && !c->stream) {
        c->linger = c->linger || c->pending.len > 0;
        finish(c);
        return;
    }
    if (c->pending.len > 0 && !busy(c)) {
        struct buf input = c->pending;
        buf_init(&c->pending, input.max);
        if (c->read_off) {
            c->read_off = false;
            (void)event_add(&c->read_event, NULL);
        }
        process(c, input.data, input.len);
        buf_done(&input);
        return;
    }
    if (c->peer_closed && !busy(c))
        http_conn_close(c);
    else
        settle(c, true);
}

void http_conn_answered(struct http_conn *c)
{
    if (c->processing)
        return; /* process() goes on by itself */
    http_conn_flush(c);
    go_on(c);
}

void http_conn_end(struct http_conn *c)
{
    c->close_after = true;
    http_conn_answered(c);
}

void http_conn_refuse(struct http_conn *c, int status, const char *code, const char *message)
{
    struct http_request *req = c->reading;
    c->close_after = c->linger = true;
    c->reading = NULL;
    if (!req) {
        http_response_bare(c->server, http_conn_out(c), status, code, message);
        http_conn_answered(c);
        return;
    }
    req->conn = c;
    c->under_way = req;
    req->message.verb = req->message.verb == HTTP_VERB_HEAD ? HTTP_VERB_GET : req->message.verb;
    TAILQ_INSERT_TAIL(&c->server->under_way, req, link);
    memcpy(req->client, c->address, sizeof req->client);
    http_request_identify(req);
    if (status == 503)
        (void)http_set_header(req, "Retry-After", "1");
    http_error(req, status, code, message);
}

static const char *code_of(int status)
{
    switch (status) {
    case 413:
        return "BODY_TOO_LARGE";
    case 417:
        return "EXPECTATION_FAILED";
    case 431:
        return "HEADERS_TOO_LARGE";
    case 501:
        return "NOT_IMPLEMENTED";
    case 503:
        return "OVERLOADED";
    case 505:
        return "HTTP_VERSION";
    default:
        return "BAD_REQUEST";
    }
}

static void refuse_bad(struct http_conn *c)
{
    int status = c->parse.bad_status;
    http_metrics_refused(status == 413 || status == 431 ? HTTP_REFUSED_LARGE
                                                        : HTTP_REFUSED_MALFORMED);
    http_conn_refuse(c, status, code_of(status), c->parse.reason);
}

static void hand_out(struct http_conn *c, int64_t now_us)
{
    struct http_request *req = c->reading;
    c->reading = NULL;
    c->under_way = req;
    req->conn = c;
    req->start_us = now_us;
    memcpy(req->client, c->address, sizeof req->client);
    TAILQ_INSERT_TAIL(&c->server->under_way, req, link);
    http_request_dispatch(req);
}

static bool begin_request(struct http_conn *c, int64_t now_us)
{
    c->reading = http_request_take(c->server);
    if (!c->reading) {
        http_conn_close(c);
        return false;
    }
    c->reading->start_us = now_us;
    c->told_continue = false;
    http_parse_into(&c->parse, &c->reading->message);
    return true;
}

static void tell_continue(struct http_conn *c)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    c->told_continue = true;
    (void)buf_append(http_conn_out(c), CONTINUE, sizeof CONTINUE - 1);
}

/* Parses and hands out until the input is used up or must wait. Returns the bytes taken; *fresh: a
 * new phase began, even if it has the same name. */
static size_t parse_some(struct http_conn *c, const char *data, size_t len, int64_t now_us,
                         bool *fresh)
{
    size_t taken_bytes = 0;
    while (taken_bytes < len && !busy(c)) {
        if (!c->reading && !begin_request(c, now_us))
            break;
        bool had_head = c->parse.head_done;
        size_t used;
        enum http_parse_event event =
            http_parse_feed(&c->parse, data + taken_bytes, len - taken_bytes, &used);
        taken_bytes += used;
        *fresh = *fresh || event == HTTP_PARSE_DONE || c->parse.head_done != had_head;
        if (event == HTTP_PARSE_DONE)
            hand_out(c, now_us);
        else if (event == HTTP_PARSE_BAD)
            refuse_bad(c);
        else if (c->parse.head_done && c->reading->message.expects_continue && !c->told_continue)
            tell_continue(c);
    }
    return taken_bytes;
}

static void process(struct http_conn *c, const char *data, size_t len)
{
    int64_t now_us = clock_mono_us();
    bool fresh = c->reading == NULL;
    c->processing = true;
    do {
        size_t used = parse_some(c, data, len, now_us, &fresh);
        data += used;
        len -= used;
        if (c->phase != HTTP_PHASE_DEAD && (c->server->corked == c || http_conn_unsent(c) > 0))
            http_conn_flush(c);
    } while (len > 0 && c->phase != HTTP_PHASE_DEAD && !busy(c));
    c->processing = false;
    if (c->phase == HTTP_PHASE_DEAD)
        return;
    if (len > 0 && c->close_after)
        c->linger = true;
    else if (len > 0)
        keep(c, data, len);
    if (c->phase == HTTP_PHASE_DEAD)
        return;
    if (!busy(c) && !c->peer_closed)
        settle(c, fresh);
    else
        go_on(c);
}

void http_conn_input(struct http_conn *c, const char *data, size_t len)
{
    if (c->phase == HTTP_PHASE_LINGER) {
        c->lingered += len;
        if (c->lingered > MAX_LINGER_BYTES)
            http_conn_close(c);
    } else if (c->stream) {
        c->linger = true; /* a stream's client has nothing to say; it is not kept */
    } else if (busy(c)) {
        keep(c, data, len);
    } else {
        process(c, data, len);
    }
}

/* The client will send nothing more. A half-closed one may still wait for its answer. */
static void on_eof(struct http_conn *c)
{
    c->peer_closed = true;
    bool owed = c->under_way || http_conn_unsent(c) > 0 || c->pending.len > 0;
    if (c->phase == HTTP_PHASE_LINGER || c->stream || !owed) {
        http_conn_close(c);
        return;
    }
    (void)event_del(&c->read_event);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct http_conn *c = arg;
    ssize_t n = recv((int)fd, c->server->in, sizeof c->server->in, 0);
    if (n > 0)
        http_conn_input(c, c->server->in, (size_t)n);
    else if (n == 0)
        on_eof(c);
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        http_conn_close(c);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct http_conn *c = arg;
    size_t before = http_conn_unsent(c);
    http_conn_flush(c);
    if (c->phase == HTTP_PHASE_DEAD)
        return;
    if (http_conn_unsent(c) == 0)
        go_on(c);
    else if (http_conn_unsent(c) < before)
        http_conn_phase(c, c->phase); /* progress: its time starts anew */
}

void http_conn_expire(struct http_conn *c)
{
    switch (c->phase) {
    case HTTP_PHASE_HEADER:
    case HTTP_PHASE_BODY:
        http_metrics_refused(HTTP_REFUSED_SLOW);
        http_conn_refuse(c, 408, "REQUEST_TIMEOUT", "The request took too long to arrive.");
        break;
    case HTTP_PHASE_WRITING:
        http_metrics_refused(HTTP_REFUSED_SLOW);
        http_conn_close(c);
        break;
    default:
        http_conn_close(c);
    }
}

struct http_conn *http_conn_open(struct http_server *s, int fd, const char *address)
{
    struct http_conn *c = calloc(1, sizeof *c);
    if (!c) {
        (void)close(fd);
        return NULL;
    }
    c->server = s;
    c->fd = fd;
    memcpy(c->address, address, sizeof c->address);
    http_parse_init(&c->parse, &s->parse_limits, false);
    buf_init(&c->pending, HTTP_PENDING_BYTES + HTTP_READ_BYTES);
    buf_init(&c->out, HTTP_OUT_BYTES);
    c->phase = HTTP_PHASE_IDLE;
    c->since_ms = loop_now_ms(s->loop);
    TAILQ_INSERT_TAIL(&s->phases[HTTP_PHASE_IDLE], c, link);
    s->open++;
    http_metrics_connections(1);
    if (event_assign(&c->read_event, s->base, fd, EV_READ | EV_PERSIST, on_readable, c) != 0 ||
        event_assign(&c->write_event, s->base, fd, EV_WRITE | EV_PERSIST, on_writable, c) != 0 ||
        event_add(&c->read_event, NULL) != 0) {
        http_conn_close(c);
        return NULL;
    }
    return c;
}

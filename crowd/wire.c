/* wire.c - connections, requests in line, and the two kinds of answers. */
#include "crowd/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"

enum { SWEEP_MS = 100, PORTS_PER_SOURCE = 20000 };

struct request {
    STAILQ_ENTRY(request) link;
    wire_fn fn;
    void *arg;
    int64_t due_us, sent_us;
    size_t len, written;
    char bytes[];
};

struct conn {
    struct wire *wire;
    TAILQ_ENTRY(conn) link; /* idle or busy */
    struct event event;
    int fd;
    bool writing, used;
    struct request *request; /* under way */
    struct buf in;           /* what came of an answer that is not complete */
};

struct wire_stream {
    struct conn conn;
    wire_event_fn on_event;
    wire_end_fn on_end;
    void *arg;
    bool has_head;
    int status;
};

TAILQ_HEAD(conns, conn);
STAILQ_HEAD(requests, request);

struct wire {
    struct wire_options o;
    struct conns idle, busy;
    struct requests waiting;
    uint32_t connections, waiting_count;
    uint64_t opened;
    struct event *sweep;
    char scratch[WIRE_MAX_ANSWER + 1];
};

static void serve_waiting(struct wire *w);
static void on_ready(evutil_socket_t fd, short what, void *arg);
static void on_stream(evutil_socket_t fd, short what, void *arg);

/* Connections -----------------------------------------------------------------------------------
 */

static int open_socket(struct wire *w)
{
    uint64_t number = w->opened++;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (w->o.many_sources) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        from.sin_addr.s_addr =
            htonl(INADDR_LOOPBACK + 1 + (uint32_t)(number / PORTS_PER_SOURCE % 250));
        (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
        (void)bind(fd, (struct sockaddr *)&from, sizeof from);
    }
    const struct sockaddr_in *to = &w->o.targets[number % w->o.target_count];
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) != 0 && errno != EINPROGRESS) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int conn_start(struct wire *w, struct conn *c, event_callback_fn fn)
{
    c->wire = w;
    c->fd = open_socket(w);
    if (c->fd < 0)
        return -1;
    buf_init(&c->in, WIRE_MAX_ANSWER);
    c->writing = true;
    return event_assign(&c->event, w->o.base, c->fd, EV_READ | EV_WRITE | EV_PERSIST, fn, c) == 0 &&
                   event_add(&c->event, NULL) == 0
               ? 0
               : -1;
}

static void conn_stop(struct conn *c)
{
    if (c->fd < 0)
        return;
    (void)event_del(&c->event);
    (void)close(c->fd);
    buf_done(&c->in);
    c->fd = -1;
}

/* Waits for writability only while there is something to write. */
static void conn_watch(struct conn *c, bool writing, event_callback_fn fn)
{
    if (c->writing == writing)
        return;
    c->writing = writing;
    (void)event_del(&c->event);
    (void)event_assign(&c->event, c->wire->o.base, c->fd,
                       (short)(EV_READ | EV_PERSIST | (writing ? EV_WRITE : 0)), fn, c);
    (void)event_add(&c->event, NULL);
}

/* False: the connection is broken. */
static bool conn_write(struct conn *c, event_callback_fn fn)
{
    struct request *r = c->request;
    while (r && r->written < r->len) {
        ssize_t n = send(c->fd, r->bytes + r->written, r->len - r->written, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
            conn_watch(c, true, fn);
            return true;
        }
        if (n < 0)
            return false;
        r->written += (size_t)n;
    }
    conn_watch(c, false, fn);
    return true;
}

static void conn_end(struct conn *c)
{
    TAILQ_REMOVE(c->request ? &c->wire->busy : &c->wire->idle, c, link);
    c->wire->connections--;
    conn_stop(c);
    free(c->request);
    free(c);
}

static void fail(struct conn *c, const char *why)
{
    struct request *r = c->request;
    struct wire *w = c->wire;
    struct wire_answer a = {.body = why, .len = strlen(why), .done_us = clock_mono_us()};
    if (r) {
        a.due_us = r->due_us;
        a.sent_us = r->sent_us;
        wire_fn fn = r->fn;
        void *arg = r->arg;
        conn_end(c);
        fn(&a, arg);
        serve_waiting(w);
        return;
    }
    conn_end(c); /* an idle connection that the server closed: nothing lost */
}

static void conn_begin(struct conn *c, struct request *r)
{
    TAILQ_INSERT_TAIL(&c->wire->busy, c, link);
    c->request = r;
    r->sent_us = clock_mono_us();
    if (!conn_write(c, on_ready))
        event_active(&c->event, EV_READ, 0); /* told from the loop, not from inside wire_send() */
}

/* Answers ---------------------------------------------------------------------------------------
 */

/* The head's end, or NULL; *out_status, *out_length (-1: until the end) and *out_close. */
static const char *read_head(const char *text, size_t len, int *out_status, int64_t *out_length,
                             bool *out_close)
{
    const char *end = memmem(text, len, "\r\n\r\n", 4);
    if (!end || len < 12)
        return NULL;
    *out_status = (int)strtol(text + 9, NULL, 10); /* the head's end stops it */
    *out_length = *out_status == 204 || *out_status == 304 ? 0 : -1;
    *out_close = false;
    for (const char *line = memchr(text, '\n', (size_t)(end - text)); line && line < end;
         line = memchr(line, '\n', (size_t)(end - line))) {
        line++;
        if (strncasecmp(line, "content-length:", 15) == 0)
            *out_length = strtoll(line + 15, NULL, 10);
        else if (strncasecmp(line, "connection: close", 17) == 0)
            *out_close = true;
    }
    return end + 4;
}

static void finish(struct conn *c, int status, char *body, size_t len, bool close_it)
{
    struct wire *w = c->wire;
    struct request *r = c->request;
    body[len] = '\0';
    const struct wire_answer a = {.status = status,
                                  .body = body,
                                  .len = len,
                                  .due_us = r->due_us,
                                  .sent_us = r->sent_us,
                                  .done_us = clock_mono_us()};
    TAILQ_REMOVE(&w->busy, c, link);
    c->request = NULL;
    TAILQ_INSERT_HEAD(&w->idle, c, link);
    if (close_it)
        conn_end(c);
    r->fn(&a, r->arg);
    free(r);
    serve_waiting(w);
}

static void take_answer(struct conn *c, char *text, size_t len, bool ended)
{
    int status = 0;
    int64_t length = 0;
    bool close_it = false;
    const char *body = read_head(text, len, &status, &length, &close_it);
    size_t head = body ? (size_t)(body - text) : 0;
    if (!c->request) {
        fail(c, "an answer nobody asked for");
    } else if (body && length >= 0 && len >= head + (size_t)length) {
        finish(c, status, text + head, (size_t)length, close_it || ended);
    } else if (body && length < 0 && ended) {
        finish(c, status, text + head, len - head, true);
    } else if (ended) {
        fail(c, "the connection was closed");
    } else if (buf_append(&c->in, text, len) != 0) {
        fail(c, "the answer is too long");
    }
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;
    struct wire *w = c->wire;
    if ((what & EV_WRITE) && !conn_write(c, on_ready)) {
        fail(c, "cannot connect or write");
        return;
    }
    if (!(what & EV_READ))
        return;
    ssize_t n = recv(fd, w->scratch, WIRE_MAX_ANSWER, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n < 0 || (n == 0 && !c->in.len)) {
        fail(c, n < 0 ? "the connection broke" : "the connection was closed");
        return;
    }
    if (!c->in.len) {
        take_answer(c, w->scratch, (size_t)n, n == 0);
        return;
    }
    if (n > 0 && buf_append(&c->in, w->scratch, (size_t)n) != 0) {
        fail(c, "the answer is too long");
        return;
    }
    /* In the scratch again: the connection's own buffer may be used by the callback's request. */
    size_t len = c->in.len;
    memcpy(w->scratch, c->in.data, len);
    buf_reset(&c->in);
    take_answer(c, w->scratch, len, n == 0);
}

/* Requests --------------------------------------------------------------------------------------
 */

static struct conn *free_conn(struct wire *w)
{
    struct conn *c = TAILQ_FIRST(&w->idle);
    if (c) {
        TAILQ_REMOVE(&w->idle, c, link);
        return c;
    }
    if (w->connections >= w->o.max_connections)
        return NULL;
    c = calloc(1, sizeof *c);
    if (!c || conn_start(w, c, on_ready) != 0) {
        free(c);
        return NULL;
    }
    w->connections++;
    return c;
}

static void serve_waiting(struct wire *w)
{
    struct request *r;
    while ((r = STAILQ_FIRST(&w->waiting)) != NULL) {
        struct conn *c = free_conn(w);
        if (!c)
            return;
        STAILQ_REMOVE_HEAD(&w->waiting, link);
        w->waiting_count--;
        conn_begin(c, r);
    }
}

static struct request *new_request(const void *bytes, size_t len)
{
    struct request *r = malloc(sizeof *r + len);
    if (!r)
        return NULL;
    *r = (struct request){.len = len};
    memcpy(r->bytes, bytes, len);
    return r;
}

int wire_send(struct wire *w, const void *request, size_t len, int64_t due_us, wire_fn fn,
              void *arg, struct fault *f)
{
    if (w->waiting_count >= w->o.max_waiting)
        return fault_set(f, RC_RETRY, "%u requests wait for a connection", w->waiting_count);
    struct request *r = new_request(request, len);
    if (!r)
        return fault_set(f, RC_RETRY, "no memory for a request");
    r->fn = fn;
    r->arg = arg;
    r->due_us = due_us;
    struct conn *c = STAILQ_EMPTY(&w->waiting) ? free_conn(w) : NULL;
    if (c) {
        conn_begin(c, r);
        return 0;
    }
    STAILQ_INSERT_TAIL(&w->waiting, r, link);
    w->waiting_count++;
    return 0;
}

size_t wire_waiting(const struct wire *w)
{
    return w->waiting_count;
}

/* Oldest first: requests are sent in the order of the list. */
static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct wire *w = arg;
    int64_t late = clock_mono_us() - (int64_t)w->o.timeout_ms * 1000;
    struct conn *c;
    /* fail() takes the first off the list, which the analyzer does not see. */
    while ((c = TAILQ_FIRST(&w->busy)) != NULL &&
           c->request->sent_us < late) /* NOLINT(clang-analyzer-unix.Malloc) */
        fail(c, "no answer in time");
    serve_waiting(w);
}

int wire_new(const struct wire_options *o, struct wire **out, struct fault *f)
{
    struct wire *w = calloc(1, sizeof *w);
    if (!w)
        return fault_set(f, RC_FATAL, "no memory for a client");
    w->o = *o;
    TAILQ_INIT(&w->idle);
    TAILQ_INIT(&w->busy);
    STAILQ_INIT(&w->waiting);
    w->sweep = event_new(o->base, -1, EV_PERSIST, on_sweep, w);
    if (!w->sweep || event_add(w->sweep, &(struct timeval){.tv_usec = SWEEP_MS * 1000L}) != 0) {
        wire_free(w);
        return fault_set(f, RC_FATAL, "no memory for a client");
    }
    *out = w;
    return 0;
}

void wire_free(struct wire *w)
{
    if (!w)
        return;
    struct conn *c;
    struct request *r;
    while ((c = TAILQ_FIRST(&w->busy)) != NULL || (c = TAILQ_FIRST(&w->idle)) != NULL)
        conn_end(c); /* NOLINT(clang-analyzer-unix.Malloc): it leaves the list there */
    while ((r = STAILQ_FIRST(&w->waiting)) != NULL) {
        STAILQ_REMOVE_HEAD(&w->waiting, link);
        free(r);
    }
    if (w->sweep)
        event_free(w->sweep);
    free(w);
}

/* Streams ---------------------------------------------------------------------------------------
 */

static void stream_end(struct wire_stream *s)
{
    wire_end_fn fn = s->on_end;
    void *arg = s->arg;
    int status = s->status;
    wire_stream_close(s);
    fn(status, arg);
}

/* One event: lines "event: x" and "data: y"; comments are skipped. */
static void tell_event(struct wire_stream *s, char *text)
{
    const char *name = "message", *data = NULL;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "event: ", 7) == 0)
            name = line + 7;
        else if (strncmp(line, "data: ", 6) == 0)
            data = line + 6;
    }
    if (data)
        s->on_event(name, data, s->arg);
}

/* What is complete in c->in; false: the stream was closed by its owner, or is no stream. */
static bool take_events(struct wire_stream *s)
{
    struct buf *in = &s->conn.in;
    int64_t length = 0;
    bool closing = false;
    if (!s->has_head) {
        const char *body = read_head(buf_text(in), in->len, &s->status, &length, &closing);
        if (!body)
            return true;
        s->has_head = true;
        buf_consume(in, (size_t)(body - in->data));
        if (s->status != 200)
            return false;
    }
    for (char *end; in->len && (end = memmem(in->data, in->len, "\n\n", 2)) != NULL;) {
        size_t len = (size_t)(end - in->data) + 2;
        struct wire *w = s->conn.wire;
        memcpy(w->scratch, in->data, len);
        w->scratch[len - 2] = '\0';
        buf_consume(in, len);
        tell_event(s, w->scratch);
        if (s->conn.fd < 0) /* closed by the callback; memory goes in on_stream() */
            return true;
    }
    if (!in->len)
        buf_done(in), buf_init(in, WIRE_MAX_ANSWER); /* twenty thousand quiet ones need no memory */
    return true;
}

static void on_stream(evutil_socket_t fd, short what, void *arg)
{
    struct wire_stream *s = (struct wire_stream *)arg; /* conn is its first member */
    struct wire *w = s->conn.wire;
    if ((what & EV_WRITE) && !conn_write(&s->conn, on_stream)) {
        stream_end(s);
        return;
    }
    if (!(what & EV_READ))
        return;
    ssize_t n = recv(fd, w->scratch, WIRE_MAX_ANSWER, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0 || buf_append(&s->conn.in, w->scratch, (size_t)n) != 0) {
        stream_end(s);
        return;
    }
    s->conn.used = true; /* inside: a close waits */
    bool good = take_events(s);
    s->conn.used = false;
    if (s->conn.fd < 0) {
        free(s->conn.request);
        free(s);
    } else if (!good) {
        stream_end(s);
    }
}

struct wire_stream *wire_stream_open(struct wire *w, const void *request, size_t len,
                                     wire_event_fn on_event, wire_end_fn on_end, void *arg,
                                     struct fault *f)
{
    struct wire_stream *s = calloc(1, sizeof *s);
    struct request *r = new_request(request, len);
    if (!s || !r || conn_start(w, &s->conn, on_stream) != 0) {
        if (s && s->conn.fd > 0)
            conn_stop(&s->conn);
        free(s);
        free(r);
        (void)fault_set(f, RC_RETRY, "cannot open a connection: %s", strerror(errno));
        return NULL;
    }
    s->on_event = on_event;
    s->on_end = on_end;
    s->arg = arg;
    s->conn.request = r;
    return s;
}

void wire_stream_close(struct wire_stream *s)
{
    if (!s)
        return;
    conn_stop(&s->conn);
    if (s->conn.used)
        return; /* from its own callback: on_stream() frees it */
    free(s->conn.request);
    free(s);
}

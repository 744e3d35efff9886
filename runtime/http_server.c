/* http_server.c - the listener, the sweep of time-outs, the drain. */
#include "runtime/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_internal.h"
#include "runtime/loop.h"

enum { BACKLOG = 4096, ACCEPTS_PER_TURN = 64, SWEEP_MIN_MS = 10, SWEEP_MAX_MS = 250 };

static const struct http_limits DEFAULTS = {
    .max_connections = 10000,
    .max_header_bytes = 16384,
    .max_headers = 100,
    .max_body_bytes = 65536,
    .header_timeout_ms = 10000,
    .body_timeout_ms = 10000,
    .idle_timeout_ms = 75000,
    .write_timeout_ms = 30000,
    .max_stream_bytes = 65536,
};

/* The limits are all uint32_t, so "0 = the default" is one loop. */
static void fill_limits(struct http_limits *limits)
{
    enum { COUNT = sizeof(struct http_limits) / sizeof(uint32_t) };
    uint32_t values[COUNT], defaults[COUNT];
    memcpy(values, limits, sizeof values);
    memcpy(defaults, &DEFAULTS, sizeof defaults);
    for (size_t i = 0; i < COUNT; i++)
        if (values[i] == 0)
            values[i] = defaults[i];
    memcpy(limits, values, sizeof values);
}

static uint32_t timeout_of(const struct http_server *s, enum http_phase phase)
{
    switch (phase) {
    case HTTP_PHASE_IDLE:
        return s->limits.idle_timeout_ms;
    case HTTP_PHASE_HEADER:
        return s->limits.header_timeout_ms;
    case HTTP_PHASE_BODY:
        return s->limits.body_timeout_ms;
    case HTTP_PHASE_WRITING:
        return s->limits.write_timeout_ms;
    case HTTP_PHASE_LINGER:
        return HTTP_LINGER_MS;
    default:
        return 0; /* none: the handler's own, or a stream's */
    }
}

static void resume_accepting(struct http_server *s)
{
    if (!s->accept_paused || s->draining)
        return;
    s->accept_paused = false;
    (void)event_add(&s->accept_event, NULL);
}

static void sweep_streams(struct http_server *s, int64_t now_ms)
{
    struct http_conn *c, *next;
    /* A stream that is behind makes no progress past the write time-out: cut. */
    for (c = TAILQ_FIRST(&s->phases[HTTP_PHASE_STREAM]); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (now_ms - c->since_ms < s->limits.write_timeout_ms)
            break;
        if (http_conn_unsent(c) > 0) {
            http_metrics_refused(HTTP_REFUSED_STREAM);
            http_conn_close(c);
        } else {
            http_conn_phase(c, HTTP_PHASE_STREAM); /* nothing owed: looked at again later */
        }
    }
}

static void on_sweep(void *arg)
{
    struct http_server *s = arg;
    int64_t now_ms = loop_now_ms(s->loop);
    for (int phase = 0; phase < HTTP_PHASE_COUNT; phase++) {
        uint32_t timeout_ms = timeout_of(s, (enum http_phase)phase);
        struct http_conn *c;
        while (timeout_ms > 0 && (c = TAILQ_FIRST(&s->phases[phase])) != NULL &&
               now_ms - c->since_ms >= timeout_ms)
            http_conn_expire(c);
    }
    sweep_streams(s, now_ms);
    resume_accepting(s);
}

/* Past the limit: told so, without the bookkeeping of a request. */
static void turn_away(struct http_server *s, int fd, const char *address)
{
    http_metrics_refused(HTTP_REFUSED_LIMIT);
    if (s->lingering < HTTP_MAX_LINGER) {
        struct http_conn *c = http_conn_open(s, fd, address);
        if (c)
            http_conn_refuse(c, 503, "OVERLOADED", "Too many connections; try again shortly.");
        return;
    }
    struct buf out;
    buf_init(&out, 1024);
    http_response_bare(s, &out, 503, "OVERLOADED", "Too many connections; try again shortly.");
    (void)!send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    buf_done(&out);
    (void)close(fd);
}

static void format_address(const struct sockaddr_storage *peer, char *out)
{
    const void *address = NULL;
    if (peer->ss_family == AF_INET)
        address = &((const struct sockaddr_in *)peer)->sin_addr;
    else if (peer->ss_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)peer)->sin6_addr;
    if (!address || !inet_ntop(peer->ss_family, address, out, INET6_ADDRSTRLEN))
        memcpy(out, "-", 2);
}

/* False: nobody waits any more, or no descriptor is left. */
static bool accept_one(struct http_server *s)
{
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    int fd = accept4(s->listen_fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The listener stays readable: without a pause the loop would spin on it. */
            http_metrics_refused(HTTP_REFUSED_FDS);
            s->accept_paused = true;
            (void)event_del(&s->accept_event);
            return false;
        }
        return errno == ECONNABORTED || errno == EINTR;
    }
    char address[INET6_ADDRSTRLEN] = "";
    format_address(&peer, address);
    if (s->open - s->lingering >= s->limits.max_connections)
        turn_away(s, fd, address);
    else
        (void)http_conn_open(s, fd, address);
    return true;
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    for (int i = 0; i < ACCEPTS_PER_TURN && accept_one(arg); i++)
        continue;
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct http_server *s = arg;
    struct http_conn *c;
    while ((c = TAILQ_FIRST(&s->dead)) != NULL) {
        TAILQ_REMOVE(&s->dead, c, link);
        buf_done(&c->pending);
        buf_done(&c->out);
        free(c);
    }
    http_stream_reap(s);
    if (s->draining)
        http_server_check_drained(s);
}

void http_server_reap_soon(struct http_server *s)
{
    event_active(&s->reap_event, 0, 0);
}

static int listen_failed(int fd, const struct http_server_options *o, struct fault *f)
{
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    return fault_set(f, RC_FATAL, "cannot listen on %s port %u: %s", o->address, o->port,
                     strerror(error));
}

/* Options are set on the listener: accepted sockets inherit them on Linux, without a call each. */
static void set_options(int fd)
{
    static const int on = 1, idle_s = 60, interval_s = 15, probes = 4;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static int listen_on(struct http_server *s, const struct http_server_options *o, struct fault *f)
{
    struct sockaddr_storage at = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;
    socklen_t len = sizeof *v4;
    if (inet_pton(AF_INET, o->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(o->port);
    } else if (inet_pton(AF_INET6, o->address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(o->port);
        len = sizeof *v6;
    } else {
        return fault_set(f, RC_FATAL, "'%s' is no IP address to listen on", o->address);
    }
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return listen_failed(fd, o, f);
    set_options(fd);
    if (bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        return listen_failed(fd, o, f);
    s->listen_fd = fd;
    s->port = ntohs(at.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
    return 0;
}

static int64_t sweep_interval_ms(const struct http_limits *l)
{
    uint32_t least = l->idle_timeout_ms;
    if (l->header_timeout_ms < least)
        least = l->header_timeout_ms;
    if (l->body_timeout_ms < least)
        least = l->body_timeout_ms;
    if (l->write_timeout_ms < least)
        least = l->write_timeout_ms;
    least /= 4;
    return least < SWEEP_MIN_MS ? SWEEP_MIN_MS : least > SWEEP_MAX_MS ? SWEEP_MAX_MS : least;
}

static int start(struct http_server *s, struct fault *f)
{
    if (loop_timer_new(s->loop, on_sweep, s, &s->sweep, f) != 0)
        return RC_FATAL;
    if (event_assign(&s->accept_event, s->base, s->listen_fd, EV_READ | EV_PERSIST, on_accept, s) ||
        event_add(&s->accept_event, NULL) != 0)
        return fault_set(f, RC_FATAL, "cannot watch the listening socket");
    int64_t every_ms = sweep_interval_ms(&s->limits);
    loop_timer_start(s->sweep, every_ms, every_ms);
    return 0;
}

static void init_fields(struct http_server *s, struct loop *l, const struct http_server_options *o)
{
    s->loop = l;
    s->base = loop_base(l);
    s->limits = o->limits;
    fill_limits(&s->limits);
    s->parse_limits = (struct http_parse_limits){.max_header_bytes = s->limits.max_header_bytes,
                                                 .max_headers = s->limits.max_headers,
                                                 .max_body_bytes = s->limits.max_body_bytes};
    s->arg = o->arg;
    s->access_log = o->access_log;
    s->listen_fd = -1;
    s->date_second = -1;
    buf_init(&s->out, HTTP_OUT_BYTES);
    for (int i = 0; i < HTTP_PHASE_COUNT; i++)
        TAILQ_INIT(&s->phases[i]);
    TAILQ_INIT(&s->dead);
    TAILQ_INIT(&s->under_way);
    TAILQ_INIT(&s->spare);
    LIST_INIT(&s->streams);
    LIST_INIT(&s->ended);
    if (getrandom(&s->id_prefix, sizeof s->id_prefix, 0) != (ssize_t)sizeof s->id_prefix)
        s->id_prefix = (uint64_t)clock_wall_ms() ^ (uint64_t)(uintptr_t)s;
    (void)event_assign(&s->reap_event, s->base, -1, 0, on_reap, s);
    (void)event_assign(&s->accept_event, s->base, -1, 0, on_accept, s);
}

int http_server_open(struct loop *l, const struct http_server_options *o, struct http_server **out,
                     struct fault *f)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (!s)
        return fault_set(f, RC_FATAL, "no memory for an HTTP server");
    http_metrics_init();
    init_fields(s, l, o);
    if (http_router_new(o->routes, &s->router, f) != 0 || listen_on(s, o, f) != 0 ||
        start(s, f) != 0) {
        http_server_free(s);
        return RC_FATAL;
    }
    *out = s;
    return 0;
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

static void stop_listening(struct http_server *s)
{
    (void)event_del(&s->accept_event);
    if (s->listen_fd >= 0)
        (void)close(s->listen_fd);
    s->listen_fd = -1;
}

static void report_drained(struct http_server *s)
{
    void (*drained)(void *) = s->drained;
    s->drained = NULL;
    loop_timer_stop(s->drain_timer);
    if (drained)
        drained(s->drained_arg); /* last: it may free the server */
}

static void on_drain_check(void *arg)
{
    struct http_server *s = arg;
    report_drained(s);
}

/* The report comes from its own timer: the caller may be deep inside a connection. */
void http_server_check_drained(struct http_server *s)
{
    if (s->drained && s->open == 0 && TAILQ_EMPTY(&s->under_way) && LIST_EMPTY(&s->ended))
        loop_timer_start(s->drain_timer, 0, 0);
}

/* An idle connection may have a request in the socket already: that one is still answered. */
static bool has_input(const struct http_conn *c)
{
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void http_server_drain(struct http_server *s, int64_t deadline_ms, void (*done)(void *), void *arg)
{
    if (s->draining)
        return;
    while (s->listen_fd >= 0 && accept_one(s))
        continue;
    s->draining = true;
    stop_listening(s);
    s->drained = done;
    s->drained_arg = arg;
    struct http_conn *c, *next;
    for (c = TAILQ_FIRST(&s->phases[HTTP_PHASE_IDLE]); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (!has_input(c))
            http_conn_close(c);
    }
    while ((c = TAILQ_FIRST(&s->phases[HTTP_PHASE_STREAM])) != NULL)
        http_stream_close(c->stream);
    int64_t wait_ms = deadline_ms - clock_mono_ms();
    struct fault f;
    if (loop_timer_new(s->loop, on_drain_check, s, &s->drain_timer, &f) != 0) {
        s->drained = NULL;
        done(arg);
        return;
    }
    loop_timer_start(s->drain_timer, wait_ms > 0 ? wait_ms : 0, 0);
    http_server_check_drained(s);
}

/* Requests with handlers live on without a server; whoever answers frees them. */
static void orphan_requests(struct http_server *s)
{
    struct http_request *req;
    while ((req = TAILQ_FIRST(&s->under_way)) != NULL) {
        TAILQ_REMOVE(&s->under_way, req, link);
        req->server = NULL;
        req->conn = NULL;
        req->slot = NULL; /* its route goes with the server */
    }
    s->spare_count = 0;
    while ((req = TAILQ_FIRST(&s->spare)) != NULL) {
        TAILQ_REMOVE(&s->spare, req, link);
        req->server = NULL;
        http_request_release(req);
    }
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    stop_listening(s);
    s->draining = true;
    s->drained = NULL;
    for (int phase = 0; phase < HTTP_PHASE_COUNT; phase++)
        while (!TAILQ_EMPTY(&s->phases[phase]))
            http_conn_close(TAILQ_FIRST(&s->phases[phase]));
    on_reap(-1, 0, s);
    (void)event_del(&s->reap_event);
    orphan_requests(s);
    http_stream_stop(s);
    loop_timer_free(s->sweep);
    loop_timer_free(s->drain_timer);
    http_router_free(s->router);
    buf_done(&s->out);
    free(s->etags);
    free(s);
}

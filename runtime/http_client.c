/* http_client.c - calls: attempts, time-outs, retries, the breaker. */
#include "runtime/http_client.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/clock.h"
#include "runtime/http_client_internal.h"
#include "runtime/loop.h"

enum {
    MAX_HEADER_BYTES = 16384,
    MAX_HEADERS = 100,
    MAX_REQUEST_BYTES = 1 << 22,
    MAX_RETRY_MS = 10000,
    SWEEP_MS = 1000
};

static const double SECONDS[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                 0.25,  0.5,    1,     2.5,  5,     10};

enum { CALLS, DURATION, BREAKER_STATE };

const struct metric_def HTTP_CLIENT_METRICS[] = {
    [CALLS] = {"urr_http_client_attempts_total", METRIC_COUNTER,
               "Attempts to call another service: ok, failed, or refused by the breaker.",
               "target,outcome", NULL, 0},
    [DURATION] = {"urr_http_client_duration_seconds", METRIC_HISTOGRAM,
                  "Time of one attempt that was answered.", "target", SECONDS,
                  sizeof SECONDS / sizeof *SECONDS},
    [BREAKER_STATE] = {"urr_http_client_breaker_state", METRIC_GAUGE,
                       "0 closed, 1 half open, 2 open.", "target", NULL, 0},
    {0},
};

static void try_now(struct http_call *call);

int http_reply_status(const struct http_reply *r)
{
    return r->message->status;
}

const char *http_reply_body(const struct http_reply *r, size_t *out_len)
{
    if (out_len)
        *out_len = r->message->body.len;
    return buf_text(&r->message->body);
}

const char *http_reply_header(const struct http_reply *r, const char *name)
{
    return http_message_field(r->message, name, strlen(name));
}

static void leave_breaker(struct http_call *call, enum breaker_outcome outcome)
{
    struct http_client *c = call->client;
    if (call->ticket == 0)
        return;
    int64_t now_ms = loop_now_ms(c->loop);
    breaker_leave(&c->breaker, call->ticket, outcome, now_ms - call->attempt_ms, now_ms);
    call->ticket = 0;
    metric_set(c->state, (double)breaker_state(&c->breaker, now_ms));
}

static void leave_queue(struct http_call *call)
{
    if (call->in_queue)
        TAILQ_REMOVE(&call->client->waiting, call, queue);
    call->in_queue = false;
}

static void free_call(struct http_call *call)
{
    loop_timer_free(call->timer);
    buf_done(&call->request);
    free(call);
}

/* Out of every list first, so that the callback sees a client without it. */
static void finish(struct http_call *call, const struct http_reply *reply, const struct fault *f)
{
    struct http_client *c = call->client;
    leave_queue(call);
    TAILQ_REMOVE(&c->calls, call, link);
    c->call_count--;
    loop_timer_stop(call->timer);
    call->fn(reply, f, call->arg);
    free_call(call);
}

/* Restarts the call's timer, never past its deadline. */
static void arm(struct http_call *call, int64_t wait_ms)
{
    int64_t now_ms = loop_now_ms(call->client->loop);
    if (call->deadline_ms > 0 && now_ms + wait_ms > call->deadline_ms)
        wait_ms = call->deadline_ms - now_ms;
    loop_timer_start(call->timer, wait_ms > 0 ? wait_ms : 0, 0);
}

void http_client_connected(struct http_call *call)
{
    arm(call, call->client->options.read_timeout_ms);
}

void http_client_replied(struct http_call *call, const struct http_message *message)
{
    struct http_client *c = call->client;
    struct http_reply reply = {message};
    int64_t took_ms = loop_now_ms(c->loop) - call->attempt_ms;
    metric_add(c->ok, 1);
    metric_observe(c->seconds, (double)took_ms / 1000);
    leave_breaker(call, message->status >= 500 ? BREAKER_FAILED : BREAKER_OK);
    finish(call, &reply, NULL);
}

static bool may_retry(const struct http_call *call)
{
    return call->idempotent && !call->client->closing &&
           call->attempt < call->client->options.max_attempts;
}

void http_client_failed(struct http_call *call, enum attempt_end end, const char *why)
{
    struct http_client *c = call->client;
    struct fault f;
    metric_add(c->failed, 1);
    leave_breaker(call, end == ATTEMPT_NETWORK ? BREAKER_NO_CONNECTION : BREAKER_FAILED);
    (void)fault_set(&f, end == ATTEMPT_NETWORK ? RC_RETRY : RC_REJECT, "%s: %s", c->host, why);
    if (end == ATTEMPT_NETWORK && may_retry(call)) {
        int64_t wait_ms = backoff_next_ms(&call->backoff);
        if (call->deadline_ms == 0 || loop_now_ms(c->loop) + wait_ms < call->deadline_ms) {
            call->between = true;
            loop_timer_start(call->timer, wait_ms, 0);
            http_client_next(c);
            return;
        }
    }
    finish(call, NULL, &f);
    http_client_next(c);
}

/* Takes the connection away; the attempt's result is the caller's to report. */
static void drop_conn(struct http_call *call)
{
    if (call->conn)
        client_conn_close(call->conn);
    call->conn = NULL;
}

static void on_call_timer(void *arg)
{
    struct http_call *call = arg;
    struct http_client *c = call->client;
    if (call->between) {
        call->between = false;
        try_now(call);
    } else if (call->doomed) {
        call->doomed = false;
        http_client_failed(call, ATTEMPT_NETWORK, call->failure.text);
    } else if (call->conn) {
        bool connected = call->conn->connected;
        drop_conn(call);
        http_client_failed(call, ATTEMPT_NETWORK,
                           connected ? "no answer in time" : "no connection in time");
    } else { /* its deadline passed in the queue */
        struct fault f;
        (void)fault_set(&f, RC_RETRY, "%s: no free connection in time", c->host);
        finish(call, NULL, &f);
    }
}

/* With a ticket of the breaker in hand: a connection, or the queue. */
static void start_attempt(struct http_call *call)
{
    struct http_client *c = call->client;
    struct client_conn *conn = client_conn_take(c);
    call->attempt_ms = loop_now_ms(c->loop);
    if (!conn && c->conn_count >= c->options.max_connections) {
        leave_breaker(call,
                      BREAKER_CANCELLED); /* not sent: takes another ticket when its turn comes */
        TAILQ_INSERT_TAIL(&c->waiting, call, queue);
        call->in_queue = true;
        arm(call, (int64_t)c->options.connect_timeout_ms + c->options.read_timeout_ms);
        return;
    }
    call->attempt++;
    if (!conn)
        conn = client_conn_new(c, &call->failure);
    if (!conn) {
        call->doomed = true;
        loop_timer_start(call->timer, 0, 0);
        return;
    }
    arm(call, c->options.connect_timeout_ms);
    client_conn_begin(conn, call);
}

/* From the loop only: it may finish the call. */
static void try_now(struct http_call *call)
{
    struct http_client *c = call->client;
    call->ticket = breaker_enter(&c->breaker, loop_now_ms(c->loop));
    if (call->ticket == 0) {
        struct fault f;
        metric_add(c->refused, 1);
        (void)fault_set(&f, RC_RETRY, "%s: the breaker is open", c->host);
        finish(call, NULL, &f);
        return;
    }
    start_attempt(call);
}

void http_client_next(struct http_client *c)
{
    while (!c->closing && !TAILQ_EMPTY(&c->waiting) &&
           (c->conn_count < c->options.max_connections || client_conn_take(c) != NULL)) {
        struct http_call *call = TAILQ_FIRST(&c->waiting);
        /* NOLINTBEGIN(clang-analyzer-unix.Malloc): the analyzer cannot follow the list's links */
        leave_queue(call);
        loop_timer_stop(call->timer);
        /* NOLINTEND(clang-analyzer-unix.Malloc) */
        try_now(call);
    }
}

static void on_sweep(void *arg)
{
    struct http_client *c = arg;
    client_conn_sweep(c);
    metric_set(c->state, (double)breaker_state(&c->breaker, loop_now_ms(c->loop)));
    loop_timer_start(c->sweep, SWEEP_MS, 0);
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    client_conn_reap(arg);
}

static void fill(uint32_t *value, uint32_t fallback)
{
    if (*value == 0)
        *value = fallback;
}

static void fill_options(struct http_client_options *o)
{
    fill(&o->connect_timeout_ms, 5000);
    fill(&o->read_timeout_ms, 10000);
    fill(&o->max_attempts, 3);
    fill(&o->retry_ms, 500);
    fill(&o->max_connections, 16);
    fill(&o->max_calls, 1000);
    fill(&o->idle_ms, 30000);
    fill(&o->max_response_bytes, 1 << 20);
    if (!o->breaker)
        o->breaker = &BREAKER_RULES;
}

/* "http://host:port" (a slash may follow) into the Host header's value and an address. */
static int resolve(struct http_client *c, const char *url, struct fault *f)
{
    char host[256], port[6];
    int used = 0;
    if (sscanf(url, "http://%255[A-Za-z0-9._-]:%5[0-9]%n", host, port, &used) != 2 ||
        (strcmp(url + used, "") != 0 && strcmp(url + used, "/") != 0))
        return fault_set(f, RC_FATAL, "'%.100s' is not of the form http://host:port", url);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return fault_set(f, RC_FATAL, "cannot look %s up: %s", host, gai_strerror(rc));
    memcpy(&c->address, found->ai_addr, found->ai_addrlen);
    c->address_len = found->ai_addrlen;
    freeaddrinfo(found);
    (void)snprintf(c->host, sizeof c->host, "%s:%s", host, port);
    return 0;
}

static void make_series(struct http_client *c)
{
    const struct metric_def *defs = HTTP_CLIENT_METRICS;
    c->ok = metrics_series(&defs[CALLS], (const char *[]){c->host, "ok"});
    c->failed = metrics_series(&defs[CALLS], (const char *[]){c->host, "failed"});
    c->refused = metrics_series(&defs[CALLS], (const char *[]){c->host, "refused"});
    c->seconds = metrics_series(&defs[DURATION], (const char *[]){c->host});
    c->state = metrics_series(&defs[BREAKER_STATE], (const char *[]){c->host});
}

int http_client_open(struct loop *l, const char *url, const struct http_client_options *o,
                     struct http_client **out, struct fault *f)
{
    struct http_client *c = calloc(1, sizeof *c);
    if (!c)
        return fault_set(f, RC_FATAL, "no memory for an HTTP client");
    c->loop = l;
    c->base = loop_base(l);
    if (o)
        c->options = *o;
    fill_options(&c->options);
    c->limits =
        (struct http_parse_limits){MAX_HEADER_BYTES, MAX_HEADERS, c->options.max_response_bytes};
    breaker_init(&c->breaker, c->options.breaker);
    TAILQ_INIT(&c->idle);
    TAILQ_INIT(&c->active);
    TAILQ_INIT(&c->dead);
    TAILQ_INIT(&c->calls);
    TAILQ_INIT(&c->waiting);
    (void)event_assign(&c->reap_event, c->base, -1, 0, on_reap, c);
    if (resolve(c, url, f) != 0 || loop_timer_new(l, on_sweep, c, &c->sweep, f) != 0) {
        free(c);
        return RC_FATAL;
    }
    make_series(c);
    loop_timer_start(c->sweep, SWEEP_MS, 0);
    *out = c;
    return 0;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    c->closing = true;
    struct http_call *call;
    struct fault f;
    (void)fault_set(&f, RC_RETRY, "%s: the client is closing", c->host);
    while ((call = TAILQ_FIRST(&c->calls)) != NULL) {
        drop_conn(call); /* NOLINT(clang-analyzer-unix.Malloc): it cannot follow the list's links */
        leave_breaker(call, BREAKER_CANCELLED);
        finish(call, NULL, &f);
    }
    while (!TAILQ_EMPTY(&c->idle))
        client_conn_close(TAILQ_FIRST(&c->idle));
    (void)event_del(&c->reap_event);
    client_conn_reap(c);
    loop_timer_free(c->sweep);
    free(c);
}

/* No byte that could end a line or a word early. */
static bool clean(const char *text, const char *forbidden)
{
    return text[0] != '\0' && strpbrk(text, forbidden) == NULL;
}

static bool has_body(const struct http_call_spec *spec)
{
    return spec->body_len > 0 || strcmp(spec->method, "POST") == 0 ||
           strcmp(spec->method, "PUT") == 0 || strcmp(spec->method, "PATCH") == 0;
}

static int compose(struct http_call *call, const struct http_call_spec *spec, struct fault *f)
{
    struct buf *b = &call->request;
    if (!clean(spec->method, " \t\r\n") || spec->path[0] != '/' || !clean(spec->path, " \t\r\n#"))
        return fault_set(f, RC_REJECT, "the method or the path is malformed");
    (void)buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\n", spec->method, spec->path,
                     call->client->host);
    for (const char *const *h = spec->headers; h && h[0]; h += 2) {
        if (!clean(h[0], ": \t\r\n") || !h[1] || strpbrk(h[1], "\r\n"))
            return fault_set(f, RC_REJECT, "a header is malformed");
        (void)buf_printf(b, "%s: %s\r\n", h[0], h[1]);
    }
    if (spec->content_type && !clean(spec->content_type, "\r\n"))
        return fault_set(f, RC_REJECT, "the content type is malformed");
    if (spec->content_type)
        (void)buf_printf(b, "Content-Type: %s\r\n", spec->content_type);
    if (has_body(spec))
        (void)buf_printf(b, "Content-Length: %zu\r\n", spec->body_len);
    (void)buf_puts(b, "\r\n");
    (void)buf_append(b, spec->body, spec->body_len);
    return b->failed ? fault_set(f, RC_REJECT, "the request is too large") : 0;
}

static bool idempotent(const struct http_call_spec *spec)
{
    static const char *const METHODS[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof METHODS / sizeof *METHODS; i++)
        if (strcmp(spec->method, METHODS[i]) == 0)
            return true;
    return spec->idempotent;
}

static int make_call(struct http_client *c, const struct http_call_spec *spec,
                     struct http_call **out, struct fault *f)
{
    struct http_call *call = calloc(1, sizeof *call);
    if (!call)
        return fault_set(f, RC_RETRY, "no memory for a call");
    call->client = c;
    call->idempotent = idempotent(spec);
    call->head = strcmp(spec->method, "HEAD") == 0;
    call->deadline_ms = spec->deadline_ms;
    backoff_init(&call->backoff, c->options.retry_ms, MAX_RETRY_MS, 0);
    buf_init(&call->request, MAX_REQUEST_BYTES);
    int rc = compose(call, spec, f);
    if (rc == 0 && loop_timer_new(c->loop, on_call_timer, call, &call->timer, f) != 0)
        rc = RC_RETRY;
    if (rc != 0) {
        free_call(call);
        return rc;
    }
    *out = call;
    return 0;
}

int http_client_call(struct http_client *c, const struct http_call_spec *spec, http_call_fn fn,
                     void *arg, struct http_call **out_call, struct fault *f)
{
    if (c->closing)
        return fault_set(f, RC_RETRY, "%s: the client is closing", c->host);
    if (c->call_count >= c->options.max_calls)
        return fault_set(f, RC_RETRY, "%s: too many calls are under way", c->host);
    struct http_call *call = NULL;
    int rc = make_call(c, spec, &call, f);
    if (!call)
        return rc;
    call->fn = fn;
    call->arg = arg;
    call->ticket = breaker_enter(&c->breaker, loop_now_ms(c->loop));
    if (call->ticket == 0) {
        metric_add(c->refused, 1);
        free_call(call);
        return fault_set(f, RC_RETRY, "%s: the breaker is open", c->host);
    }
    TAILQ_INSERT_TAIL(&c->calls, call, link);
    c->call_count++;
    start_attempt(call);
    if (out_call)
        *out_call = call;
    return 0;
}

void http_call_cancel(struct http_call *call)
{
    struct http_client *c = call->client;
    struct fault f;
    (void)fault_set(&f, RC_RETRY, "%s: the call was cancelled", c->host);
    drop_conn(call);
    leave_breaker(call, BREAKER_CANCELLED);
    finish(call, NULL, &f);
    http_client_next(c);
}

int64_t http_client_wait_ms(const struct http_client *c)
{
    return breaker_wait_ms(&c->breaker, clock_mono_ms());
}

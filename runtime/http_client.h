/* http_client.h - calls to one other service over HTTP/1.1, asynchronous on the loop.
 *
 * A client belongs to one target (http://host:port) and one loop. It keeps a bounded pool of
 * connections, a breaker, and a bounded number of calls. A call is tried again only after a network
 * error, only when it is idempotent, at most max_attempts times in all; an answer of any status is
 * never asked for twice. Redirects are not followed. */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/metrics.h"

struct breaker_rules;
struct fault;
struct http_call;
struct http_client;
struct loop;

struct http_client_options {     /* 0 = the default in brackets */
    uint32_t connect_timeout_ms; /* [5000] */
    uint32_t read_timeout_ms;    /* [10000] from the request sent to the answer complete */
    uint32_t max_attempts;       /* [3] */
    uint32_t retry_ms;           /* [500] before the second attempt, doubling, with jitter */
    uint32_t max_connections;    /* [16] */
    uint32_t max_calls;          /* [1000] under way, those that wait for a connection included */
    uint32_t idle_ms;            /* [30000] an unused connection is closed */
    uint32_t max_response_bytes; /* [1048576] */
    const struct breaker_rules *breaker; /* [BREAKER_RULES], copied */
};

struct http_call_spec {
    const char *method;         /* "GET" */
    const char *path;           /* with its query, percent-encoded: "/internal/seats?x=1" */
    const char *const *headers; /* name, value, name, value …, NULL; may be NULL */
    const char *content_type;   /* of the body; may be NULL */
    const void *body;
    size_t body_len;
    bool idempotent;     /* also when the method does not say so (GET, HEAD, PUT, DELETE do) */
    int64_t deadline_ms; /* clock_mono_ms() by which the callback has fired, retries included; 0:
                            none */
};

struct http_reply; /* valid during the callback */
int http_reply_status(const struct http_reply *r);
const char *http_reply_body(const struct http_reply *r, size_t *out_len);    /* followed by a NUL */
const char *http_reply_header(const struct http_reply *r, const char *name); /* NULL: absent */

/* reply is NULL when there was none; then f says why: RC_RETRY (network, time-out, breaker,
 * cancelled, closed) or RC_REJECT (what came back is not HTTP, or larger than allowed). */
typedef void (*http_call_fn)(const struct http_reply *reply, const struct fault *f, void *arg);

/* `url` is "http://host:port"; a name is looked up once, here, which may block: open clients before
 * the loop serves. RC_FATAL: not such a URL, or the name is unknown. */
int http_client_open(struct loop *l, const char *url, const struct http_client_options *o,
                     struct http_client **out, struct fault *f);

/* Every call under way gets its callback (RC_RETRY) before this returns; calls they start are
 * refused. Not from inside a callback. Accepts NULL. */
void http_client_free(struct http_client *c);

/* Copies *spec. 0: fn fires exactly once, later, never from inside this call. RC_RETRY: the breaker
 * is open or max_calls are under way; RC_REJECT: a header or path with forbidden bytes. Then fn
 * never fires. *out_call (out_call may be NULL) is valid until fn fires. */
int http_client_call(struct http_client *c, const struct http_call_spec *spec, http_call_fn fn,
                     void *arg, struct http_call **out_call, struct fault *f);

/* fn fires (RC_RETRY) before this returns. */
void http_call_cancel(struct http_call *call);

int64_t
http_client_wait_ms(const struct http_client *c); /* for Retry-After; 0: the breaker is not open */

extern const struct metric_def HTTP_CLIENT_METRICS[]; /* ends with a NULL name */

#endif

/* http_server.h - HTTP/1.1 on libevent's core and llhttp: one listener per loop (SO_REUSEPORT).
 *
 * A request is answered exactly once, now or later, by the loop's own thread; it stays valid until
 * then, also when the client has gone (the answer is dropped). Strings of a request live as long as
 * it. Requests of one connection are handled one after the other (pipelining keeps its order). */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/metrics.h"

struct buf;
struct embed_file;
struct fault;
struct http_request;
struct http_server;
struct loop;

enum http_method { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE };
/* HEAD is answered by the GET route without its body; OPTIONS with Allow; another method on a known
 * path is 405 with Allow; an unknown path 404. */

typedef void (*http_handler_fn)(struct http_request *req, void *arg);

struct http_route {
    enum http_method method;
    const char
        *path; /* "/api/seats/{seatId}"; a last segment "{rest...}" takes the remaining path */
    http_handler_fn handle;
    void *arg; /* NULL: the server's `arg` */
};

struct http_limits {            /* 0 = the default in brackets */
    uint32_t max_connections;   /* [10000] past it: 503 with Retry-After, and a close */
    uint32_t max_header_bytes;  /* [16384] 431 */
    uint32_t max_headers;       /* [100] 431 */
    uint32_t max_body_bytes;    /* [65536] 413 */
    uint32_t header_timeout_ms; /* [10000] 408: from a request's first byte to its last header */
    uint32_t body_timeout_ms;   /* [10000] 408 */
    uint32_t idle_timeout_ms;   /* [75000] keep-alive without a request: closed silently */
    uint32_t write_timeout_ms;  /* [30000] a client that does not read its answer is cut */
    uint32_t
        max_stream_bytes; /* [65536] unsent bytes of a server-sent-event stream before it is cut */
};

struct http_server_options {
    const char *address; /* "127.0.0.1" */
    uint16_t port;       /* 0: any, see http_server_port() */
    struct http_limits limits;
    const struct http_route *const
        *routes;     /* tables ending with a NULL path; the array with NULL */
    void *arg;       /* given to handlers whose route has none */
    bool access_log; /* one info line per request */
};

int http_server_open(struct loop *l, const struct http_server_options *o, struct http_server **out,
                     struct fault *f);
uint16_t http_server_port(const struct http_server *s);
/* Graceful: stops accepting, answers what is under way with Connection: close, closes idle
 * connections and streams; calls done(arg) once, from the loop, when none is left or the monotonic
 * clock has reached deadline_ms (clock_mono_ms() + grace). done may free the server. */
void http_server_drain(struct http_server *s, int64_t deadline_ms, void (*done)(void *), void *arg);
void http_server_free(struct http_server *s); /* cuts what is still open; accepts NULL */

/* The request. Names of headers ignore case; NULL when absent. Path parameters and query values are
 * percent-decoded once; a path with "..", "//", "%2f", "%00", ";" or bad UTF-8 never reaches a
 * handler (400). */
enum http_method http_method(const struct http_request *req);
const char *http_method_name(const struct http_request *req); /* "HEAD" for a HEAD */
const char *http_path(const struct http_request *req);        /* decoded, without the query */
const char *http_param(const struct http_request *req, const char *name);
const char *http_query(const struct http_request *req,
                       const char *name); /* the first of that name */
const char *http_header(const struct http_request *req, const char *name);
const char *http_cookie(const struct http_request *req, const char *name);
const char *http_body(const struct http_request *req, size_t *out_len);
const char *
http_request_id(const struct http_request *req); /* X-Request-Id if well formed, else made */
const char *http_client_address(const struct http_request *req); /* the peer's, never a header's */
struct loop *http_loop(const struct http_request *req);
void *http_server_arg(const struct http_request *req);

/* The answer: headers first, then exactly one of these. Data is copied unless said otherwise. */
int http_set_header(struct http_request *req, const char *name,
                    const char *value); /* RC_REJECT: CR, LF */
void http_respond(struct http_request *req, int status, const char *content_type, const void *data,
                  size_t len);
void http_respond_json(struct http_request *req, int status,
                       const struct buf *json); /* failed: 500 */
/* {"error":{"code":…,"message":…}} */
void http_error(struct http_request *req, int status, const char *code, const char *message);
/* An embedded file with ETag, Cache-Control and 304. */
void http_respond_file(struct http_request *req, const struct embed_file *file,
                       const char *content_type, const char *cache_control);

/* Server-sent events. After http_stream_start() the request is gone and the stream lives until its
 * on_close callback, which fires exactly once (client gone, too slow, drain, http_stream_close),
 * from the loop, never inside another call of this module; the stream is freed when it returns.
 * NULL: no memory; the request was answered 503 and on_close will not fire. */
struct http_stream;
typedef void (*http_stream_fn)(struct http_stream *stream, void *arg);
struct http_stream *http_stream_start(struct http_request *req, http_stream_fn on_close, void *arg);
/* One event; `id` and `event` may be NULL; newlines in data are split as the format wants.
 * RC_RETRY: the client is more than max_stream_bytes behind, nothing was queued and the stream will
 * close. */
int http_stream_send(struct http_stream *stream, const char *event, const char *id,
                     const char *data);
size_t
http_stream_pending(const struct http_stream *stream); /* bytes not yet taken by the kernel */
void http_stream_close(struct http_stream *stream);

/* Paced broadcast: visits every open stream of the server that was started with `topic` set, at
 * most `per_tick` every 2 ms, and calls fn for each; a new pass waits until the last has ended
 * (passes asked for meanwhile fold into one). Keeps the API quick while thousands are told. */
void http_stream_set_topic(struct http_stream *stream,
                           const char *topic); /* copied, <= 128 bytes */
/* RC_RETRY: too many topics are being broadcast to at once, or no memory; fn will not be called.
 * `arg` must stay valid until the pass has ended: give it the life of the server. */
int http_broadcast(struct http_server *s, const char *topic, uint32_t per_tick, http_stream_fn fn,
                   void *arg);

/* What the server counts; ends with a NULL name. */
extern const struct metric_def HTTP_METRICS[];

#endif

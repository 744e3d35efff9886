/* http_internal.h - what the files of the HTTP server share. Nobody else includes it.
 *
 * Ownership: a server owns its connections; a connection owns the request it is reading; a request
 * that has been handed to a handler belongs to itself until it is answered, and only then goes back
 * to the server's pool, so that a handler may answer late without knowing whether the client, or
 * even the server, is still there.
 *
 * A connection's state is the list it is in. Each list has one time-out, so it is ordered by
 * deadline and one sweep timer per server looks at heads only. Memory of a closed connection is
 * released by the reaper event, never under a caller's feet. */
#ifndef HTTP_INTERNAL_H
#define HTTP_INTERNAL_H
#include <netinet/in.h>
#include <sys/queue.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "runtime/http_parse.h"
#include "runtime/http_query.h"
#include "runtime/http_router.h"
#include "runtime/http_server.h"

enum {
    HTTP_READ_BYTES = 65536,    /* per loop: one read */
    HTTP_PENDING_BYTES = 65536, /* per connection: read, but not yet its turn */
    HTTP_OUT_BYTES = 1 << 26,   /* per connection: answers not yet taken by the kernel */
    HTTP_MAX_QUERY = 64,
    HTTP_MAX_COOKIES = 64,
    HTTP_LINGER_MS = 2000,
    HTTP_MAX_LINGER = 256, /* connections past the limit that are still told so politely */
    HTTP_ID_LEN = 64,
    HTTP_TOPIC_LEN = 128,
    HTTP_DATE_LEN = 29
};

enum http_phase {
    HTTP_PHASE_IDLE,
    HTTP_PHASE_HEADER,
    HTTP_PHASE_BODY,
    HTTP_PHASE_HANDLING, /* a handler has the request: its own deadline applies */
    HTTP_PHASE_WRITING,
    HTTP_PHASE_STREAM,
    HTTP_PHASE_LINGER, /* answered and shut for writing; reads until the peer closes */
    HTTP_PHASE_COUNT,
    HTTP_PHASE_DEAD = HTTP_PHASE_COUNT /* closed, waits for the reaper */
};

struct http_request {
    struct http_message message;
    struct http_server *server; /* NULL once the server has been freed */
    struct http_conn *conn;     /* NULL once the client has gone */
    struct loop *loop;
    void *server_arg;
    TAILQ_ENTRY(http_request) link; /* the server's `under_way` or `spare` */
    const char *path;               /* in message.text */
    struct http_match match;
    struct http_slot *slot; /* NULL: no route took it */
    size_t query_count;
    struct http_pair query[HTTP_MAX_QUERY];
    struct http_cookies *cookies; /* made when first asked for */
    struct buf headers;           /* of the answer, from http_set_header() */
    int64_t start_us;
    bool has_cache_control;
    char id[HTTP_ID_LEN + 1];
    char client[INET6_ADDRSTRLEN];
};
TAILQ_HEAD(http_request_list, http_request);

struct http_conn {
    struct http_server *server;
    TAILQ_ENTRY(http_conn) link; /* the list of its phase */
    enum http_phase phase;
    int fd;
    int64_t since_ms; /* it entered the phase, or made progress in it */
    struct event read_event, write_event;
    struct http_parse parse;
    struct http_request *reading;   /* not yet complete */
    struct http_request *under_way; /* handed out, not yet answered */
    struct http_stream *stream;
    struct buf pending; /* input that waits its turn */
    struct buf out;     /* output the kernel did not take, from out_sent on */
    size_t out_sent;
    const char *tail; /* after `out`: bytes that live as long as the program */
    size_t tail_len;
    uint64_t lingered; /* bytes thrown away */
    bool close_after;  /* once everything is written */
    bool linger;       /* input may be unread: closing at once could destroy the answer */
    bool read_off, write_on, peer_closed, told_continue, processing;
    char address[INET6_ADDRSTRLEN]; /* the peer's */
};
TAILQ_HEAD(http_conn_list, http_conn);

struct http_stream {
    struct http_server *server; /* NULL once on_close is due */
    struct http_conn *conn;     /* NULL: closed */
    http_stream_fn on_close;
    void *arg;
    LIST_ENTRY(http_stream) link; /* the server's `streams`, newest first, or `ended` */
    char topic[HTTP_TOPIC_LEN + 1];
};
LIST_HEAD(http_stream_list, http_stream);

struct http_etag {
    const struct embed_file *file;
    char text[40];
};

struct http_broadcast_pass;

struct http_server {
    struct loop *loop;
    struct event_base *base;
    struct http_limits limits;
    struct http_parse_limits parse_limits;
    struct http_router *router;
    void *arg;
    bool access_log, draining, accept_paused;
    int listen_fd;
    uint16_t port;
    struct event accept_event, reap_event;
    struct loop_timer *sweep, *drain_timer;
    struct http_conn_list phases[HTTP_PHASE_COUNT], dead;
    uint32_t open, lingering;           /* connections; of them in HTTP_PHASE_LINGER */
    struct http_request_list under_way; /* with handlers */
    struct http_request_list spare;
    uint32_t spare_count;
    struct http_stream_list streams, ended;
    uint32_t stream_count;
    struct http_broadcast_pass *passes; /* running, one per topic */
    uint32_t pass_count;
    struct loop_timer *broadcast_timer;
    struct http_conn *corked; /* whose answers gather in `out` until its input is used up */
    struct buf out;           /* one answer, or those of one read */
    void (*drained)(void *);
    void *drained_arg;
    int64_t date_second;
    char date[HTTP_DATE_LEN + 1];
    uint64_t id_prefix, id_count;
    struct http_etag *etags;
    size_t etag_count;
    char in[HTTP_READ_BYTES];
};

/* http_conn.c */
/* `address` has INET6_ADDRSTRLEN bytes. Takes fd: NULL: no memory, and it is closed. */
struct http_conn *http_conn_open(struct http_server *s, int fd, const char *address);
void http_conn_close(struct http_conn *c); /* at once; its request or stream lives on without it */
void http_conn_input(struct http_conn *c, const char *data, size_t len);
void http_conn_phase(struct http_conn *c, enum http_phase phase);
struct buf *http_conn_out(struct http_conn *c); /* where the next answer's bytes go */
void http_conn_answered(struct http_conn *c);   /* its request's answer is in http_conn_out() */
void http_conn_flush(struct http_conn *c);
size_t http_conn_unsent(const struct http_conn *c);
void http_conn_expire(struct http_conn *c); /* its phase's time is up */
void http_conn_refuse(struct http_conn *c, int status, const char *code, const char *message);
void http_conn_end(struct http_conn *c); /* closes once everything is written */

/* http_request.c */
struct http_request *http_request_take(struct http_server *s);
void http_request_release(struct http_request *req);
void http_request_identify(struct http_request *req); /* decides its id */
void http_request_dispatch(struct http_request *req); /* routes it: a handler, or an error */
struct http_cookies;

/* http_response.c: gives the request back. `immortal` data is not copied. */
void http_response_send(struct http_request *req, int status, const char *content_type,
                        const char *data, size_t len, bool immortal);
const char *http_response_reason(int status);
void http_response_record(struct http_request *req, int status,
                          size_t len); /* metrics, access log */
/* Writes head and body of an error that no request asked for (no memory, past the limit). */
void http_response_bare(struct http_server *s, struct buf *out, int status, const char *code,
                        const char *message);
const char *http_response_date(struct http_server *s);
void http_response_head(struct http_request *req, struct buf *out, int status,
                        const char *content_type);

/* http_stream.c */
void http_stream_cut(struct http_stream *stream); /* its connection is gone: on_close is due */
void http_stream_reap(struct http_server *s);     /* calls what is due */
void http_stream_stop(struct http_server *s);     /* ends passes and frees their memory */

/* http_server.c */
void http_server_reap_soon(struct http_server *s);
void http_server_check_drained(struct http_server *s);

/* http_metrics.c */
enum http_refusal {
    HTTP_REFUSED_LIMIT,
    HTTP_REFUSED_FDS,
    HTTP_REFUSED_MALFORMED,
    HTTP_REFUSED_LARGE,
    HTTP_REFUSED_SLOW,
    HTTP_REFUSED_STREAM,
    HTTP_REFUSED_COUNT
};
void http_metrics_init(void); /* any thread, any number of times */
void http_metrics_request(struct http_slot *slot, int status, int64_t took_us); /* NULL: no route */
void http_metrics_refused(enum http_refusal reason);
void http_metrics_connections(int delta);
void http_metrics_streams(int delta);

#endif

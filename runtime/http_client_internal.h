/* http_client_internal.h - what http_client.c (calls) and http_client_conn.c (connections) share.
 */
#ifndef HTTP_CLIENT_INTERNAL_H
#define HTTP_CLIENT_INTERNAL_H
#include <sys/queue.h>
#include <sys/socket.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "runtime/backoff.h"
#include "runtime/breaker.h"
#include "runtime/fault.h"
#include "runtime/http_client.h"
#include "runtime/http_parse.h"

struct client_conn;
TAILQ_HEAD(client_conn_list, client_conn);
TAILQ_HEAD(http_call_list, http_call);

struct http_reply {
    const struct http_message *message;
};

/* What became of one attempt. */
enum attempt_end {
    ATTEMPT_NETWORK, /* lost, refused, silent: may be tried again */
    ATTEMPT_BROKEN   /* it answered, but not HTTP, or too much */
};

struct http_call {
    struct http_client *client;
    TAILQ_ENTRY(http_call) link;  /* the client's `calls` */
    TAILQ_ENTRY(http_call) queue; /* `waiting`, when in_queue */
    struct client_conn *conn;
    struct buf request; /* head and body, sent again on each attempt */
    struct loop_timer *timer;
    struct backoff backoff;
    http_call_fn fn;
    void *arg;
    int64_t start_ms, attempt_ms, deadline_ms;
    uint32_t attempt; /* counts from 1 */
    uint32_t ticket;  /* of the breaker; 0: none */
    bool idempotent, head, in_queue;
    bool between; /* attempts: the timer starts the next */
    bool doomed;  /* the timer ends the attempt with `failure` */
    struct fault failure;
};

struct client_conn {
    struct http_client *client;
    TAILQ_ENTRY(client_conn) link; /* idle, or active */
    struct http_call *call;        /* NULL: idle */
    int fd;
    struct event read_event, write_event;
    struct http_parse parse;
    struct http_message message;
    size_t sent;
    int64_t idle_since_ms;
    unsigned interim; /* 1xx answers */
    bool connected;
};

struct http_client {
    struct loop *loop;
    struct event_base *base;
    struct http_client_options options;
    struct http_parse_limits limits;
    struct breaker breaker;
    struct sockaddr_storage address;
    socklen_t address_len;
    char host[264]; /* of the Host header */
    struct client_conn_list idle, active, dead;
    uint32_t conn_count;
    struct http_call_list calls, waiting;
    uint32_t call_count;
    struct loop_timer *sweep;
    struct event reap_event;
    bool closing;
    struct metric *ok, *failed, *refused, *seconds, *state;
};

/* http_client_conn.c */
struct client_conn *
client_conn_take(struct http_client *c); /* an idle one that is still open, or NULL */
/* A new one, connecting; NULL: *f says why. */
struct client_conn *client_conn_new(struct http_client *c, struct fault *f);
void client_conn_begin(struct client_conn *conn, struct http_call *call);
void client_conn_close(struct client_conn *conn); /* its call, if any, is left without one */
void client_conn_reap(struct http_client *c);
void client_conn_sweep(struct http_client *c);

/* http_client.c: what a connection tells its call. */
void http_client_connected(struct http_call *call);
void http_client_replied(struct http_call *call, const struct http_message *message);
void http_client_failed(struct http_call *call, enum attempt_end end, const char *why);
void http_client_next(struct http_client *c); /* a connection is free: whoever waits goes on */

#endif

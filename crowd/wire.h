/* wire.h - a lean HTTP/1.1 client for crowds: many keep-alive connections and event streams in one
 * loop, a few hundred bytes each.
 *
 * The runtime's client is made for services (breaker, retries, one target) and would be most of
 * what is measured here. This one sends bytes that the caller has made and tells times: when a
 * request was due, when it went out and when its answer was complete. Nothing is retried.
 *
 * One thread, the event base's. Callbacks fire exactly once, never from inside wire_send(). */
#ifndef WIRE_H
#define WIRE_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct fault;
struct wire;
struct wire_stream;

enum { WIRE_MAX_TARGETS = 16, WIRE_MAX_ANSWER = 1 << 16 };

struct wire_options {
    struct event_base *base;
    struct sockaddr_in targets[WIRE_MAX_TARGETS]; /* used in turn, by connection */
    size_t target_count;
    uint32_t max_connections; /* for requests; streams have their own */
    uint32_t max_waiting;     /* requests without a connection yet */
    uint32_t timeout_ms;      /* from being sent to the answer complete */
    bool many_sources; /* loopback: spread over 127.0.0.2 … for more than 28,000 connections */
};
int wire_new(const struct wire_options *o, struct wire **out, struct fault *f);
void wire_free(struct wire *w); /* no callback fires; accepts NULL */

struct wire_answer {
    int status;       /* 0: none came; `body` says why */
    const char *body; /* followed by a NUL */
    size_t len;
    int64_t due_us, sent_us, done_us; /* clock_mono_us() */
};
typedef void (*wire_fn)(const struct wire_answer *a, void *arg);

/* Copies the request, a whole one. RC_RETRY: too many wait already; fn never fires then. */
int wire_send(struct wire *w, const void *request, size_t len, int64_t due_us, wire_fn fn,
              void *arg, struct fault *f);
size_t wire_waiting(const struct wire *w);

/* A stream of server-sent events. on_event may be called any number of times; on_end once, at its
 * end, unless wire_stream_close() comes first. status 0: the connection failed or broke. */
typedef void (*wire_event_fn)(const char *name, const char *data, void *arg);
typedef void (*wire_end_fn)(int status, void *arg);
struct wire_stream *wire_stream_open(struct wire *w, const void *request, size_t len,
                                     wire_event_fn on_event, wire_end_fn on_end, void *arg,
                                     struct fault *f);
void wire_stream_close(struct wire_stream *s); /* accepts NULL */

#endif

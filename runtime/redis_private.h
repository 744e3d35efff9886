/* redis_private.h - the client's inside, shared by redis.c, redis_call.c and redis_script.c.
 *
 * A call is in exactly one place, and the place is its state: `waiting` (no connection yet), `wire`
 * (sent; a ring in the order of the replies) or `settled` (no answer will come, its callback is
 * due). A call past its deadline leaves the ring for `settled` and its slot stays behind empty, so
 * that the late reply still finds its place in the order, and is thrown away. */
#ifndef REDIS_PRIVATE_H
#define REDIS_PRIVATE_H
#include "runtime/breaker.h"
#include "runtime/redis.h"
#include "runtime/redis_link.h"

struct metric;

enum { REDIS_RUN_ID_LEN = 40 };

struct redis_call {
    struct redis_call *next;
    redis_fn fn;
    void *arg;
    const struct redis_script *script; /* NULL: a plain command */
    int64_t deadline_ms;
    int64_t started_us;
    uint32_t ticket; /* the breaker's */
    uint32_t frame_len;
    uint32_t body_at;           /* scripts: where the frame goes on behind the SHA-1 */
    uint32_t run_id_at;         /* where the server's run_id goes; 0: nowhere */
    uint32_t parts;             /* scripts: number of the frame's arguments */
    enum redis_outcome outcome; /* once settled */
    bool internal;              /* greeting and probes: in no count, breaker or metric */
    bool sent;
    bool reloaded; /* NOSCRIPT has been met once */
    char frame[];
};

struct redis_queue {
    struct redis_call *first, *last;
};

struct redis_slot_entry {
    struct redis_call *call; /* NULL: timed out, the reply is to be thrown away */
    int64_t deadline_ms;
    bool internal; /* holds no place of max_in_flight */
};

struct redis {
    struct loop *loop;
    struct redis_link link;
    struct redis_options options; /* url is not kept */
    struct breaker breaker;
    struct redis_queue waiting, settled;
    struct redis_slot_entry *wire; /* ring of wire_cap, a power of two */
    uint32_t wire_cap, wire_head, wire_count;
    uint32_t in_flight;
    struct loop_timer *deadline_timer, *probe_timer;
    int64_t deadline_armed_ms; /* when deadline_timer fires; 0: not armed */
    int64_t quiet_since_ms;    /* the last reply, or the first command sent since then */
    uint32_t probes;           /* since the connection is up */
    bool probing;
    bool closing;
    bool refused; /* the greeting failed in a way that only an operator can mend */
    bool connected_once, connection_counted, breaker_counted; /* what the metrics have seen */
    uint32_t refs;
    enum redis_state state;
    char reason[REDIS_REASON_MAX];
    char run_id[REDIS_RUN_ID_LEN + 1];
};

/* redis_frame.c: the bytes of a command. RC_REJECT or RC_RETRY with *out untouched; the caller
 * frees *out with free(). */
struct redis_frame_parts {
    const struct redis_script *script; /* EVALSHA sha n keys args; NULL: args alone */
    const struct redis_arg *keys, *args;
};
int redis_frame_build(const struct redis_frame_parts *parts, size_t max_bytes,
                      struct redis_call **out, struct fault *f);
/* The same call with the script's source instead of its SHA-1. The caller frees it; NULL: no
 * memory. */
char *redis_frame_eval(const struct redis_call *call, size_t *out_len);

/* redis_call.c */
/* Takes the call: it is on its way, or freed when not accepted. */
int redis_call_submit(struct redis *r, struct redis_call *call, int64_t timeout_ms, redis_fn fn,
                      void *arg, struct fault *f);
/* Greeting and probes: straight onto the wire. */
void redis_call_internal(struct redis *r, const struct redis_arg *args, int64_t timeout_ms,
                         redis_fn fn);
void redis_call_send_waiting(struct redis *r);
void redis_call_on_reply(struct redis *r, struct redisReply *reply);
void redis_call_lose_wire(struct redis *r); /* the connection is gone: settles what was sent */
void redis_call_close_all(struct redis *r);
void redis_call_run_settled(struct redis *r); /* fires the callbacks that are due */
void redis_call_on_deadline(void *arg);

/* redis_metrics.c: one set of series for all clients of the process. */
struct redis_series {
    struct metric *outcomes[REDIS_CLOSED + 1];
    struct metric *refused, *in_flight, *seconds, *connections, *reconnects, *reloads, *breakers;
};
const struct redis_series *redis_series(void);

void redis_hold(struct redis *r);
void redis_release(struct redis *r);       /* frees a closed client when nobody holds it any more */
void redis_watch_breaker(struct redis *r); /* after each use of the breaker: keeps its metric */

#endif

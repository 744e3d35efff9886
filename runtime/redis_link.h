/* redis_link.h - one hiredis connection on the loop that comes back by itself. Internal to redis.
 *
 * idle → connecting → open (TCP stands, the owner greets) → ready (redis_link_ready()) → waiting
 * (backoff) → connecting … The owner embeds it. Everything hiredis answers goes to on_reply, in the
 * order of the commands; what is outstanding when the link goes down is the owner's to settle, in
 * on_down. */
#ifndef REDIS_LINK_H
#define REDIS_LINK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/backoff.h"
#include "runtime/redis_url.h"

struct fault;
struct loop;
struct loop_timer;
struct redisReply;
struct resolve;
struct redis_wire; /* hiredis' context and its events: one per connection attempt */

struct redis_link_owner {
    void (*on_open)(void *arg); /* send the greeting; no user code here */
    void (*on_reply)(struct redisReply *reply, void *arg);
    void (*on_down)(const char *reason, void *arg); /* once per attempt that failed or ended */
    /* Bracket everything that may call back into the owner: it must not be freed in between. */
    void (*hold)(void *arg);
    void (*release)(void *arg);
};

enum { REDIS_REASON_MAX = 512 }; /* a host name, a port and a sentence */

enum redis_link_state { LINK_IDLE, LINK_CONNECTING, LINK_OPEN, LINK_READY, LINK_WAITING };

struct redis_link {
    struct loop *loop;
    struct redis_url url;
    const struct redis_link_owner *owner;
    void *arg;
    struct redis_wire *wire;          /* NULL unless CONNECTING (with an address), OPEN or READY */
    const struct redis_wire *writing; /* the wire whose output is being written now */
    struct resolve *resolve;          /* CONNECTING: the host's name is being looked up */
    unsigned attempt;                 /* failed ones: each tries the name's next address */
    struct loop_timer *timer;         /* the attempt's deadline, or the wait before the next */
    struct backoff backoff;
    int64_t connect_timeout_ms;
    int64_t ready_at_ms;
    enum redis_link_state state;
};

/* Zeroed memory in; nothing is connected yet. RC_FATAL: no memory. */
int redis_link_init(struct redis_link *link, struct loop *l, const struct redis_url *url,
                    const struct redis_link_owner *owner, void *arg, struct fault *f);
void redis_link_done(struct redis_link *link); /* closes without on_down */

void redis_link_start(struct redis_link *link);
/* The greeting is over: the attempt's deadline no longer holds. */
void redis_link_ready(struct redis_link *link);
/* Ends the connection, calls on_down and tries again after a backoff. */
void redis_link_drop(struct redis_link *link, const char *reason);

/* OPEN or READY: queues one formatted command (copied); it goes out at the end of this round of
 * callbacks. False: the connection is about to end, on_down will follow. */
bool redis_link_send(struct redis_link *link, const char *frame, size_t len);

#endif

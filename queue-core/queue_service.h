/* queue_service.h - what one loop of urr-queue owns; the parts of the daemon plug in here.
 *
 * Each worker loop has a service of its own, `worker->state`: no locks between loops, and nothing
 * is kept that another instance would miss. A part (queue_part) is a module with routes, timers or
 * a listener; queue_parts.c lists them in the order they open. */
#ifndef QUEUE_SERVICE_H
#define QUEUE_SERVICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue-core/room.h"
#include "queue-core/signed_number.h"
#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/metrics.h"

struct admission;
struct event_directory;
struct fault;
struct http_route;
struct identity_cache;
struct jwt_keys;
struct loop;
struct queue_part;
struct queue_streams;
struct readiness;
struct redis;
struct redis_pubsub;
struct token_keys;
struct worker;

enum { QUEUE_ANSWER_MAX = 8192, QUEUE_PARTS_MAX = 16, QUEUE_LISTENERS_MAX = 8 };

/* data NULL: messages may have been missed (a new subscription): look for yourself. */
typedef void (*queue_message_fn)(const char *data, size_t len, void *arg);
struct queue_listener {
    const char *channel;
    queue_message_fn fn;
    void *arg;
};

struct queue_service {
    struct worker *worker;
    struct loop *loop;
    const struct config *config;
    struct redis *redis; /* NULL while the parts close: whoever waits is told to come again */
    struct redis_pubsub *pubsub;
    struct room *room;
    struct room_rules rules;
    struct jwt_keys *user_keys;        /* JWT_SECRET */
    struct identity_cache *identities; /* tokens that user_keys has verified */
    struct token_keys *entry_keys;     /* QUEUE_ENTRY_TOKEN_SECRET */
    struct token_keys *vwr_keys;       /* VWR_TOKEN_SECRET */
    struct signed_keys numbers;        /* places and requestIds */
    struct event_directory *events;    /* event_directory.h */
    struct queue_streams *streams;     /* queue_stream.h */
    struct admission *admission;       /* admission.h; worker 0 only */
    void *part_state[QUEUE_PARTS_MAX]; /* of the other parts, see queue_part_state() */
    struct buf scratch;                /* one answer while it is written */
    struct readiness *ready;
    bool cookie_secure;
    bool first;          /* worker 0: timers that need to run once per process */
    bool connected_once; /* Redis has answered: a refusal from now on is no wrong setting */
    size_t listener_count;
    struct queue_listener listeners[QUEUE_LISTENERS_MAX];
};

/* A part of the daemon. open and close run on the loop's thread and may be NULL; close also follows
 * an open that failed or never ran, and while Redis's callbacks have all fired. */
struct queue_part {
    const char *name;
    int (*open)(struct queue_service *s, struct fault *f);
    void (*close)(struct queue_service *s);
};
extern const struct queue_part *const QUEUE_PARTS[];     /* ends with NULL */
extern const struct http_route *const QUEUE_ROUTES[];    /* likewise */
extern const struct metric_def *const QUEUE_METRICS[];   /* likewise */
extern const struct config_item *const QUEUE_SETTINGS[]; /* likewise */

/* Where a part keeps what it owns on this loop: set by it in open, freed by it in close. Aborts
 * when the part is not listed. */
void **queue_part_state(struct queue_service *s, const struct queue_part *part);

/* For daemon_spec. */
struct daemon;
int queue_service_check(struct daemon *d, struct fault *f); /* once, before the loops */
int queue_service_open(struct worker *w, struct fault *f);
void queue_service_close(struct worker *w);

/* Messages between all loops of all instances, the sender's own included. Channels are fixed names;
 * listen in a part's open only. What is published while nobody is connected is lost: everything
 * told this way must also be found by looking. */
#define QUEUE_CHANNEL_PROMOTED "queue:promoted" /* "event user user …": let in just now */
#define QUEUE_CHANNEL_CHANGED "queue:changed"   /* "event": settings, closing, room on or off */
int queue_service_listen(struct queue_service *s, const char *channel, queue_message_fn fn,
                         void *arg, struct fault *f);
void queue_service_publish(struct queue_service *s, const char *channel, const char *data,
                           size_t len);
void queue_service_changed(struct queue_service *s, const char *event); /* CHANNEL_CHANGED */

#endif

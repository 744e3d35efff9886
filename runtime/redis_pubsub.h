/* redis_pubsub.h - a connection that listens to channels, and subscribes again after each loss.
 *
 * Messages published while it was away are gone: on_subscribed says from when on none is missed, so
 * that the caller looks once at what it may not have heard. Belongs to one loop and its thread. */
#ifndef REDIS_PUBSUB_H
#define REDIS_PUBSUB_H
#include <stdbool.h>
#include <stddef.h>

struct fault;
struct loop;
struct redis_options;
struct redis_pubsub;

enum { REDIS_PUBSUB_MAX_CHANNELS = 1024 };

struct redis_pubsub_events {
    /* Bytes are borrowed for the time of the call and followed by a NUL. */
    void (*on_message)(const char *channel, const char *data, size_t len, void *arg);
    /* That channel's subscription is in force: after each subscribe and after each reconnect. May
     * be NULL. */
    void (*on_subscribed)(const char *channel, void *arg);
    void *arg;
};

/* Uses url, connect_timeout_ms, stall_ms, probe_ms, backoff_max_ms and on_state with arg from the
 * options. Starts connecting and returns; RC_REJECT: the URL is no good. */
int redis_pubsub_open(struct loop *l, const struct redis_options *o,
                      const struct redis_pubsub_events *events, struct redis_pubsub **out,
                      struct fault *f);
/* No callback after it. Fine inside one. Accepts NULL. */
void redis_pubsub_close(struct redis_pubsub *p);

/* Subscribes now, or with the next connection. A channel subscribed already is no error. RC_RETRY:
 * REDIS_PUBSUB_MAX_CHANNELS reached, or no memory. */
int redis_pubsub_subscribe(struct redis_pubsub *p, const char *channel, struct fault *f);
void redis_pubsub_unsubscribe(struct redis_pubsub *p, const char *channel);
bool redis_pubsub_listening(const struct redis_pubsub *p); /* connected, every channel in force */

#endif

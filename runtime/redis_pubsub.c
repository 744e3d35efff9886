/* redis_pubsub.c - channels that stay subscribed across connections.
 *
 * A subscribed connection (RESP2) answers PING in a form hiredis 0.14 cannot match with its
 * callback. So the probe is a channel of our own: subscribing to it again is answered each time, by
 * itself it greets a fresh connection, and it keeps the connection subscribed when no other channel
 * is. */
#include "runtime/redis_pubsub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/redis_private.h"

enum {
    STALL_MS = 2000,
    PROBE_MS = 1000,
    BACKOFF_BASE_MS = 50,
    BACKOFF_MAX_MS = 2000,
    MAX_FRAME_BYTES = 64 * 1024
};

static const char PROBE[] = "urr:probe";

struct channel {
    struct channel *next;
    bool in_force;
    char name[];
};

struct redis_pubsub {
    struct loop *loop;
    struct redis_link link;
    struct redis_pubsub_events events;
    redis_state_fn on_state;
    void *state_arg;
    struct channel *channels;
    struct loop_timer *probe_timer;
    int64_t heard_ms;
    int64_t stall_ms, probe_ms;
    unsigned count;
    uint32_t refs;
    bool closing;
    bool refused;
    enum redis_state state;
    char reason[REDIS_REASON_MAX];
};

static void hold(void *arg)
{
    struct redis_pubsub *p = arg;
    p->refs++;
}

static void destroy(struct redis_pubsub *p)
{
    for (struct channel *c = p->channels; c;) {
        struct channel *next = c->next;
        free(c);
        c = next;
    }
    loop_timer_free(p->probe_timer);
    redis_link_done(&p->link);
    free(p);
}

static void release(void *arg)
{
    struct redis_pubsub *p = arg;
    if (--p->refs == 0)
        destroy(p);
}

static void set_state(struct redis_pubsub *p, enum redis_state state, const char *reason)
{
    if (p->closing || (p->state == state && strcmp(p->reason, reason) == 0))
        return;
    p->state = state;
    (void)snprintf(p->reason, sizeof p->reason, "%s", reason);
    if (p->on_state)
        p->on_state(state, p->reason, p->state_arg);
}

/* Nothing is lost when it cannot be sent: the connection is ending, and the next one subscribes to
 * everything. */
static void send_args(struct redis_pubsub *p, const struct redis_arg *args)
{
    struct redis_call *call;
    if (redis_frame_build(&(struct redis_frame_parts){.args = args}, MAX_FRAME_BYTES, &call, NULL))
        return;
    (void)redis_link_send(&p->link, call->frame, call->frame_len);
    free(call);
}

static void subscribe(struct redis_pubsub *p, const char *channel)
{
    send_args(p, REDIS_ARGS(REDIS_STR("SUBSCRIBE"), REDIS_STR(channel)));
}

static struct channel *find(struct redis_pubsub *p, const char *name)
{
    for (struct channel *c = p->channels; c; c = c->next)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

static void on_open(void *arg)
{
    struct redis_pubsub *p = arg;
    const struct redis_url *url = &p->link.url;
    if (url->user[0])
        send_args(p, REDIS_ARGS(REDIS_STR("AUTH"), REDIS_STR(url->user), REDIS_STR(url->password)));
    else if (url->password[0])
        send_args(p, REDIS_ARGS(REDIS_STR("AUTH"), REDIS_STR(url->password)));
    subscribe(p, PROBE);
    for (struct channel *c = p->channels; c; c = c->next)
        subscribe(p, c->name);
}

static void on_confirmed(struct redis_pubsub *p, const char *name)
{
    if (strcmp(name, PROBE) == 0) {
        if (p->link.state != LINK_OPEN)
            return;
        redis_link_ready(&p->link);
        loop_timer_start(p->probe_timer, p->probe_ms, p->probe_ms);
        set_state(p, REDIS_UP, "");
        return;
    }
    struct channel *c = find(p, name);
    if (!c)
        return; /* unsubscribed meanwhile */
    c->in_force = true;
    if (p->events.on_subscribed)
        p->events.on_subscribed(c->name, p->events.arg);
}

static void on_message(struct redis_pubsub *p, const redisReply *reply)
{
    struct channel *c = find(p, reply->element[1]->str);
    const redisReply *data = reply->element[2];
    if (c && data->type == REDIS_REPLY_STRING)
        p->events.on_message(c->name, data->str, data->len, p->events.arg);
}

static void on_reply(struct redisReply *reply, void *arg)
{
    struct redis_pubsub *p = arg;
    p->heard_ms = loop_now_ms(p->loop);
    if (reply->type == REDIS_REPLY_ERROR) { /* AUTH's; others end the connection inside hiredis */
        char reason[REDIS_REASON_MAX];
        (void)snprintf(reason, sizeof reason, "%s:%u: refuses our login: %s", p->link.url.host,
                       p->link.url.port, reply->str);
        p->refused = true;
        redis_link_drop(&p->link, reason);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 || !reply->element[1]->str)
        return;
    const char *kind = reply->element[0]->str;
    if (strcmp(kind, "message") == 0)
        on_message(p, reply);
    else if (strcmp(kind, "subscribe") == 0)
        on_confirmed(p, reply->element[1]->str);
}

static void on_down(const char *reason, void *arg)
{
    struct redis_pubsub *p = arg;
    loop_timer_stop(p->probe_timer);
    for (struct channel *c = p->channels; c; c = c->next)
        c->in_force = false;
    enum redis_state state = p->refused ? REDIS_REFUSED : REDIS_DOWN;
    p->refused = false;
    set_state(p, state, reason);
}

static void on_probe(void *arg)
{
    struct redis_pubsub *p = arg;
    if (loop_now_ms(p->loop) - p->heard_ms > p->probe_ms + p->stall_ms)
        redis_link_drop(&p->link, "Redis has stopped answering");
    else
        subscribe(p, PROBE);
}

static const struct redis_link_owner OWNER = {on_open, on_reply, on_down, hold, release};

int redis_pubsub_open(struct loop *l, const struct redis_options *o,
                      const struct redis_pubsub_events *events, struct redis_pubsub **out,
                      struct fault *f)
{
    struct redis_url url;
    int rc = redis_url_parse(o->url, &url, f);
    if (rc)
        return rc;
    struct redis_pubsub *p = calloc(1, sizeof *p);
    if (!p)
        return fault_set(f, RC_FATAL, "no memory for a Redis listener");
    p->loop = l;
    p->refs = 1;
    p->events = *events;
    p->on_state = o->on_state;
    p->state_arg = o->arg;
    p->stall_ms = o->stall_ms ? o->stall_ms : STALL_MS;
    p->probe_ms = o->probe_ms ? o->probe_ms : PROBE_MS;
    rc = redis_link_init(&p->link, l, &url, &OWNER, p, f);
    if (!rc)
        rc = loop_timer_new(l, on_probe, p, &p->probe_timer, f);
    explicit_bzero(&url, sizeof url);
    if (rc) {
        destroy(p);
        return rc;
    }
    if (o->connect_timeout_ms)
        p->link.connect_timeout_ms = o->connect_timeout_ms;
    backoff_init(&p->link.backoff, BACKOFF_BASE_MS,
                 o->backoff_max_ms ? o->backoff_max_ms : BACKOFF_MAX_MS, 0);
    redis_link_start(&p->link);
    *out = p;
    return 0;
}

void redis_pubsub_close(struct redis_pubsub *p)
{
    if (!p || p->closing)
        return;
    p->closing = true;
    loop_timer_stop(p->probe_timer);
    redis_link_done(&p->link);
    release(p);
}

int redis_pubsub_subscribe(struct redis_pubsub *p, const char *channel, struct fault *f)
{
    if (find(p, channel))
        return 0;
    if (p->count == REDIS_PUBSUB_MAX_CHANNELS)
        return fault_set(f, RC_RETRY, "already listening to %u channels", p->count);
    size_t len = strlen(channel);
    struct channel *c = malloc(sizeof *c + len + 1);
    if (!c)
        return fault_set(f, RC_RETRY, "no memory for a Redis channel");
    memcpy(c->name, channel, len + 1);
    c->in_force = false;
    c->next = p->channels;
    p->channels = c;
    p->count++;
    if (p->link.state == LINK_OPEN || p->link.state == LINK_READY)
        subscribe(p, channel);
    return 0;
}

void redis_pubsub_unsubscribe(struct redis_pubsub *p, const char *channel)
{
    for (struct channel **at = &p->channels; *at; at = &(*at)->next) {
        struct channel *c = *at;
        if (strcmp(c->name, channel) != 0)
            continue;
        if (p->link.state == LINK_OPEN || p->link.state == LINK_READY)
            send_args(p, REDIS_ARGS(REDIS_STR("UNSUBSCRIBE"), REDIS_STR(channel)));
        *at = c->next;
        free(c);
        p->count--;
        return;
    }
}

bool redis_pubsub_listening(const struct redis_pubsub *p)
{
    bool all = p->link.state == LINK_READY;
    for (const struct channel *c = p->channels; c; c = c->next)
        all = all && c->in_force;
    return all;
}

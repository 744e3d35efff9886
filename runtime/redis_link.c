/* redis_link.c - hiredis' event hooks on libevent, connection attempts and their deadlines.
 *
 * Two things differ from the adapter that comes with hiredis, both for speed: the read event stays
 * registered, and output is not written by waiting for the socket to be writable but at the end of
 * the current round of callbacks (event_active puts the flush behind everything already due). All
 * commands of a round thus share one write(2), and a busy connection makes no epoll_ctl calls.
 *
 * hiredis frees its context by itself after errors, at once or, inside a reply callback, after it.
 * So the context and its events form a `wire` that is detached from the link before any of this
 * happens; a detached wire can no longer reach the link. */
#include "runtime/redis_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/resolve.h"

enum {
    BACKOFF_BASE_MS = 50,
    BACKOFF_MAX_MS = 2000,
    CONNECT_TIMEOUT_MS = 2000,
    /* hiredis gives its read buffer back when it grew beyond this and is empty: its default is as
     * large as one read, which makes it allocate for every read of a busy connection. */
    READER_KEEP_BYTES = 256 * 1024
};

struct redis_wire {
    struct redis_link *link; /* NULL: detached */
    redisAsyncContext *context;
    struct event *read, *write, *flush;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct redis_wire *wire = arg;
    struct redis_link *link = wire->link;
    link->owner->hold(link->arg);
    redisAsyncHandleRead(wire->context); /* the wire may be gone afterwards */
    link->owner->release(link->arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct redis_wire *wire = arg;
    struct redis_link *link = wire->link;
    link->owner->hold(link->arg);
    link->writing = wire;
    redisAsyncHandleWrite(wire->context); /* the wire may be gone afterwards */
    link->writing = NULL;
    link->owner->release(link->arg);
}

static void hook_add_read(void *data)
{
    struct redis_wire *wire = data;
    if (!event_pending(wire->read, EV_READ, NULL))
        (void)event_add(wire->read, NULL);
}

static void hook_del_read(void *data)
{
    struct redis_wire *wire = data;
    (void)event_del(wire->read);
}

/* hiredis asks for it during a write that the socket did not take whole, and after each command. */
static void hook_add_write(void *data)
{
    struct redis_wire *wire = data;
    bool connected = (wire->context->c.flags & REDIS_CONNECTED) != 0;
    if (!connected || (wire->link && wire->link->writing == wire))
        (void)event_add(wire->write, NULL);
    else if (!event_pending(wire->write, EV_WRITE, NULL))
        event_active(wire->flush, EV_WRITE, 0);
}

static void hook_del_write(void *data)
{
    struct redis_wire *wire = data;
    if (event_pending(wire->write, EV_WRITE, NULL))
        (void)event_del(wire->write);
}

static void free_wire(void *data)
{
    struct redis_wire *wire = data;
    if (wire->read)
        event_free(wire->read);
    if (wire->write)
        event_free(wire->write);
    if (wire->flush)
        event_free(wire->flush);
    free(wire);
}

static struct redis_wire *detach(struct redis_link *link)
{
    struct redis_wire *wire = link->wire;
    link->wire = NULL;
    if (wire) {
        wire->link = NULL;
        wire->context->data = NULL;
        (void)event_del(wire->read); /* a detached wire's events must not fire */
        (void)event_del(wire->write);
        (void)event_del(wire->flush);
    }
    return wire;
}

/* The attempt is over and its wire detached: tell the owner, try again later. */
static void go_down(struct redis_link *link, const char *reason)
{
    int64_t now_ms = loop_now_ms(link->loop);
    bool was_ready = link->state == LINK_READY;
    /* A server that greets and dies at once must not be hammered: only a connection that lasted as
     * long as the longest wait counts as a success. */
    link->attempt += !was_ready;
    if (was_ready && now_ms - link->ready_at_ms >= link->backoff.max_ms)
        backoff_reset(&link->backoff);
    link->state = LINK_WAITING;
    loop_timer_start(link->timer, backoff_next_ms(&link->backoff), 0);
    link->owner->hold(link->arg);
    link->owner->on_down(reason, link->arg);
    link->owner->release(link->arg);
}

static void describe(const struct redis_link *link, const char *what, char *out, size_t size)
{
    (void)snprintf(out, size, "%s:%u: %s", link->url.host, link->url.port, what);
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct redis_link *link = context->data;
    if (!link)
        return;
    if (status == REDIS_OK) {
        link->state = LINK_OPEN;
        link->owner->on_open(link->arg);
        return;
    }
    char reason[REDIS_REASON_MAX];
    describe(link, context->c.errstr, reason, sizeof reason);
    (void)detach(link); /* hiredis frees the context when this returns */
    go_down(link, reason);
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct redis_link *link = context->data;
    if (!link)
        return;
    char reason[REDIS_REASON_MAX];
    describe(link, status == REDIS_OK ? "closed" : context->errstr, reason, sizeof reason);
    /* hiredis has called the clean-up hook already: the wire is gone. */
    link->wire = NULL;
    go_down(link, reason);
}

/* The hook runs before on_disconnect: leave the link a NULL instead of a dangling pointer. */
static void hook_cleanup(void *data)
{
    struct redis_wire *wire = data;
    if (wire->link && wire->link->wire == wire)
        wire->link->wire = NULL;
    free_wire(wire);
}

static void on_reply(redisAsyncContext *context, void *reply, void *unused)
{
    (void)unused;
    struct redis_link *link = context->data;
    if (link && reply) /* NULL: hiredis clears its list, the owner settles its own in on_down */
        link->owner->on_reply(reply, link->arg);
}

static struct redis_wire *make_wire(struct redis_link *link, redisAsyncContext *context)
{
    struct redis_wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return NULL;
    struct event_base *base = loop_base(link->loop);
    wire->link = link;
    wire->context = context;
    wire->read = event_new(base, context->c.fd, EV_READ | EV_PERSIST, on_readable, wire);
    wire->write = event_new(base, context->c.fd, EV_WRITE, on_writable, wire);
    wire->flush = event_new(base, -1, 0, on_writable, wire);
    if (!wire->read || !wire->write || !wire->flush) {
        free_wire(wire);
        return NULL;
    }
    return wire;
}

static bool attach(struct redis_link *link, redisAsyncContext *context)
{
    struct redis_wire *wire = make_wire(link, context);
    if (!wire)
        return false;
    context->data = link;
    context->ev.data = wire;
    context->ev.addRead = hook_add_read;
    context->ev.delRead = hook_del_read;
    context->ev.addWrite = hook_add_write;
    context->ev.delWrite = hook_del_write;
    context->ev.cleanup = hook_cleanup;
    context->c.reader->maxbuf = READER_KEEP_BYTES;
    link->wire = wire;
    (void)redisAsyncSetConnectCallback(context, on_connect); /* asks for the first write event */
    (void)redisAsyncSetDisconnectCallback(context, on_disconnect);
    return true;
}

static void connect_to(struct redis_link *link, const char *address)
{
    redisAsyncContext *context = redisAsyncConnect(address, link->url.port);
    if (context && !context->err && attach(link, context))
        return;
    char reason[REDIS_REASON_MAX];
    describe(link, context && context->err ? context->errstr : "no memory", reason, sizeof reason);
    if (context)
        redisAsyncFree(context);
    go_down(link, reason);
}

static void on_resolved(const struct resolve_answer *answer, void *arg)
{
    struct redis_link *link = arg;
    link->resolve = NULL;
    link->owner->hold(link->arg);
    if (answer->count > 0) {
        connect_to(link, answer->at[link->attempt % answer->count].text);
    } else {
        char reason[REDIS_REASON_MAX];
        describe(link, answer->reason, reason, sizeof reason);
        go_down(link, reason);
    }
    link->owner->release(link->arg);
}

static void connect_now(struct redis_link *link)
{
    link->state = LINK_CONNECTING;
    loop_timer_start(link->timer, link->connect_timeout_ms, 0);
    if (!resolve_needed(link->url.host)) {
        connect_to(link, link->url.host);
        return;
    }
    struct fault f;
    if (resolve_start(link->loop, link->url.host, on_resolved, link, &link->resolve, &f) != 0) {
        char reason[REDIS_REASON_MAX];
        describe(link, f.text, reason, sizeof reason);
        go_down(link, reason);
    }
}

static void on_timer(void *arg)
{
    struct redis_link *link = arg;
    link->owner->hold(link->arg);
    if (link->state == LINK_WAITING || link->state == LINK_IDLE) {
        connect_now(link);
    } else {
        char reason[REDIS_REASON_MAX];
        describe(link,
                 link->resolve              ? "no address in time"
                 : link->state == LINK_OPEN ? "no greeting in time"
                                            : "no connection in time",
                 reason, sizeof reason);
        redis_link_drop(link, reason);
    }
    link->owner->release(link->arg);
}

int redis_link_init(struct redis_link *link, struct loop *l, const struct redis_url *url,
                    const struct redis_link_owner *owner, void *arg, struct fault *f)
{
    link->loop = l;
    link->url = *url;
    link->owner = owner;
    link->arg = arg;
    link->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    backoff_init(&link->backoff, BACKOFF_BASE_MS, BACKOFF_MAX_MS, 0);
    return loop_timer_new(l, on_timer, link, &link->timer, f);
}

static void cut(struct redis_link *link)
{
    struct redis_wire *wire = detach(link);
    resolve_cancel(link->resolve);
    link->resolve = NULL;
    if (wire)
        redisAsyncFree(wire->context); /* deferred by hiredis inside a reply callback */
}

void redis_link_done(struct redis_link *link)
{
    cut(link);
    loop_timer_free(link->timer);
    link->timer = NULL;
    link->state = LINK_IDLE;
    explicit_bzero(&link->url, sizeof link->url);
}

void redis_link_start(struct redis_link *link)
{
    loop_timer_start(link->timer, 0, 0);
}

void redis_link_ready(struct redis_link *link)
{
    link->state = LINK_READY;
    link->ready_at_ms = loop_now_ms(link->loop);
    loop_timer_stop(link->timer);
}

void redis_link_drop(struct redis_link *link, const char *reason)
{
    if (!link->wire && !link->resolve)
        return;
    cut(link);
    go_down(link, reason);
}

bool redis_link_send(struct redis_link *link, const char *frame, size_t len)
{
    return link->wire &&
           redisAsyncFormattedCommand(link->wire->context, on_reply, NULL, frame, len) == REDIS_OK;
}

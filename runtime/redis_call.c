/* redis_call.c - a command's way: waiting, on the wire, settled; deadlines; exactly one callback.
 */
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/metrics.h"
#include "runtime/redis_private.h"

enum { MIN_RESCAN_MS = 5 }; /* the deadline scan looks at everything: not more often than this */

static void push(struct redis_queue *q, struct redis_call *call)
{
    call->next = NULL;
    if (q->last)
        q->last->next = call;
    else
        q->first = call;
    q->last = call;
}

static struct redis_call *pop(struct redis_queue *q)
{
    struct redis_call *call = q->first;
    if (call) {
        q->first = call->next;
        if (!q->first)
            q->last = NULL;
    }
    return call;
}

static struct redis_slot_entry *slot(struct redis *r, uint32_t i)
{
    return &r->wire[(r->wire_head + i) & (r->wire_cap - 1)];
}

static void arm_deadline(struct redis *r, int64_t at_ms, int64_t now_ms)
{
    if (r->deadline_armed_ms && r->deadline_armed_ms <= at_ms)
        return;
    r->deadline_armed_ms = at_ms;
    loop_timer_start(r->deadline_timer, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

static void put_on_wire(struct redis *r, struct redis_call *call)
{
    if (r->wire_count == 0)
        r->quiet_since_ms = loop_now_ms(r->loop);
    call->sent = true;
    *slot(r, r->wire_count++) = (struct redis_slot_entry){call, call->deadline_ms, call->internal};
}

static bool send_call(struct redis *r, struct redis_call *call)
{
    if (call->run_id_at)
        memcpy(call->frame + call->run_id_at, r->run_id, REDIS_RUN_ID_LEN);
    if (r->wire_count == r->wire_cap || !redis_link_send(&r->link, call->frame, call->frame_len))
        return false;
    put_on_wire(r, call);
    return true;
}

static void leave_flight(struct redis *r)
{
    r->in_flight--;
    metric_gauge_add(redis_series()->in_flight, -1);
}

static void settle(struct redis *r, struct redis_call *call, enum redis_outcome outcome)
{
    call->outcome = outcome;
    push(&r->settled, call);
}

static enum breaker_outcome for_breaker(enum redis_outcome outcome, bool sent)
{
    switch (outcome) {
    case REDIS_LOST:
        return BREAKER_NO_CONNECTION;
    case REDIS_TIMED_OUT: /* of a call that found no connection in time, or of a slow server */
        return sent ? BREAKER_FAILED : BREAKER_NO_CONNECTION;
    case REDIS_CLOSED:
        return BREAKER_CANCELLED;
    case REDIS_ANSWERED:
    case REDIS_ERROR:
    default:
        return BREAKER_OK;
    }
}

static void count(struct redis *r, const struct redis_call *call, enum redis_outcome outcome)
{
    if (call->internal)
        return;
    const struct redis_series *series = redis_series();
    int64_t took_us = clock_mono_us() - call->started_us;
    metric_add(series->outcomes[outcome], 1);
    if (outcome <= REDIS_ERROR)
        metric_observe(series->seconds, (double)took_us / 1e6);
    breaker_leave(&r->breaker, call->ticket, for_breaker(outcome, call->sent), took_us / 1000,
                  loop_now_ms(r->loop));
    redis_watch_breaker(r);
}

/* Ends a call: nothing of it exists any more when its callback runs, so that the callback may issue
 * commands and close the client. */
static void finish(struct redis *r, struct redis_call *call, const struct redis_result *res)
{
    redis_fn fn = call->fn;
    void *arg = call->arg;
    count(r, call, res->outcome);
    free(call);
    fn(res, arg);
}

/* Errors that pass by themselves: the same command may succeed later. */
static int rc_of_error(const char *text)
{
    static const char *const passing[] = {"LOADING ",  "BUSY ",       "OOM ",
                                          "READONLY ", "MASTERDOWN ", "CLUSTERDOWN ",
                                          "TRYAGAIN ", "NOREPLICAS ", "MISCONF "};
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++)
        if (strncmp(text, passing[i], strlen(passing[i])) == 0)
            return RC_RETRY;
    return RC_REJECT;
}

/* The script's call once more, in full. True: it is on the wire again. */
static bool reload(struct redis *r, struct redis_call *call, const redisReply *reply)
{
    if (!call->script || call->reloaded || strncmp(reply->str, "NOSCRIPT", 8) != 0)
        return false;
    size_t len;
    char *frame = redis_frame_eval(call, &len);
    if (!frame)
        return false;
    bool sent = redis_link_send(&r->link, frame, len);
    free(frame);
    if (!sent)
        return false;
    call->reloaded = true;
    put_on_wire(r, call);
    metric_add(redis_series()->reloads, 1);
    return true;
}

int redis_call_submit(struct redis *r, struct redis_call *call, int64_t timeout_ms, redis_fn fn,
                      void *arg, struct fault *f)
{
    int64_t now_ms = loop_now_ms(r->loop);
    const char *refusal = NULL;
    if (r->closing)
        refusal = "the Redis client is closed";
    else if (r->in_flight >= r->options.max_in_flight)
        refusal = "too many Redis commands in flight";
    else if ((call->ticket = breaker_enter(&r->breaker, now_ms)) == 0)
        refusal = "Redis is away";
    redis_watch_breaker(r);
    if (refusal) {
        free(call);
        metric_add(redis_series()->refused, 1);
        return fault_set(f, RC_RETRY, "%s", refusal);
    }
    call->fn = fn;
    call->arg = arg;
    call->started_us = clock_mono_us();
    call->deadline_ms = now_ms + (timeout_ms > 0 ? timeout_ms : 0);
    r->in_flight++;
    metric_gauge_add(redis_series()->in_flight, 1);
    if (r->link.state != LINK_READY || r->waiting.first || !send_call(r, call))
        push(&r->waiting, call);
    arm_deadline(r, call->deadline_ms, now_ms);
    return 0;
}

void redis_call_internal(struct redis *r, const struct redis_arg *args, int64_t timeout_ms,
                         redis_fn fn)
{
    struct redis_call *call;
    if (redis_frame_build(&(struct redis_frame_parts){.args = args}, SIZE_MAX, &call, NULL) != 0)
        return; /* no memory: the greeting's or the next probe's deadline deals with it */
    int64_t now_ms = loop_now_ms(r->loop);
    call->internal = true;
    call->fn = fn;
    call->arg = r;
    call->deadline_ms = now_ms + timeout_ms;
    if (!send_call(r, call)) {
        free(call);
        return;
    }
    arm_deadline(r, call->deadline_ms, now_ms);
}

void redis_call_send_waiting(struct redis *r)
{
    struct redis_call *call;
    while (r->link.state == LINK_READY && (call = pop(&r->waiting))) {
        if (send_call(r, call))
            continue;
        call->next = r->waiting.first; /* the connection is ending: back to the front */
        r->waiting.first = call;
        if (!r->waiting.last)
            r->waiting.last = call;
        return;
    }
}

static struct redis_slot_entry take_from_wire(struct redis *r)
{
    struct redis_slot_entry entry = *slot(r, 0);
    r->wire_head = (r->wire_head + 1) & (r->wire_cap - 1);
    r->wire_count--;
    return entry;
}

void redis_call_on_reply(struct redis *r, struct redisReply *reply)
{
    r->quiet_since_ms = loop_now_ms(r->loop);
    if (r->wire_count == 0) { /* a reply to nothing: the order can no longer be trusted */
        redis_link_drop(&r->link, "Redis sent a reply that nobody asked for");
        return;
    }
    struct redis_slot_entry entry = take_from_wire(r);
    struct redis_call *call = entry.call; /* NULL: its callback has fired at the deadline */
    bool error = reply->type == REDIS_REPLY_ERROR;
    if (call && error && reload(r, call, reply))
        return;
    if (!entry.internal)
        leave_flight(r);
    if (!call)
        return;
    struct redis_result res = {.reply = reply, .text = error ? reply->str : ""};
    res.outcome = error ? REDIS_ERROR : REDIS_ANSWERED;
    res.rc = error ? rc_of_error(reply->str) : 0;
    finish(r, call, &res);
}

static void settle_wire(struct redis *r, enum redis_outcome outcome)
{
    while (r->wire_count > 0) {
        struct redis_slot_entry entry = take_from_wire(r);
        if (!entry.internal)
            leave_flight(r);
        if (entry.call)
            settle(r, entry.call, outcome);
    }
}

void redis_call_lose_wire(struct redis *r)
{
    settle_wire(r, REDIS_LOST);
}

void redis_call_close_all(struct redis *r)
{
    settle_wire(r, REDIS_CLOSED);
    struct redis_call *call;
    while ((call = pop(&r->waiting))) {
        leave_flight(r);
        settle(r, call, REDIS_CLOSED);
    }
    redis_call_run_settled(r);
}

void redis_call_run_settled(struct redis *r)
{
    static const char *const texts[] = {[REDIS_TIMED_OUT] = "no answer from Redis in time",
                                        [REDIS_LOST] = "the connection to Redis was lost",
                                        [REDIS_CLOSED] = "the Redis client was closed"};
    struct redis_call *call;
    redis_hold(r);
    while ((call = pop(&r->settled))) {
        struct redis_result res = {RC_RETRY, call->outcome, NULL, texts[call->outcome]};
        finish(r, call, &res);
    }
    redis_release(r);
}

/* Each returns the earliest deadline that is left. */
static int64_t expire_waiting(struct redis *r, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    struct redis_queue kept = {NULL, NULL};
    struct redis_call *call;
    while ((call = pop(&r->waiting))) {
        if (call->deadline_ms <= now_ms) {
            leave_flight(r);
            settle(r, call, REDIS_TIMED_OUT);
            continue;
        }
        if (call->deadline_ms < next_ms)
            next_ms = call->deadline_ms;
        push(&kept, call);
    }
    r->waiting = kept;
    return next_ms;
}

static int64_t expire_wire(struct redis *r, int64_t now_ms, bool *out_late)
{
    int64_t next_ms = INT64_MAX;
    *out_late = false;
    for (uint32_t i = 0; i < r->wire_count; i++) {
        struct redis_slot_entry *entry = slot(r, i);
        if (entry->deadline_ms > now_ms) {
            if (entry->deadline_ms < next_ms)
                next_ms = entry->deadline_ms;
            continue;
        }
        *out_late = true;
        if (entry->call)
            settle(r, entry->call, REDIS_TIMED_OUT);
        entry->call = NULL;
    }
    return next_ms;
}

/* The timer is set for the earliest deadline at the time it was armed. Commands answered meanwhile
 * cost nothing; so on a healthy connection this scan runs about once per time-out, not per command.
 */
void redis_call_on_deadline(void *arg)
{
    struct redis *r = arg;
    int64_t now_ms = loop_now_ms(r->loop);
    bool late = false;
    redis_hold(r);
    r->deadline_armed_ms = 0;
    int64_t next_ms = expire_waiting(r, now_ms);
    int64_t next_wire_ms = expire_wire(r, now_ms, &late);
    if (next_wire_ms < next_ms)
        next_ms = next_wire_ms;
    int64_t stalled_ms = r->quiet_since_ms + r->options.stall_ms;
    if (late && stalled_ms <= now_ms)
        redis_link_drop(&r->link, "Redis has stopped answering");
    else if (late && stalled_ms < next_ms)
        next_ms = stalled_ms;
    if (next_ms != INT64_MAX && !r->closing)
        arm_deadline(r, next_ms > now_ms + MIN_RESCAN_MS ? next_ms : now_ms + MIN_RESCAN_MS,
                     now_ms);
    redis_call_run_settled(r);
    redis_release(r);
}

/* admission.c - admission and clean-up passes over queue:active-events. */
#include "queue-core/admission.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/queue_metrics.h"
#include "queue-core/queue_service.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/redis.h"

static const char ACTIVE_EVENTS[] = "queue:active-events";
/* A sorted set, by when they emptied: their parked users and used numbers are kept for a day each,
 * and somebody has to come by to forget them. */
static const char EMPTIED_EVENTS[] = "queue:emptied-events";
#define EMPTIED_MS INT64_C(180000000) /* 50 hours: by then nothing is left to forget */

enum { CALL_MS = 2000, MIN_TICK_MS = 25, MESSAGE_MAX = ROOM_ADMIT_MAX * (ROOM_USER_MAX + 1) + 128 };

struct admission {
    struct queue_service *service;
    struct loop_timer *admit_timer, *clean_timer;
    bool listing;    /* SMEMBERS is under way */
    bool clean_due;  /* the next list is for a clean-up too */
    uint32_t passes; /* under way, of the last list */
    struct buf message;
};

/* One event's pass. */
struct pass {
    struct admission *admission;
    char event[ROOM_EVENT_MAX + 1];
};

static void on_listed(const struct redis_result *res, void *arg)
{
    (void)arg;
    if (res->rc)
        LOG_DEBUG("a list of events is not changed", LOG_STR("reason", res->text));
}

static void list(struct queue_service *s, const char *verb, const char *event)
{
    struct fault f;
    if (redis_command(s->redis, ACTIVE_EVENTS,
                      REDIS_ARGS(REDIS_STR(verb), REDIS_STR(ACTIVE_EVENTS), REDIS_STR(event)),
                      CALL_MS, on_listed, NULL, &f) != 0)
        LOG_DEBUG("queue:active-events not changed", LOG_STR("reason", f.text));
}

static void list_emptied(struct queue_service *s, const char *event)
{
    char now[24];
    struct fault f;
    (void)snprintf(now, sizeof now, "%" PRId64, clock_wall_ms());
    if (redis_command(s->redis, EMPTIED_EVENTS,
                      REDIS_ARGS(REDIS_STR("ZADD"), REDIS_STR(EMPTIED_EVENTS), REDIS_STR(now),
                                 REDIS_STR(event)),
                      CALL_MS, on_listed, NULL, &f) != 0)
        list(s, "SADD", event); /* it will be emptied once more */
}

void admission_notice(struct queue_service *s, const char *event)
{
    list(s, "SADD", event);
}

/* Takes the place of a pass that has ended, or frees it. */
static void done(struct pass *p)
{
    p->admission->passes--;
    free(p);
}

static void on_second_look(const struct room_view *v, void *arg)
{
    struct pass *p = arg;
    if (v->rc || v->queue_size > 0 || v->active > 0)
        list(p->admission->service, "SADD", p->event);
    else
        list_emptied(p->admission->service, p->event);
    done(p);
}

/* SREM, look again, SADD back: somebody who joins meanwhile adds after joining, so one of the two
 * sees the other. */
static void retire(struct pass *p)
{
    struct queue_service *s = p->admission->service;
    struct fault f;
    list(s, "SREM", p->event);
    if (room_look(s->room, p->event, on_second_look, p, &f) != 0) {
        list(s, "SADD", p->event);
        done(p);
    }
}

static void tell(struct admission *a, const char *event, const struct room_pass *p)
{
    buf_reset(&a->message);
    (void)buf_puts(&a->message, event);
    for (int64_t i = 0; i < p->admitted_count; i++) {
        (void)buf_putc(&a->message, ' ');
        (void)buf_puts(&a->message, p->admitted[i].user);
    }
    if (!a->message.failed)
        queue_service_publish(a->service, QUEUE_CHANNEL_PROMOTED, a->message.data, a->message.len);
}

static void on_admitted(const struct room_pass *r, void *arg)
{
    struct pass *p = arg;
    struct admission *a = p->admission;
    struct fault f;
    if (r->rc) {
        queue_metrics_pass_failed();
        done(p);
        return;
    }
    queue_metrics_passed(r->admitted_count, r->ended, r->parked);
    if (r->admitted_count > 0)
        tell(a, p->event, r);
    if (r->more && room_admit(a->service->room, p->event, on_admitted, p, &f) == 0)
        return;
    if (r->queue_size == 0 && r->active == 0)
        retire(p);
    else
        done(p);
}

static void on_cleaned(const struct room_pass *r, void *arg)
{
    struct pass *p = arg;
    struct fault f;
    if (r->rc == 0 && r->more &&
        room_clean(p->admission->service->room, p->event, false, on_cleaned, p, &f) == 0)
        return;
    done(p);
}

static struct pass *new_pass(struct admission *a, const char *event)
{
    struct pass *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->admission = a;
    memcpy(p->event, event, strlen(event) + 1);
    a->passes++;
    return p;
}

static void begin_admit(struct admission *a, const char *event)
{
    struct fault f;
    struct pass *p = new_pass(a, event);
    if (p && room_admit(a->service->room, event, on_admitted, p, &f) != 0)
        done(p);
}

static void begin_clean(struct admission *a, const char *event)
{
    struct fault f;
    struct pass *p = new_pass(a, event);
    if (p && room_clean(a->service->room, event, true, on_cleaned, p, &f) != 0)
        done(p);
}

static void for_each_event(struct admission *a, const struct redis_result *res,
                           void (*begin)(struct admission *a, const char *event))
{
    for (size_t i = 0; res->rc == 0 && i < redis_reply_count(res->reply); i++) {
        const char *event = redis_reply_str(redis_reply_at(res->reply, i), NULL);
        if (room_event_ok(event))
            begin(a, event);
    }
}

static void on_emptied(const struct redis_result *res, void *arg)
{
    for_each_event(arg, res, begin_clean);
}

/* The longest emptied first, and those that have been forgotten off the list. */
static void clean_emptied(struct admission *a)
{
    char over[24];
    struct fault f;
    struct redis *r = a->service->redis;
    (void)snprintf(over, sizeof over, "%" PRId64, clock_wall_ms() - EMPTIED_MS);
    if (redis_command(r, EMPTIED_EVENTS,
                      REDIS_ARGS(REDIS_STR("ZREMRANGEBYSCORE"), REDIS_STR(EMPTIED_EVENTS),
                                 REDIS_STR("-inf"), REDIS_STR(over)),
                      CALL_MS, on_listed, NULL, &f) == 0)
        (void)redis_command(r, EMPTIED_EVENTS,
                            REDIS_ARGS(REDIS_STR("ZRANGE"), REDIS_STR(EMPTIED_EVENTS),
                                       REDIS_STR("0"), REDIS_STR("999")),
                            CALL_MS, on_emptied, a, &f);
}

static void on_events(const struct redis_result *res, void *arg)
{
    struct admission *a = arg;
    bool clean = a->clean_due && res->rc == 0;
    a->listing = false;
    for_each_event(a, res, begin_admit);
    if (!clean)
        return;
    a->clean_due = false;
    for_each_event(a, res, begin_clean);
    clean_emptied(a);
}

static void on_admit_timer(void *arg)
{
    struct admission *a = arg;
    struct fault f;
    if (a->listing || a->passes > 0)
        return;
    a->listing = redis_command(a->service->redis, ACTIVE_EVENTS,
                               REDIS_ARGS(REDIS_STR("SMEMBERS"), REDIS_STR(ACTIVE_EVENTS)), CALL_MS,
                               on_events, a, &f) == 0;
}

static void on_clean_timer(void *arg)
{
    ((struct admission *)arg)->clean_due = true;
}

static int64_t tick(int64_t interval_ms)
{
    return interval_ms / 4 > MIN_TICK_MS ? interval_ms / 4 : MIN_TICK_MS;
}

/* Asked four times per interval, so that the script's pace is met whoever else asks. */
static int open_admission(struct queue_service *s, struct fault *f)
{
    struct admission *a = s->first ? calloc(1, sizeof *a) : NULL;
    if (!s->first)
        return 0;
    if (!a)
        return fault_set(f, RC_FATAL, "no memory for the admission");
    a->service = s;
    buf_init(&a->message, MESSAGE_MAX);
    s->admission = a;
    int rc = loop_timer_new(s->loop, on_admit_timer, a, &a->admit_timer, f);
    if (rc == 0)
        rc = loop_timer_new(s->loop, on_clean_timer, a, &a->clean_timer, f);
    if (rc)
        return rc;
    int64_t admit_ms = tick(s->rules.interval_ms), clean_ms = tick(s->rules.clean_ms);
    loop_timer_start(a->admit_timer, admit_ms, admit_ms);
    loop_timer_start(a->clean_timer, clean_ms, clean_ms);
    return 0;
}

static void close_admission(struct queue_service *s)
{
    struct admission *a = s->admission;
    if (!a)
        return;
    loop_timer_free(a->admit_timer);
    loop_timer_free(a->clean_timer);
    buf_done(&a->message);
    free(a);
    s->admission = NULL;
}

const struct queue_part ADMISSION_PART = {"admission", open_admission, close_admission};

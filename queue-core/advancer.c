/* advancer.c - Tier 1's counters: moved on smoothly, and known to this loop. */
#include "queue-core/advancer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/room.h"
#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/redis.h"

enum {
    CHAINS = 1021,
    LIST_TIMEOUT_MS = 2000,
    MEASURE_MIN_MS = 10000, /* less says nothing about the pace */
    MEASURE_MAX_MS = 60000  /* then the past counts half */
};
static const char LIST[] = "queue:vwr-events";

struct waiter {
    struct waiter *next;
    advancer_fn fn;
    void *arg;
};

struct known_room {
    struct known_room *chain, *next; /* of its hash; of all */
    struct advancer *owner;
    char event[ROOM_EVENT_MAX + 1];
    bool active, listed, asking, again, removing;
    int64_t serving, last_number;
    int64_t asked_ms;         /* by a visitor */
    int64_t refreshed_ms;     /* 0: never */
    int64_t waited_ms, moved; /* measured while somebody waited */
    char closed_reason[ROOM_TEXT_MAX + 1];
    struct waiter *waiters;
};

struct advancer {
    struct loop *loop;
    struct redis *redis;
    struct room *room;
    struct loop_timer *tick, *list;
    double rate;
    uint32_t count, waiting;
    bool listing;
    struct known_room *rooms;
    struct known_room *chains[CHAINS];
};

static uint32_t chain_of(const char *event)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *event; event++)
        hash = (hash ^ (unsigned char)*event) * 16777619u;
    return hash % CHAINS;
}

static struct known_room *find(const struct advancer *a, const char *event)
{
    struct known_room *r = a->chains[chain_of(event)];
    while (r && strcmp(r->event, event) != 0)
        r = r->chain;
    return r;
}

/* NULL: full, no memory, or no id. */
static struct known_room *find_or_add(struct advancer *a, const char *event)
{
    struct known_room *r = room_event_ok(event) ? find(a, event) : NULL;
    if (r || !room_event_ok(event) || a->count >= ADVANCER_MAX_EVENTS)
        return r;
    r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    (void)snprintf(r->event, sizeof r->event, "%s", event);
    r->owner = a;
    r->asked_ms = loop_now_ms(a->loop);
    r->chain = a->chains[chain_of(event)];
    a->chains[chain_of(event)] = r;
    r->next = a->rooms;
    a->rooms = r;
    a->count++;
    return r;
}

static void drop(struct advancer *a, struct known_room *r)
{
    struct known_room **link = &a->chains[chain_of(r->event)];
    while (*link != r)
        link = &(*link)->chain;
    *link = r->chain;
    for (link = &a->rooms; *link != r; link = &(*link)->next)
        ;
    *link = r->next;
    a->count--;
    free(r);
}

/* Until it is measured the pace is the setting's; nobody waiting says nothing about it. */
static void measure(struct known_room *r, const struct room_tier1 *t, int64_t now_ms)
{
    if (r->refreshed_ms > 0 && r->active && t->active && r->last_number > r->serving &&
        t->serving >= r->serving) {
        r->waited_ms += now_ms - r->refreshed_ms;
        r->moved += t->serving - r->serving;
    }
    if (r->waited_ms > MEASURE_MAX_MS) {
        r->waited_ms /= 2;
        r->moved /= 2;
    }
}

static struct advancer_view view_of(const struct known_room *r)
{
    bool measured = r->waited_ms >= MEASURE_MIN_MS && r->moved > 0;
    return (struct advancer_view){
        .active = r->active,
        .serving = r->serving,
        .last_number = r->last_number,
        .closed_reason = r->closed_reason,
        .rate = measured ? (double)r->moved * 1000.0 / (double)r->waited_ms : r->owner->rate};
}

static void tell_waiters(struct known_room *r, int rc)
{
    struct advancer_view v = rc == 0 ? view_of(r) : (struct advancer_view){.closed_reason = ""};
    struct waiter *list = r->waiters;
    r->waiters = NULL;
    while (list) {
        struct waiter *w = list;
        list = w->next;
        r->owner->waiting--;
        w->fn(rc, &v, w->arg);
        free(w);
    }
}

/* The set of rooms that are on --------------------------------------------------------------------
 */

static void list_change(struct advancer *a, const char *verb, struct known_room *r, redis_fn fn)
{
    struct fault f;
    (void)redis_command(a->redis, LIST,
                        REDIS_ARGS(REDIS_STR(verb), REDIS_STR(LIST), REDIS_STR(r->event)),
                        LIST_TIMEOUT_MS, fn, r, &f);
}

static void on_added(const struct redis_result *res, void *arg)
{
    (void)res; /* the next look at the set tells */
    (void)arg;
}

static void refresh(struct known_room *r);

/* Taken off the list: if an operator switched it on meanwhile, the look that follows adds it. */
static void on_removed(const struct redis_result *res, void *arg)
{
    struct known_room *r = arg;
    r->removing = false;
    if (res->rc != 0)
        return;
    r->listed = false;
    refresh(r);
}

static void mend_list(struct known_room *r)
{
    struct fault f;
    if (r->active && !r->listed) {
        r->listed = true; /* or the next look at the set says otherwise */
        list_change(r->owner, "SADD", r, on_added);
    } else if (!r->active && r->listed && !r->removing) {
        r->removing =
            redis_command(r->owner->redis, LIST,
                          REDIS_ARGS(REDIS_STR("SREM"), REDIS_STR(LIST), REDIS_STR(r->event)),
                          LIST_TIMEOUT_MS, on_removed, r, &f) == 0;
    }
}

static void on_list(const struct redis_result *res, void *arg)
{
    struct advancer *a = arg;
    a->listing = false;
    if (res->rc != 0)
        return;
    for (struct known_room *r = a->rooms; r; r = r->next)
        r->listed = false;
    for (size_t i = 0; i < redis_reply_count(res->reply); i++) {
        const char *event = redis_reply_str(redis_reply_at(res->reply, i), NULL);
        struct known_room *r = event ? find_or_add(a, event) : NULL;
        if (r)
            r->listed = true;
    }
}

static void look_at_list(void *arg)
{
    struct advancer *a = arg;
    struct fault f;
    if (!a->listing)
        a->listing =
            redis_command(a->redis, LIST, REDIS_ARGS(REDIS_STR("SMEMBERS"), REDIS_STR(LIST)),
                          LIST_TIMEOUT_MS, on_list, a, &f) == 0;
}

/* One room ----------------------------------------------------------------------------------------
 */

static void learn(struct known_room *r, const struct room_tier1 *t)
{
    r->active = t->active;
    if (t->serving > r->serving) /* an answer may be late; the counter never goes back */
        r->serving = t->serving;
    r->last_number = t->last_number;
    (void)snprintf(r->closed_reason, sizeof r->closed_reason, "%s", t->closed_reason);
    r->refreshed_ms = loop_now_ms(r->owner->loop);
}

static void on_served(const struct room_tier1 *t, void *arg)
{
    struct known_room *r = arg;
    r->asking = false;
    if (t->rc == 0) {
        measure(r, t, loop_now_ms(r->owner->loop));
        learn(r, t);
        mend_list(r);
    }
    if (r->again) { /* this answer may be older than what it is to show */
        r->again = false;
        refresh(r);
        if (r->asking)
            return;
    }
    tell_waiters(r, t->rc);
}

static void refresh(struct known_room *r)
{
    struct fault f;
    if (!r->asking)
        r->asking = room_serve(r->owner->room, r->event, on_served, r, &f) == 0;
}

static bool forgettable(const struct known_room *r, int64_t now_ms)
{
    return !r->active && !r->listed && !r->asking && !r->removing && !r->waiters &&
           now_ms - r->asked_ms > ADVANCER_IDLE_MS;
}

static void on_tick(void *arg)
{
    struct advancer *a = arg;
    int64_t now_ms = loop_now_ms(a->loop);
    for (struct known_room *r = a->rooms, *next; r; r = next) {
        next = r->next;
        if (forgettable(r, now_ms))
            drop(a, r);
        else
            refresh(r);
    }
}

/* Public ------------------------------------------------------------------------------------------
 */

double advancer_rate(const struct room_rules *rules)
{
    double rate = (double)rules->vwr_batch * 1000.0 / (double)rules->vwr_interval_ms;
    return rate > 0 ? rate : 1; /* a room that is moved by hand only */
}

int advancer_new(struct loop *l, struct redis *redis, struct room *room, double rate,
                 struct advancer **out, struct fault *f)
{
    struct advancer *a = calloc(1, sizeof *a);
    if (!a)
        return fault_set(f, RC_FATAL, "no memory for the first room's counters");
    *a = (struct advancer){.loop = l, .redis = redis, .room = room, .rate = rate};
    int rc = loop_timer_new(l, on_tick, a, &a->tick, f);
    if (rc == 0)
        rc = loop_timer_new(l, look_at_list, a, &a->list, f);
    if (rc != 0) {
        advancer_free(a);
        return rc;
    }
    loop_timer_start(a->tick, ADVANCER_TICK_MS, ADVANCER_TICK_MS);
    loop_timer_start(a->list, 0, ADVANCER_LIST_MS);
    *out = a;
    return 0;
}

void advancer_free(struct advancer *a)
{
    if (!a)
        return;
    loop_timer_free(a->tick);
    loop_timer_free(a->list);
    while (a->rooms) {
        tell_waiters(a->rooms, RC_RETRY);
        drop(a, a->rooms);
    }
    free(a);
}

bool advancer_peek(struct advancer *a, const char *event, struct advancer_view *out)
{
    struct known_room *r = find(a, event);
    if (!r || r->refreshed_ms == 0)
        return false;
    int64_t now_ms = loop_now_ms(a->loop);
    r->asked_ms = now_ms;
    if (now_ms - r->refreshed_ms > (r->active ? ADVANCER_AWAY_MS : ADVANCER_FRESH_MS))
        return false;
    *out = view_of(r);
    return true;
}

int advancer_ask(struct advancer *a, const char *event, advancer_fn fn, void *arg, struct fault *f)
{
    if (!room_event_ok(event))
        return fault_set(f, RC_REJECT, "not an event's id");
    struct known_room *r = find_or_add(a, event);
    struct waiter *w = r && a->waiting < ADVANCER_MAX_WAITERS ? malloc(sizeof *w) : NULL;
    if (!w)
        return fault_set(f, RC_RETRY, "too many rooms or visitors at once");
    refresh(r);
    if (!r->asking) {
        free(w);
        return fault_set(f, RC_RETRY, "Redis is away");
    }
    *w = (struct waiter){r->waiters, fn, arg};
    r->waiters = w;
    r->asked_ms = loop_now_ms(a->loop);
    a->waiting++;
    return 0;
}

void advancer_changed(struct advancer *a, const char *event, const struct room_tier1 *t)
{
    struct known_room *r = find_or_add(a, event);
    if (!r)
        return;
    if (t)
        learn(r, t);
    if (t && t->active) {
        r->listed = true;
        list_change(a, "SADD", r, on_added);
    }
    r->again = r->asking;
    refresh(r);
}

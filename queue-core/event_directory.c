/* event_directory.c - the table of events, the questions under way, and the looks at Redis. */
#include "queue-core/event_directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "queue-core/queue_service.h"
#include "runtime/fault.h"
#include "runtime/http_client.h"
#include "runtime/json.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/redis.h"

enum { CHAINS = 4099, LOOKS_PER_TICK = 64, TICK_MS = 250 };

enum state { NEW, KNOWN, UNKNOWN };

struct waiter {
    STAILQ_ENTRY(waiter) link;
    event_directory_fn fn;
    void *arg;
};
STAILQ_HEAD(waiters, waiter);

struct entry {
    TAILQ_ENTRY(entry) used; /* the directory's list, latest used first */
    struct entry *chain;
    struct event_directory *directory;
    enum state state;
    bool asking;  /* a question is under way: the entry stays */
    bool looking; /* a look is under way: likewise */
    int64_t until_ms, used_ms, look_ms;
    int64_t lost_epoch; /* whose settings are being restored */
    struct waiters waiters;
    struct event_facts facts;
};
TAILQ_HEAD(entries, entry);

struct event_directory {
    struct queue_service *service;
    struct http_client *tickets; /* NULL: no ticket service */
    char authorization[512];
    struct loop_timer *timer;
    struct entries entries;
    struct entry *chains[CHAINS];
    uint32_t count, waiting;
};

/* The table ----------------------------------------------------------------------------------- */

static struct entry **chain_of(struct event_directory *d, const char *event)
{
    uint32_t hash = 2166136261u;
    for (; *event; event++)
        hash = (hash ^ (unsigned char)*event) * 16777619u;
    return &d->chains[hash % CHAINS];
}

static struct entry *find(struct event_directory *d, const char *event)
{
    struct entry *e = *chain_of(d, event);
    while (e && strcmp(e->facts.id, event) != 0)
        e = e->chain;
    return e;
}

static void forget(struct event_directory *d, struct entry *e)
{
    struct entry **at = chain_of(d, e->facts.id);
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    TAILQ_REMOVE(&d->entries, e, used);
    d->count--;
    free(e);
}

/* Unknown ones first: made-up ids must not drive out the events on sale. */
static bool make_room(struct event_directory *d)
{
    struct entry *e, *oldest = NULL;
    if (d->count < EVENT_MAX)
        return true;
    TAILQ_FOREACH_REVERSE(e, &d->entries, entries, used)
    {
        if (e->asking || e->looking)
            continue;
        if (e->state != KNOWN) {
            oldest = e;
            break;
        }
        if (!oldest)
            oldest = e;
    }
    if (oldest)
        forget(d, oldest);
    return oldest != NULL;
}

static struct entry *add(struct event_directory *d, const char *event)
{
    struct entry *e = make_room(d) ? calloc(1, sizeof *e) : NULL;
    if (!e)
        return NULL;
    (void)snprintf(e->facts.id, sizeof e->facts.id, "%s", event);
    e->directory = d;
    STAILQ_INIT(&e->waiters);
    struct entry **chain = chain_of(d, event);
    e->chain = *chain;
    *chain = e;
    TAILQ_INSERT_HEAD(&d->entries, e, used);
    d->count++;
    return e;
}

static void touch(struct event_directory *d, struct entry *e)
{
    int64_t now = loop_now_ms(d->service->loop);
    if (e->used_ms == now)
        return;
    e->used_ms = now;
    TAILQ_REMOVE(&d->entries, e, used);
    TAILQ_INSERT_HEAD(&d->entries, e, used);
}

/* Looks at Redis ------------------------------------------------------------------------------ */

static void on_restored(const struct room_view *v, void *arg)
{
    struct entry *e = arg;
    e->looking = false;
    if (v->rc) {
        LOG_DEBUG("settings not restored", LOG_STR("reason", v->text));
        return;
    }
    e->facts.epoch = e->lost_epoch;
    queue_service_changed(e->directory->service, e->facts.id); /* unknown elsewhere, meanwhile */
}

/* Redis forgot the event's settings; this loop did not. */
static void restore_settings(struct entry *e, int64_t epoch)
{
    const struct event_facts *k = &e->facts;
    struct room_setting settings[ROOM_SETTINGS_MAX + 1];
    char opens[24];
    size_t n = 0;
    struct fault f;
    (void)snprintf(opens, sizeof opens, "%lld", (long long)k->opens_at_ms);
    if (k->registered)
        settings[n++] = (struct room_setting){"registered", "1"};
    if (k->registered && k->title[0])
        settings[n++] = (struct room_setting){"title", k->title};
    if (k->registered && k->artist[0])
        settings[n++] = (struct room_setting){"artist", k->artist};
    if (k->paused)
        settings[n++] = (struct room_setting){"paused", "1"};
    if (k->opens_at_ms > 0)
        settings[n++] = (struct room_setting){"opensAt", opens};
    if (k->closed_reason[0]) {
        settings[n++] = (struct room_setting){"closedReason", k->closed_reason};
        settings[n++] = (struct room_setting){"closed", "1"};
    }
    settings[n] = (struct room_setting){NULL, NULL};
    e->lost_epoch = epoch;
    e->looking = n > 0 && room_configure(e->directory->service->room, k->id, "urr-queue", settings,
                                         on_restored, e, &f) == 0;
}

static bool lost_settings(const struct event_facts *k, const struct room_view *v)
{
    bool blank = !v->registered && !v->paused && !v->closed && v->opens_at_ms == 0 &&
                 v->title[0] == '\0' && v->artist[0] == '\0';
    return blank && k->looked && v->epoch > k->epoch;
}

static void learn(struct event_facts *k, const struct room_view *v)
{
    k->looked = true;
    k->registered = v->registered;
    k->paused = v->paused;
    k->room_active = v->room_active;
    k->opens_at_ms = v->opens_at_ms;
    k->threshold = v->threshold;
    k->queue_size = v->queue_size;
    k->active = v->active;
    k->admitted_last_minute = v->admitted_last_minute;
    k->epoch = v->epoch;
    (void)snprintf(k->closed_reason, sizeof k->closed_reason, "%s", v->closed_reason);
    if (v->title[0])
        (void)snprintf(k->title, sizeof k->title, "%s", v->title);
    if (v->artist[0])
        (void)snprintf(k->artist, sizeof k->artist, "%s", v->artist);
}

static void on_view(const struct room_view *v, void *arg)
{
    struct entry *e = arg;
    e->looking = false;
    if (v->rc)
        return;
    if (lost_settings(&e->facts, v)) {
        restore_settings(e, v->epoch);
        return;
    }
    learn(&e->facts, v);
}

static void look(struct event_directory *d, struct entry *e)
{
    struct fault f;
    if (e->looking || e->state != KNOWN)
        return;
    e->look_ms = loop_now_ms(d->service->loop);
    e->looking = room_look(d->service->room, e->facts.id, on_view, e, &f) == 0;
}

static void on_tick(void *arg)
{
    struct event_directory *d = arg;
    int64_t now = loop_now_ms(d->service->loop);
    int looks = 0;
    struct entry *e;
    TAILQ_FOREACH(e, &d->entries, used)
    {
        if (now - e->used_ms > EVENT_IN_USE_MS || looks == LOOKS_PER_TICK)
            break;
        if (now - e->look_ms >= EVENT_LOOK_MS) {
            look(d, e);
            looks++;
        }
    }
}

/* Questions ----------------------------------------------------------------------------------- */

static void settle(struct entry *e, enum event_answer answer)
{
    struct event_directory *d = e->directory;
    struct waiters waiters = STAILQ_HEAD_INITIALIZER(waiters);
    struct waiter *w;
    int64_t now = loop_now_ms(d->service->loop);
    if (answer == EVENT_AWAY && e->state == KNOWN && d->service->redis)
        answer = EVENT_KNOWN, e->until_ms = now + EVENT_UNKNOWN_MS;
    else if (answer != EVENT_AWAY)
        e->until_ms = now + (answer == EVENT_KNOWN ? EVENT_KNOWN_MS : EVENT_UNKNOWN_MS);
    if (answer != EVENT_AWAY)
        e->state = answer == EVENT_KNOWN ? KNOWN : UNKNOWN;
    if (answer == EVENT_KNOWN && !e->facts.looked)
        look(d, e);
    STAILQ_CONCAT(&waiters, &e->waiters);
    while ((w = STAILQ_FIRST(&waiters)) != NULL) {
        STAILQ_REMOVE_HEAD(&waiters, link);
        d->waiting--;
        w->fn(answer, answer == EVENT_KNOWN ? &e->facts : NULL, w->arg);
        free(w);
    }
    e->asking = false;
}

static void take_text(char out[ROOM_TEXT_MAX + 1], const char *text)
{
    if (text && strlen(text) <= ROOM_TEXT_MAX)
        (void)snprintf(out, ROOM_TEXT_MAX + 1, "%s", text);
}

static void on_info(const struct http_reply *reply, const struct fault *why, void *arg)
{
    struct entry *e = arg;
    struct fault f;
    cJSON *info = NULL;
    size_t len = 0;
    int status = reply ? http_reply_status(reply) : 0;
    if (status == 404) {
        settle(e, EVENT_UNKNOWN);
        return;
    }
    const char *body = reply ? http_reply_body(reply, &len) : NULL;
    if (status != 200 || json_parse(body, len, &info, &f) != 0) {
        LOG_DEBUG("the ticket service does not tell", LOG_INT("status", status),
                  LOG_STR("reason", reply ? NULL : why->text));
        settle(e, EVENT_AWAY);
        return;
    }
    take_text(e->facts.title, json_str(info, "title"));
    take_text(e->facts.artist, json_str(info, "artist"));
    cJSON_Delete(info);
    settle(e, EVENT_KNOWN);
}

static void ask_tickets(struct entry *e)
{
    struct event_directory *d = e->directory;
    char path[ROOM_EVENT_MAX + 64];
    const char *headers[] = {"Authorization", d->authorization, NULL};
    struct fault f;
    if (!d->tickets) {
        settle(e, EVENT_UNKNOWN);
        return;
    }
    (void)snprintf(path, sizeof path, "/internal/events/%s/queue-info", e->facts.id);
    struct http_call_spec call = {
        .method = "GET", .path = path, .headers = d->authorization[0] ? headers : NULL};
    if (http_client_call(d->tickets, &call, on_info, e, NULL, &f) != 0)
        settle(e, EVENT_AWAY);
}

/* It was registered and is not any more: taken back, or lost with Redis's memory? */
static void on_found_out(const struct room_view *v, void *arg)
{
    struct entry *e = arg;
    bool lost = !v->rc && lost_settings(&e->facts, v);
    on_view(v, e);
    if (v->rc)
        settle(e, EVENT_AWAY);
    else if (lost || e->facts.registered)
        settle(e, EVENT_KNOWN);
    else
        ask_tickets(e);
}

static void find_out(struct entry *e)
{
    struct fault f;
    e->looking = room_look(e->directory->service->room, e->facts.id, on_found_out, e, &f) == 0;
    if (!e->looking)
        settle(e, EVENT_AWAY);
}

static void on_settings(const struct redis_result *res, void *arg)
{
    struct entry *e = arg;
    if (res->rc) {
        settle(e, EVENT_AWAY);
        return;
    }
    const char *registered = redis_reply_str(redis_reply_at(res->reply, 0), NULL);
    if (registered && strcmp(registered, "1") == 0) {
        take_text(e->facts.title, redis_reply_str(redis_reply_at(res->reply, 1), NULL));
        take_text(e->facts.artist, redis_reply_str(redis_reply_at(res->reply, 2), NULL));
        settle(e, EVENT_KNOWN);
    } else if (e->state == KNOWN && e->facts.registered && !e->looking) {
        find_out(e);
    } else {
        ask_tickets(e);
    }
}

/* A plain read, not a script: a question about an event that does not exist leaves nothing behind
 * in Redis. */
static int ask(struct event_directory *d, struct entry *e, struct fault *f)
{
    char key[ROOM_EVENT_MAX + 24];
    (void)snprintf(key, sizeof key, "{%s}:settings", e->facts.id);
    int rc = redis_command(d->service->redis, key,
                           REDIS_ARGS(REDIS_STR("HMGET"), REDIS_STR(key), REDIS_STR("registered"),
                                      REDIS_STR("title"), REDIS_STR("artist")),
                           d->service->rules.call_timeout_ms, on_settings, e, f);
    e->asking = rc == 0;
    return rc;
}

/* Public -------------------------------------------------------------------------------------- */

bool event_directory_find(struct queue_service *s, const char *event, enum event_answer *answer,
                          const struct event_facts **facts)
{
    struct entry *e = find(s->events, event);
    if (!e || e->state == NEW || loop_now_ms(s->loop) >= e->until_ms)
        return false;
    touch(s->events, e);
    *answer = e->state == KNOWN ? EVENT_KNOWN : EVENT_UNKNOWN;
    *facts = e->state == KNOWN ? &e->facts : NULL;
    return true;
}

int event_directory_ask(struct queue_service *s, const char *event, event_directory_fn fn,
                        void *arg, struct fault *f)
{
    struct event_directory *d = s->events;
    struct entry *e = find(d, event);
    struct waiter *w = d->waiting < EVENT_MAX_WAITERS ? malloc(sizeof *w) : NULL;
    if (!e && w)
        e = add(d, event);
    if (!w || !e) {
        free(w);
        return fault_set(f, RC_RETRY, "too many ask for events");
    }
    touch(d, e);
    int rc = e->asking ? 0 : ask(d, e, f);
    if (rc) {
        free(w);
        return rc;
    }
    *w = (struct waiter){.fn = fn, .arg = arg};
    STAILQ_INSERT_TAIL(&e->waiters, w, link);
    d->waiting++;
    return 0;
}

void event_directory_heed_epoch(struct queue_service *s, const struct event_facts *facts)
{
    struct room_known known;
    if (facts && facts->looked && room_recall(s->room, facts->id, &known) &&
        known.epoch > facts->epoch)
        event_directory_changed(s, facts->id);
}

void event_directory_changed(struct queue_service *s, const char *event)
{
    struct entry *e = find(s->events, event);
    if (e && e->state == UNKNOWN && !e->asking)
        e->until_ms = 0;
    if (e)
        look(s->events, e);
}

static void on_changed(const char *data, size_t len, void *arg)
{
    (void)len;
    if (data)
        event_directory_changed(arg, data);
}

static int open_tickets(struct event_directory *d, struct fault *f)
{
    const struct config *c = d->service->config;
    const char *url = config_str(c, "TICKET_SERVICE_URL");
    const char *token = config_str(c, "INTERNAL_API_TOKEN");
    if (!url)
        return 0;
    if (token)
        (void)snprintf(d->authorization, sizeof d->authorization, "Bearer %s", token);
    struct http_client_options o = {
        .connect_timeout_ms = 1000, .read_timeout_ms = 3000, .max_attempts = 2};
    return http_client_open(d->service->loop, url, &o, &d->tickets, f);
}

static int open_directory(struct queue_service *s, struct fault *f)
{
    struct event_directory *d = calloc(1, sizeof *d);
    if (!d)
        return fault_set(f, RC_FATAL, "no memory for the directory of events");
    d->service = s;
    TAILQ_INIT(&d->entries);
    s->events = d;
    int rc = open_tickets(d, f);
    if (rc == 0)
        rc = queue_service_listen(s, QUEUE_CHANNEL_CHANGED, on_changed, s, f);
    if (rc == 0)
        rc = loop_timer_new(s->loop, on_tick, d, &d->timer, f);
    if (rc == 0)
        loop_timer_start(d->timer, TICK_MS, TICK_MS);
    return rc;
}

static void close_directory(struct queue_service *s)
{
    struct event_directory *d = s->events;
    if (!d)
        return;
    http_client_free(d->tickets); /* whoever still waits is told */
    for (struct entry *e = TAILQ_FIRST(&d->entries), *next; e; e = next) {
        next = TAILQ_NEXT(e, used);
        settle(e, EVENT_AWAY);
        free(e);
    }
    loop_timer_free(d->timer);
    explicit_bzero(d->authorization, sizeof d->authorization);
    free(d);
    s->events = NULL;
}

const struct queue_part EVENT_DIRECTORY_PART = {"event directory", open_directory, close_directory};

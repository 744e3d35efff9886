/* crowd.c - the users: each a small state machine driven by its answers and one timer. */
#include "crowd/crowd.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/jwt.h"

enum {
    TOKEN_TTL_S = 86400,
    MAX_REQUEST = 8192,
    MAX_PLACE = 80,
    RETRY_MS = 1000,
    BOT_MS = 100,
    MAX_REFUSALS = 30,
    LEAVE_EARLY_MS = 300
};

enum stage {
    COMING,  /* not arrived */
    ROOM,    /* Tier 1: has a number, asks whether it is served */
    JOINING, /* Tier 2: check */
    WAITING, /* told its position */
    ASLEEP,  /* silent, comes back */
    INSIDE,
    LEAVING,
    GONE
};

struct user {
    struct fair_user fair; /* first: the report walks them by stride */
    struct crowd *crowd;
    struct event timer;
    struct wire_stream *stream;
    char *token;      /* Bearer */
    char *request_id; /* Tier 1 */
    char *pass;       /* Tier 1's token */
    char place[MAX_PLACE];
    int64_t arrived_us, inside_until_us;
    uint32_t number, polls, sleep_at, refusals;
    enum stage stage;
    bool streams, no_show, sleeper, bot, busy, asking;
};

struct crowd {
    struct crowd_options o;
    struct wire *wire;
    struct fairness *fair;
    struct user *users;
    struct event *second;
    struct crowd_report report;
    crowd_progress_fn progress;
    void *progress_arg;
    int64_t start_us, gone;
    uint64_t random;
    char *shared_pass; /* the bots': one Tier 1 token for all of them */
    struct fault fault;
    bool stopped;
};

static void on_answer(const struct wire_answer *a, void *arg);
static void on_timer(evutil_socket_t fd, short what, void *arg);

static uint64_t draw(struct crowd *c)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return c->random;
}

static double chance(struct crowd *c)
{
    return (double)(draw(c) >> 11) / 9007199254740992.0;
}

static void after(struct user *u, int64_t ms)
{
    (void)event_add(&u->timer, &(struct timeval){ms / 1000, ms % 1000 * 1000});
}

/* Requests --------------------------------------------------------------------------------------
 */

static int sign(struct user *u)
{
    char claims[256];
    struct buf out;
    struct fault f;
    int64_t now_s = clock_wall_ms() / 1000;
    (void)snprintf(claims, sizeof claims,
                   "{\"userId\":\"%s%u\",\"role\":\"user\",\"iat\":%" PRId64 ",\"exp\":%" PRId64
                   "}",
                   u->crowd->o.prefix, u->number, now_s, now_s + TOKEN_TTL_S);
    buf_init(&out, JWT_MAX_LEN);
    int rc = jwt_sign(u->crowd->o.keys, claims, &out, &f);
    if (rc == 0)
        u->token = buf_take(&out);
    buf_done(&out);
    return u->token ? 0 : -1;
}

__attribute__((format(printf, 4, 5))) static size_t
compose(const struct user *u, char out[MAX_REQUEST], const char *method, const char *path, ...)
{
    char target[1024], body[256] = "";
    va_list args;
    va_start(args, path);
    (void)vsnprintf(target, sizeof target, path, args);
    va_end(args);
    if (u->stage == COMING && u->crowd->o.tier1)
        (void)snprintf(body, sizeof body, "{\"userId\":\"%s%u\"}", u->crowd->o.prefix, u->number);
    const char *pass = u->bot && u->crowd->shared_pass ? u->crowd->shared_pass : u->pass;
    int len =
        snprintf(out, MAX_REQUEST,
                 "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s%s%s%s%s%s%s%s"
                 "Content-Length: %zu\r\n\r\n%s",
                 method, target, u->crowd->o.host, u->token, u->place[0] ? "x-queue-place: " : "",
                 u->place, u->place[0] ? "\r\n" : "", pass ? "x-vwr-token: " : "", pass ? pass : "",
                 pass ? "\r\n" : "", body[0] ? "Content-Type: application/json" : "",
                 body[0] ? "\r\n" : "", strlen(body), body);
    return (size_t)len;
}

static void send_request(struct user *u, const char *bytes, size_t len)
{
    struct fault f;
    u->busy = true;
    u->crowd->report.requests++;
    if (wire_send(u->crowd->wire, bytes, len, clock_mono_us(), on_answer, u, &f) != 0) {
        u->busy = false;
        u->crowd->report.network_errors++;
        u->crowd->report.errors++;
        after(u, RETRY_MS);
    }
}

static void on_stream_event(const char *name, const char *data, void *arg);
static void on_stream_end(int status, void *arg);

/* What the user does next in its stage. */
static void act(struct user *u)
{
    char bytes[MAX_REQUEST];
    const char *event = u->crowd->o.event;
    size_t len = 0;
    struct fault f;
    if (u->busy || u->stage == GONE)
        return;
    switch (u->stage) {
    case COMING:
        len = compose(u, bytes, "POST", "/vwr/assign/%s", event);
        break;
    case ROOM:
        len = compose(u, bytes, "GET", "/vwr/check/%s/%s?userId=%s%u", event, u->request_id,
                      u->crowd->o.prefix, u->number);
        break;
    case JOINING:
        len = compose(u, bytes, "POST", "/api/queue/check/%s", event);
        break;
    case WAITING:
    case ASLEEP:
    case INSIDE:
        if (u->stage == WAITING && u->streams && !u->asking) {
            len = compose(u, bytes, "GET", "/api/queue/stream/%s", event);
            if (!u->stream)
                u->stream = wire_stream_open(u->crowd->wire, bytes, len, on_stream_event,
                                             on_stream_end, u, &f);
            if (!u->stream)
                after(u, RETRY_MS);
            return;
        }
        len = compose(u, bytes, "GET", "/api/queue/status/%s", event);
        break;
    case LEAVING:
        len = compose(u, bytes, "POST", "/api/queue/leave/%s", event);
        break;
    case GONE:
        return;
    }
    u->asking = false;
    send_request(u, bytes, len);
}

/* Steps -----------------------------------------------------------------------------------------
 */

static void go(struct user *u, int64_t *counter)
{
    struct crowd *c = u->crowd;
    if (u->stage == GONE)
        return;
    ++*counter;
    u->stage = GONE;
    (void)event_del(&u->timer);
    wire_stream_close(u->stream);
    u->stream = NULL;
    free(u->token);
    free(u->request_id);
    free(u->pass);
    u->token = u->request_id = u->pass = NULL;
    if (++c->gone == (int64_t)c->o.users)
        (void)event_base_loopbreak(c->o.wire.base);
}

static int64_t stay_ms(struct crowd *c)
{
    return c->o.shop_min_ms + (int64_t)(chance(c) * (double)(c->o.shop_max_ms - c->o.shop_min_ms));
}

static void enter(struct user *u, int64_t sent_us, int64_t heard_us, int64_t expires_ms)
{
    struct crowd *c = u->crowd;
    if (u->stage == INSIDE || u->stage == LEAVING)
        return;
    fairness_enters(c->fair, &u->fair, sent_us, heard_us, expires_ms, clock_wall_ms());
    histogram_add(&c->report.wait_ms, (heard_us - u->arrived_us) / 1000);
    u->stage = INSIDE;
    wire_stream_close(u->stream);
    u->stream = NULL;
    int64_t stay = stay_ms(c), left = expires_ms - clock_wall_ms() - LEAVE_EARLY_MS;
    if (expires_ms && left < stay) /* goes before the slot ends by itself */
        stay = left > 0 ? left : 0;
    u->inside_until_us = heard_us + stay * 1000;
}

/* Sleepers and no-shows have had enough for now; true: nothing more to do. */
static bool drop_off(struct user *u)
{
    if (!u->sleep_at || ++u->polls < u->sleep_at)
        return false;
    if (u->no_show) {
        go(u, &u->crowd->report.no_shows);
        return true;
    }
    u->sleep_at = 0;
    u->crowd->report.slept++;
    u->stage = ASLEEP;
    fairness_silent(&u->fair);
    wire_stream_close(u->stream);
    u->stream = NULL;
    after(u, u->crowd->o.sleep_ms);
    return true;
}

static void wait_on(struct user *u, int64_t next_poll_s)
{
    struct crowd *c = u->crowd;
    double ms = (double)next_poll_s * 1000 * c->o.poll_scale * (0.9 + 0.2 * chance(c));
    if (u->bot)
        ms = BOT_MS;
    if (u->streams && u->stage == WAITING)
        ms = 1;
    after(u, ms < 1 ? 1 : (int64_t)ms);
}

static void told_waiting(struct user *u, const struct wire_answer *a, int64_t next_poll_s)
{
    (void)fairness_waits(u->crowd->fair, &u->fair, a->sent_us, a->done_us, true);
    u->stage = WAITING;
    if (!drop_off(u))
        wait_on(u, next_poll_s);
}

static void told_inside(struct user *u, const struct wire_answer *a, const cJSON *body)
{
    int64_t expires_ms = 0;
    (void)json_int(body, "expiresAt", &expires_ms);
    enter(u, a->sent_us, a->done_us, expires_ms);
    int64_t left_ms = (u->inside_until_us - a->done_us) / 1000;
    int64_t poll_ms = (int64_t)(3000 * u->crowd->o.poll_scale);
    if (left_ms <= 0)
        u->stage = LEAVING;
    after(u, left_ms <= 0 ? 1 : left_ms < poll_ms ? left_ms : poll_ms);
}

static void take_place(struct user *u, const cJSON *body)
{
    const char *place = json_str(body, "place");
    if (!place || strlen(place) >= MAX_PLACE)
        return;
    memcpy(u->place, place, strlen(place) + 1);
    if (!u->fair.score)
        u->fair.score = fairness_score(place);
}

static void told_status(struct user *u, const struct wire_answer *a, const cJSON *body)
{
    const char *status = json_str(body, "status");
    int64_t threshold = 0, next_poll_s = 1;
    struct crowd_report *r = &u->crowd->report;
    if (json_int(body, "threshold", &threshold))
        fairness_threshold(u->crowd->fair, threshold);
    (void)json_int(body, "nextPoll", &next_poll_s);
    take_place(u, body);
    if (!status) {
        r->errors++;
        after(u, RETRY_MS);
    } else if (strcmp(status, "queued") == 0) {
        fairness_leaves(u->crowd->fair, &u->fair); /* a promotion it had not claimed in time */
        told_waiting(u, a, next_poll_s);
    } else if (strcmp(status, "active") == 0) {
        told_inside(u, a, body);
    } else if (strcmp(status, "closed") == 0) {
        go(u, &r->closed);
    } else if (u->stage == INSIDE) {
        fairness_leaves(u->crowd->fair, &u->fair);
        go(u, &r->served); /* the slot's own end */
    } else {
        go(u, &r->lost);
    }
}

static void told_room(struct user *u, const struct wire_answer *a, const cJSON *body)
{
    bool admitted = false;
    int64_t next_poll_s = 2;
    const char *text = json_str(body, u->stage == COMING ? "requestId" : "token");
    (void)json_int(body, "nextPoll", &next_poll_s);
    (void)a;
    if (u->stage == COMING && text) {
        u->request_id = strdup(text);
        u->stage = u->request_id ? ROOM : JOINING;
        u->crowd->report.tier1++;
    } else if (json_bool(body, "admitted", &admitted) && admitted) {
        u->pass = text ? strdup(text) : NULL;
        if (u->bot && text && !u->crowd->shared_pass)
            u->crowd->shared_pass = strdup(text);
        u->stage = JOINING;
        next_poll_s = 0;
    }
    wait_on(u, next_poll_s);
}

/* An answer that is no 200: expected where it says something about the user. */
static void told_error(struct user *u, const struct wire_answer *a)
{
    struct crowd_report *r = &u->crowd->report;
    if (a->status == 404 && u->stage == COMING) { /* no Tier 1 now */
        u->stage = JOINING;
        after(u, 1);
        return;
    }
    if (a->status == 404 && u->stage == ROOM) {
        u->stage = COMING;
        after(u, 1);
        return;
    }
    if (a->status == 410) {
        go(u, &r->closed);
        return;
    }
    if (a->status == 403 && u->stage == JOINING && u->bot) {
        go(u, &r->bots_refused); /* a shared number helps one of them */
        return;
    }
    if (a->status == 403 && u->stage == JOINING && u->crowd->o.tier1 && !u->pass) {
        u->stage = COMING; /* the room was opened meanwhile */
        after(u, 1);
        return;
    }
    r->errors++;
    if (++u->refusals >= MAX_REFUSALS)
        go(u, &r->refused);
    else
        after(u, RETRY_MS);
}

static void on_answer(const struct wire_answer *a, void *arg)
{
    struct user *u = arg;
    struct crowd_report *r = &u->crowd->report;
    struct fault f;
    cJSON *body = NULL;
    u->busy = false;
    if (a->status > 0 && a->status < CROWD_STATUS_MAX)
        r->statuses[a->status]++;
    else
        r->network_errors++;
    r->answers += a->status > 0;
    histogram_add(&r->latency_us, a->done_us - a->due_us);
    if (u->stage == GONE)
        return;
    if (a->status == 200 && json_parse(a->body, a->len, &body, &f) == 0) {
        if (u->stage == LEAVING)
            go(u, &r->served);
        else if (u->stage == COMING || u->stage == ROOM)
            told_room(u, a, body);
        else
            told_status(u, a, body);
    } else {
        told_error(u, a);
    }
    cJSON_Delete(body);
}

/* Streams ---------------------------------------------------------------------------------------
 */

static void on_stream_event(const char *name, const char *data, void *arg)
{
    struct user *u = arg;
    struct crowd *c = u->crowd;
    int64_t now_us = clock_mono_us(), expires_ms = 0;
    struct fault f;
    cJSON *body = NULL;
    c->report.stream_events++;
    u->fair.heard_us = now_us;
    if (strcmp(name, "position") == 0) {
        if (fairness_waits(c->fair, &u->fair, now_us, now_us, false) && !u->busy) {
            u->asking = true;
            act(u); /* looks wrong: an answer to a question of now is proof */
        }
        (void)drop_off(u);
    } else if (strcmp(name, "admitted") == 0 && json_parse(data, strlen(data), &body, &f) == 0) {
        (void)json_int(body, "expiresAt", &expires_ms);
        enter(u, u->fair.last_waiting_us, now_us, expires_ms);
        after(u, 1);
    } else if (strcmp(name, "closed") == 0) {
        go(u, &c->report.closed);
    }
    cJSON_Delete(body);
}

static void on_stream_end(int status, void *arg)
{
    struct user *u = arg;
    u->stream = NULL;
    if (u->stage == GONE)
        return;
    if (status != 200) {
        u->crowd->report.errors++;
        if (status > 0 && status < CROWD_STATUS_MAX)
            u->crowd->report.statuses[status]++;
        else
            u->crowd->report.network_errors++;
    }
    u->asking = true; /* find out first: perhaps it is inside */
    after(u, RETRY_MS);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct user *u = arg;
    struct crowd *c = u->crowd;
    int64_t now_us = clock_mono_us();
    if (u->stage == COMING && !u->token) {
        u->arrived_us = now_us;
        c->report.arrived++;
        if (sign(u) != 0) {
            go(u, &c->report.refused);
            return;
        }
        if (!c->o.tier1 || (u->bot && c->shared_pass))
            u->stage = JOINING;
    }
    if (u->stage == INSIDE && now_us >= u->inside_until_us)
        u->stage = LEAVING;
    if (u->stage == LEAVING)
        fairness_leaves(c->fair, &u->fair);
    act(u);
}

/* The run ---------------------------------------------------------------------------------------
 */

static void begin_user(struct crowd *c, uint32_t i)
{
    struct user *u = &c->users[i];
    double kind = chance(c) * 100;
    u->crowd = c;
    u->number = i;
    if (kind < c->o.bots)
        u->bot = true;
    else if (kind < c->o.bots + c->o.no_shows)
        u->no_show = true;
    else if (kind < c->o.bots + c->o.no_shows + c->o.sleepers)
        u->sleeper = true;
    u->streams = !u->bot && chance(c) * 100 < c->o.streams;
    if (u->no_show || u->sleeper)
        u->sleep_at = 1 + (uint32_t)(draw(c) % 3);
    c->report.bots += u->bot;
    (void)evtimer_assign(&u->timer, c->o.wire.base, on_timer, u);
    after(u, (int64_t)(crowd_arrival(c->o.curve, i, c->o.users) * (double)c->o.over_ms));
}

int crowd_new(const struct crowd_options *o, struct crowd **out, struct fault *f)
{
    struct crowd *c = calloc(1, sizeof *c);
    if (!c)
        return fault_set(f, RC_FATAL, "no memory for a crowd");
    c->o = *o;
    c->random = o->seed ? o->seed : 88172645463325252U;
    c->users = calloc(o->users, sizeof *c->users);
    int rc = c->users ? 0 : fault_set(f, RC_FATAL, "no memory for %u users", o->users);
    if (rc == 0)
        rc = fairness_new(o->users, o->present_ms * 1000, &c->fair, f);
    if (rc == 0)
        rc = wire_new(&o->wire, &c->wire, f);
    if (rc) {
        crowd_free(c);
        return rc;
    }
    c->report.users = o->users;
    *out = c;
    return 0;
}

void crowd_free(struct crowd *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->users && i < c->o.users; i++) {
        struct user *u = &c->users[i];
        if (u->crowd)
            (void)event_del(&u->timer);
        wire_stream_close(u->stream);
        free(u->token);
        free(u->request_id);
        free(u->pass);
    }
    if (c->second)
        event_free(c->second);
    wire_free(c->wire);
    fairness_free(c->fair);
    free(c->shared_pass);
    free(c->users);
    free(c);
}

static const struct crowd_report *count(struct crowd *c)
{
    struct crowd_report *r = &c->report;
    r->elapsed_ms = (clock_mono_us() - c->start_us) / 1000;
    r->waiting_now = r->inside_now = r->unfinished = 0;
    for (uint32_t i = 0; i < c->o.users; i++) {
        enum stage s = c->users[i].stage;
        r->waiting_now += s == ROOM || s == JOINING || s == WAITING || s == ASLEEP;
        r->inside_now += s == INSIDE || s == LEAVING;
        r->unfinished += s != GONE;
    }
    return r;
}

static void on_second(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct crowd *c = arg;
    const struct crowd_report *r = count(c);
    if (c->progress)
        c->progress(r, c->progress_arg);
    if (c->stopped || r->elapsed_ms >= c->o.time_ms)
        (void)event_base_loopbreak(c->o.wire.base);
}

int crowd_run(struct crowd *c, crowd_progress_fn progress, void *arg, struct fault *f)
{
    c->progress = progress;
    c->progress_arg = arg;
    c->start_us = clock_mono_us();
    c->second = event_new(c->o.wire.base, -1, EV_PERSIST, on_second, c);
    if (!c->second || event_add(c->second, &(struct timeval){.tv_sec = 1}) != 0)
        return fault_set(f, RC_FATAL, "no memory for a timer");
    for (uint32_t i = 0; i < c->o.users; i++)
        begin_user(c, i);
    if (event_base_dispatch(c->o.wire.base) < 0)
        return fault_set(f, RC_FATAL, "the event loop failed");
    (void)count(c);
    return 0;
}

void crowd_stop(struct crowd *c)
{
    c->stopped = true;
}

const struct crowd_report *crowd_report(struct crowd *c)
{
    fairness_report(c->fair, &c->users[0].fair, sizeof c->users[0], c->o.users, &c->report.fair);
    return &c->report;
}

bool crowd_fair(const struct crowd_report *r)
{
    return !r->fair.inversions && !r->fair.overshoot && !r->fair.doubles && !r->lost;
}

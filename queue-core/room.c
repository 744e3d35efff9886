/* room.c - calls the waiting room's scripts and remembers what they answer. */
#include "queue-core/room.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/room_private.h"
#include "room_scripts.h"
#include "runtime/fault.h"
#include "runtime/redis.h"

enum script {
    ADMIT,
    ASSIGN,
    CLEAN,
    CLEAR,
    CONFIGURE,
    LEAVE,
    POLL,
    ROOM,
    SERVE,
    VIEW,
    VISIT,
    WATCH,
    SCRIPTS
};

static const char *const FILES[SCRIPTS] = {
    [ADMIT] = "admit.lua", [ASSIGN] = "assign.lua",       [CLEAN] = "clean.lua",
    [CLEAR] = "clear.lua", [CONFIGURE] = "configure.lua", [LEAVE] = "leave.lua",
    [POLL] = "poll.lua",   [ROOM] = "room.lua",           [SERVE] = "serve.lua",
    [VIEW] = "view.lua",   [VISIT] = "visit.lua",         [WATCH] = "watch.lua",
};

/* In the order of the prelude and of poll.lua. */
static const char *const KEYS[] = {
    "seq",          "queue",     "active",   "seen",  "active-seen", "parked",
    "pos-owner",    "threshold", "settings", "state", "vwr",         "log",
    "active-place", "unclaimed", "away",     "holds", "ended"};
static const char *const POLL_KEYS[] = {"state", "active",      "queue",
                                        "seen",  "active-seen", "unclaimed"};
enum {
    KEY_COUNT = sizeof KEYS / sizeof KEYS[0],
    POLL_KEY_COUNT = sizeof POLL_KEYS / sizeof POLL_KEYS[0],
    KEY_MAX = ROOM_EVENT_MAX + 24,
    PREFIX_ARGS = 6,
    TEXT_MAX = 24 * 16 /* the packed numbers of an argument */
};

struct room {
    struct redis *redis;
    struct room_rules rules;
    char defaults[TEXT_MAX];
    struct room_memory *memory;
    char *sources[SCRIPTS];
    struct redis_script scripts[SCRIPTS];
};

/* From the call to its callback. */
struct call {
    struct room *room;
    enum script script;
    union {
        room_visit_fn visit;
        room_pass_fn pass;
        room_view_fn view;
        room_tier1_fn tier1;
        room_watch_fn watch;
    } fn;
    void *arg;
    struct room_shown shown; /* poll: for the visit that may follow */
    char event[ROOM_EVENT_MAX + 1];
    char user[ROOM_USER_MAX + 1];
};

static int load(struct room *room, enum script s, const struct embed_file *prelude, struct fault *f)
{
    const struct embed_file *file = embed_find(room_scripts, FILES[s]);
    if (!file || !prelude)
        return fault_set(f, RC_FATAL, "the program holds no script %s", FILES[s]);
    size_t head = s == POLL ? 0 : embed_len(prelude), len = head + embed_len(file);
    char *source = malloc(len + 1);
    if (!source)
        return fault_set(f, RC_FATAL, "no memory for script %s", FILES[s]);
    memcpy(source, prelude->data, head);
    memcpy(source + head, file->data, embed_len(file) + 1);
    room->sources[s] = source;
    redis_script_init(&room->scripts[s], FILES[s], source, len);
    return 0;
}

static void pack_defaults(struct room *room)
{
    const struct room_rules *r = &room->rules;
    const int64_t values[] = {r->threshold,       r->active_ttl_ms, r->idle_ms,     r->claim_ttl_ms,
                              r->seen_ttl_ms,     r->batch,         r->interval_ms, r->restore_ms,
                              r->max_length,      r->max_wait_ms,   r->clean_ms,    r->vwr_batch,
                              r->vwr_interval_ms, r->log_every};
    size_t at = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        at += (size_t)snprintf(room->defaults + at, sizeof room->defaults - at, "%" PRId64 " ",
                               values[i]);
}

int room_new(struct redis *r, const struct room_rules *rules, struct room **out, struct fault *f)
{
    struct room *room = calloc(1, sizeof *room);
    if (!room)
        return fault_set(f, RC_FATAL, "no memory for a waiting room");
    room->redis = r;
    room->rules = *rules;
    pack_defaults(room);
    room->memory = room_memory_new(rules->events_max);
    int rc = room->memory ? 0 : fault_set(f, RC_FATAL, "no memory for a waiting room");
    const struct embed_file *prelude = embed_find(room_scripts, "prelude.lua");
    for (enum script s = 0; rc == 0 && s < SCRIPTS; s++)
        rc = load(room, s, prelude, f);
    if (rc) {
        room_free(room);
        return rc;
    }
    *out = room;
    return 0;
}

void room_free(struct room *room)
{
    if (!room)
        return;
    for (enum script s = 0; s < SCRIPTS; s++)
        free(room->sources[s]);
    room_memory_free(room->memory);
    free(room);
}

bool room_recall(const struct room *room, const char *event, struct room_known *out)
{
    const struct room_known *known = room_memory_find(room->memory, event);
    if (known)
        *out = *known;
    return known != NULL;
}

/* Sending ------------------------------------------------------------------------------------- */

static int64_t clock_offset(const struct room *room)
{
#ifdef URR_TEST_HOOKS
    return room->rules.clock_offset_ms;
#else
    (void)room;
    return 0;
#endif
}

static void name_keys(const char *event, const char *const *names, size_t count,
                      char text[][KEY_MAX], struct redis_arg *keys)
{
    char tag[ROOM_EVENT_MAX + 4];
    int tag_len = snprintf(tag, sizeof tag, "{%s}:", event);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]);
        memcpy(text[i], tag, (size_t)tag_len);
        memcpy(text[i] + tag_len, names[i], len + 1);
        keys[i] = REDIS_BYTES(text[i], (size_t)tag_len + len);
    }
    keys[count] = REDIS_END;
}

static void on_reply(const struct redis_result *res, void *arg);

static int send_poll(struct call *c, struct fault *f)
{
    struct room *room = c->room;
    const struct room_known *known = room_memory_find(room->memory, c->event);
    char text[POLL_KEY_COUNT][KEY_MAX];
    struct redis_arg keys[POLL_KEY_COUNT + 1];
    name_keys(c->event, POLL_KEYS, POLL_KEY_COUNT, text, keys);
    const struct redis_arg *args =
        REDIS_ARGS(REDIS_RUN_ID, REDIS_INT(clock_offset(room)), REDIS_INT(known ? known->epoch : 0),
                   REDIS_STR(c->user), REDIS_INT(c->shown.token_expiry_ms > 0));
    return redis_eval(room->redis, &room->scripts[POLL], text[0], keys, args,
                      room->rules.call_timeout_ms, on_reply, c, f);
}

/* args: PREFIX_ARGS places to fill, then the script's own and REDIS_END. */
static int send_script(struct call *c, struct redis_arg *args, struct fault *f)
{
    struct room *room = c->room;
    static const struct room_known nothing;
    const struct room_known *known = room_memory_find(room->memory, c->event);
    if (!known)
        known = &nothing;
    char memory[TEXT_MAX];
    (void)snprintf(memory, sizeof memory, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d",
                   known->epoch, known->seq, known->threshold, known->serving, known->room_active);
    char text[KEY_COUNT][KEY_MAX];
    struct redis_arg keys[KEY_COUNT + 1];
    name_keys(c->event, KEYS, KEY_COUNT, text, keys);
    args[0] = REDIS_RUN_ID;
    args[1] = REDIS_INT(clock_offset(room));
    args[2] = REDIS_STR(room->defaults);
    args[3] = REDIS_STR(memory);
    args[4] = REDIS_INT(c->shown.place_epoch);
    args[5] = REDIS_INT(c->shown.place_number);
    return redis_eval(room->redis, &room->scripts[c->script], text[0], keys, args,
                      room->rules.call_timeout_ms, on_reply, c, f);
}

#define OWN_ARGS(...) ((struct redis_arg[]){{0}, {0}, {0}, {0}, {0}, {0}, __VA_ARGS__})

static int send_visit(struct call *c, bool join, struct fault *f)
{
    const struct room_shown *s = &c->shown;
    c->script = VISIT;
    return send_script(c,
                       OWN_ARGS(REDIS_STR(c->user), REDIS_INT(join), REDIS_INT(s->tier1_epoch),
                                REDIS_INT(s->tier1_number), REDIS_INT(s->token_expiry_ms),
                                REDIS_END),
                       f);
}

/* NULL, with the reason in *rc and *f, when the call cannot be made. */
static struct call *new_call(struct room *room, enum script s, const char *event, void *arg,
                             int *rc, struct fault *f)
{
    if (!room_event_ok(event)) {
        *rc =
            fault_set(f, RC_REJECT, "an event's id is 1 to %d of A-Z a-z 0-9 _ -", ROOM_EVENT_MAX);
        return NULL;
    }
    struct call *c = calloc(1, sizeof *c);
    if (!c) {
        *rc = fault_set(f, RC_RETRY, "no memory for a call");
        return NULL;
    }
    c->room = room;
    c->script = s;
    c->arg = arg;
    memcpy(c->event, event, strlen(event) + 1);
    return c;
}

static struct call *new_user_call(struct room *room, enum script s, const char *event,
                                  const char *user, const struct room_shown *shown, void *arg,
                                  int *rc, struct fault *f)
{
    if (!room_user_ok(user)) {
        *rc = fault_set(f, RC_REJECT, "a user's id is 1 to %d of A-Z a-z 0-9 . _ @ + : -",
                        ROOM_USER_MAX);
        return NULL;
    }
    struct call *c = new_call(room, s, event, arg, rc, f);
    if (!c)
        return NULL;
    memcpy(c->user, user, strlen(user) + 1);
    if (shown)
        c->shown = *shown;
    return c;
}

/* A call that was not accepted has no callback. */
static int sent(int rc, struct call *c)
{
    if (rc)
        free(c);
    return rc;
}

/* Answers ------------------------------------------------------------------------------------- */

static void learn(struct call *c, const struct redisReply *reply)
{
    struct room_head h;
    if (!room_reply_head(reply, &h))
        return;
    struct room_known *known = room_memory_of(c->room->memory, c->event);
    if (h.epoch > known->epoch)
        known->epoch = h.epoch;
    if (h.seq > known->seq)
        known->seq = h.seq;
    if (h.threshold >= 0)
        known->threshold = h.threshold;
}

static void learn_serving(struct call *c, bool room_active, int64_t serving)
{
    struct room_known *known = room_memory_of(c->room->memory, c->event);
    known->room_active = room_active;
    known->serving = serving;
}

static void answer_visit(struct call *c, const struct redisReply *r, int rc, const char *text)
{
    struct room_visit v = {.rc = rc, .text = text, .reason = ""};
    if (rc == 0 && !(c->script == LEAVE ? room_reply_leave(r, &v) : room_reply_visit(r, &v)))
        v = (struct room_visit){.rc = RC_REJECT, .text = "a script answered in an unknown form"};
    c->fn.visit(&v, c->arg);
}

static void answer_pass(struct call *c, const struct redisReply *r, int rc, const char *text)
{
    struct room_pass p = {.rc = rc, .text = text};
    struct room_admitted list[ROOM_ADMIT_MAX];
    if (rc == 0 && !(c->script == ADMIT   ? room_reply_admit(r, list, &p)
                     : c->script == CLEAN ? room_reply_clean(r, &p)
                                          : room_reply_clear(r, &p)))
        p = (struct room_pass){.rc = RC_REJECT, .text = "a script answered in an unknown form"};
    c->fn.pass(&p, c->arg);
}

static void answer_view(struct call *c, const struct redisReply *r, int rc, const char *text)
{
    struct room_view v = {.rc = rc, .text = text};
    if (rc == 0 && !(c->script == VIEW ? room_reply_view(r, &v) : room_reply_configure(r, &v)))
        v = (struct room_view){.rc = RC_REJECT, .text = "a script answered in an unknown form"};
    else if (rc == 0 && c->script == VIEW)
        learn_serving(c, v.room_active, v.serving);
    c->fn.view(&v, c->arg);
}

static void answer_tier1(struct call *c, const struct redisReply *r, int rc, const char *text)
{
    struct room_tier1 t = {.rc = rc, .text = text};
    if (rc == 0 && !room_reply_tier1(r, c->script == ASSIGN, &t))
        t = (struct room_tier1){.rc = RC_REJECT, .text = "a script answered in an unknown form"};
    else if (rc == 0)
        learn_serving(c, t.active, t.serving);
    c->fn.tier1(&t, c->arg);
}

static void answer_watch(struct call *c, const struct redisReply *r, int rc, const char *text)
{
    struct room_watch w = {.rc = rc, .text = text};
    struct room_watched list[ROOM_WATCH_MAX];
    if (rc == 0 && !room_reply_watch(r, list, &w))
        w = (struct room_watch){.rc = RC_REJECT, .text = "a script answered in an unknown form"};
    c->fn.watch(&w, c->arg);
}

static void answer(struct call *c, const struct redisReply *r, int rc, const char *text)
{
    switch (c->script) {
    case ADMIT:
    case CLEAN:
    case CLEAR:
        answer_pass(c, r, rc, text);
        break;
    case CONFIGURE:
    case VIEW:
        answer_view(c, r, rc, text);
        break;
    case ASSIGN:
    case ROOM:
    case SERVE:
        answer_tier1(c, r, rc, text);
        break;
    case WATCH:
        answer_watch(c, r, rc, text);
        break;
    case LEAVE:
    case POLL:
    case VISIT:
    case SCRIPTS:
        answer_visit(c, r, rc, text);
        break;
    }
    free(c);
}

static void on_reply(const struct redis_result *res, void *arg)
{
    struct call *c = arg;
    if (res->rc) {
        answer(c, NULL, res->rc, res->text);
        return;
    }
    if (c->script == POLL && room_reply_is_visit(res->reply)) {
        struct fault f;
        int rc = send_visit(c, false, &f);
        if (rc)
            answer(c, NULL, rc, f.text);
        return;
    }
    learn(c, res->reply);
    answer(c, res->reply, 0, "");
}

/* Calls --------------------------------------------------------------------------------------- */

int room_join(struct room *room, const char *event, const char *user,
              const struct room_shown *shown, room_visit_fn fn, void *arg, struct fault *f)
{
    int rc = 0;
    struct call *c = new_user_call(room, VISIT, event, user, shown, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.visit = fn;
    return sent(send_visit(c, true, f), c);
}

int room_poll(struct room *room, const char *event, const char *user,
              const struct room_shown *shown, room_visit_fn fn, void *arg, struct fault *f)
{
    int rc = 0;
    struct call *c = new_user_call(room, POLL, event, user, shown, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.visit = fn;
    return sent(send_poll(c, f), c);
}

int room_leave(struct room *room, const char *event, const char *user,
               const struct room_shown *shown, const char *reason, room_visit_fn fn, void *arg,
               struct fault *f)
{
    int rc = 0;
    struct call *c = new_user_call(room, LEAVE, event, user, shown, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.visit = fn;
    return sent(send_script(c,
                            OWN_ARGS(REDIS_STR(user), REDIS_STR(reason),
                                     REDIS_INT(c->shown.token_expiry_ms), REDIS_END),
                            f),
                c);
}

int room_admit(struct room *room, const char *event, room_pass_fn fn, void *arg, struct fault *f)
{
    int rc = 0;
    struct call *c = new_call(room, ADMIT, event, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.pass = fn;
    return sent(send_script(c, OWN_ARGS(REDIS_END), f), c);
}

int room_clean(struct room *room, const char *event, bool first, room_pass_fn fn, void *arg,
               struct fault *f)
{
    int rc = 0;
    struct call *c = new_call(room, CLEAN, event, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.pass = fn;
    return sent(send_script(c, OWN_ARGS(REDIS_INT(first), REDIS_END), f), c);
}

int room_clear(struct room *room, const char *event, const char *actor, room_pass_fn fn, void *arg,
               struct fault *f)
{
    int rc = 0;
    struct call *c = new_user_call(room, CLEAR, event, actor, NULL, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.pass = fn;
    return sent(send_script(c, OWN_ARGS(REDIS_STR(actor), REDIS_END), f), c);
}

int room_configure(struct room *room, const char *event, const char *actor,
                   const struct room_setting *settings, room_view_fn fn, void *arg, struct fault *f)
{
    struct redis_arg args[PREFIX_ARGS + 1 + 2 * ROOM_SETTINGS_MAX + 1];
    size_t at = PREFIX_ARGS;
    args[at++] = REDIS_STR(actor);
    for (size_t i = 0; settings[i].name; i++) {
        if (i == ROOM_SETTINGS_MAX)
            return fault_set(f, RC_REJECT, "more than %d settings at once", ROOM_SETTINGS_MAX);
        if (!room_setting_ok(&settings[i], f))
            return RC_REJECT;
        args[at++] = REDIS_STR(settings[i].name);
        args[at++] = REDIS_STR(settings[i].value);
    }
    args[at] = REDIS_END;
    int rc = 0;
    struct call *c = new_user_call(room, CONFIGURE, event, actor, NULL, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.view = fn;
    return sent(send_script(c, args, f), c);
}

int room_look(struct room *room, const char *event, room_view_fn fn, void *arg, struct fault *f)
{
    int rc = 0;
    struct call *c = new_call(room, VIEW, event, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.view = fn;
    return sent(send_script(c, OWN_ARGS(REDIS_END), f), c);
}

static int tier1(struct room *room, enum script s, const char *event, struct redis_arg *args,
                 room_tier1_fn fn, void *arg, struct fault *f)
{
    int rc = 0;
    struct call *c = new_call(room, s, event, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.tier1 = fn;
    return sent(send_script(c, args, f), c);
}

int room_assign(struct room *room, const char *event, room_tier1_fn fn, void *arg, struct fault *f)
{
    return tier1(room, ASSIGN, event, OWN_ARGS(REDIS_END), fn, arg, f);
}

int room_operate(struct room *room, const char *event, enum room_action action, const char *actor,
                 int64_t count, room_tier1_fn fn, void *arg, struct fault *f)
{
    static const char *const NAMES[] = {
        [ROOM_ACTIVATE] = "activate", [ROOM_DEACTIVATE] = "deactivate", [ROOM_ADVANCE] = "advance"};
    if (!room_user_ok(actor) || count < 0)
        return fault_set(f, RC_REJECT, "an operation needs an actor and a count from 0");
    return tier1(room, ROOM, event,
                 OWN_ARGS(REDIS_STR(NAMES[action]), REDIS_STR(actor), REDIS_INT(count), REDIS_END),
                 fn, arg, f);
}

int room_serve(struct room *room, const char *event, room_tier1_fn fn, void *arg, struct fault *f)
{
    return tier1(room, SERVE, event, OWN_ARGS(REDIS_END), fn, arg, f);
}

int room_watch(struct room *room, const char *event, const char *const *users, int64_t count,
               room_watch_fn fn, void *arg, struct fault *f)
{
    struct redis_arg args[PREFIX_ARGS + ROOM_WATCH_MAX + 1];
    if (count < 0 || count > ROOM_WATCH_MAX)
        return fault_set(f, RC_REJECT, "at most %d users at once", ROOM_WATCH_MAX);
    for (int64_t i = 0; i < count; i++) {
        if (!room_user_ok(users[i]))
            return fault_set(f, RC_REJECT, "user %" PRId64 " has an id that is none", i);
        args[PREFIX_ARGS + i] = REDIS_STR(users[i]);
    }
    args[PREFIX_ARGS + count] = REDIS_END;
    int rc = 0;
    struct call *c = new_call(room, WATCH, event, arg, &rc, f);
    if (!c)
        return rc;
    c->fn.watch = fn;
    return sent(send_script(c, args, f), c);
}

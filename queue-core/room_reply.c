/* room_reply.c - what the scripts answered, as structs. */
#include <string.h>

#include <hiredis/hiredis.h>

#include "queue-core/room_private.h"
#include "runtime/redis.h"

/* A reply is read front to back; the first thing that is not there spoils the rest. */
struct cursor {
    const struct redisReply *reply;
    size_t at;
    bool bad;
};

static int64_t take_int(struct cursor *c)
{
    int64_t value = 0;
    if (!redis_reply_int(redis_reply_at(c->reply, c->at++), &value))
        c->bad = true;
    return value;
}

static bool take_bool(struct cursor *c)
{
    int64_t value = take_int(c);
    c->bad = c->bad || (value != 0 && value != 1);
    return value == 1;
}

static const char *take_str(struct cursor *c)
{
    const char *text = redis_reply_str(redis_reply_at(c->reply, c->at++), NULL);
    c->bad = c->bad || !text;
    return text ? text : "";
}

static size_t left(const struct cursor *c)
{
    size_t count = redis_reply_count(c->reply);
    return c->at < count ? count - c->at : 0;
}

static bool whole(const struct cursor *c)
{
    return !c->bad && c->at == redis_reply_count(c->reply);
}

static struct room_head take_head(struct cursor *c)
{
    struct room_head h;
    h.epoch = take_int(c);
    h.seq = take_int(c);
    h.queue_size = take_int(c);
    h.active = take_int(c);
    h.threshold = take_int(c);
    return h;
}

static enum room_status take_status(struct cursor *c)
{
    static const struct {
        const char *name;
        enum room_status status;
    } NAMES[] = {
        {"queued", ROOM_QUEUED},         {"active", ROOM_ACTIVE},
        {"closed", ROOM_CLOSED},         {"not_in_queue", ROOM_NOT_IN_QUEUE},
        {"gone", ROOM_NOT_IN_QUEUE},     {"parked", ROOM_PARKED},
        {"need_tier1", ROOM_NEED_TIER1}, {"full", ROOM_FULL},
        {"too_long", ROOM_TOO_LONG},
    };
    const char *text = take_str(c);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strcmp(text, NAMES[i].name) == 0)
            return NAMES[i].status;
    c->bad = true;
    return ROOM_NOT_IN_QUEUE;
}

bool room_reply_head(const struct redisReply *r, struct room_head *out)
{
    struct cursor c = {.reply = r};
    *out = take_head(&c);
    return !c.bad;
}

bool room_reply_is_visit(const struct redisReply *r)
{
    const char *text = redis_reply_str(redis_reply_at(r, 0), NULL);
    return redis_reply_count(r) == 1 && text && strcmp(text, "visit") == 0;
}

bool room_reply_visit(const struct redisReply *r, struct room_visit *out)
{
    struct cursor c = {.reply = r};
    struct room_head h = take_head(&c);
    *out = (struct room_visit){
        .text = "", .queue_size = h.queue_size, .active = h.active, .threshold = h.threshold};
    out->status = take_status(&c);
    out->position = take_int(&c);
    out->expiry_ms = take_int(&c);
    int64_t score = take_int(&c);
    out->place_epoch = score >> 33;
    out->number = score & ((INT64_C(1) << 33) - 1);
    out->reason = take_str(&c);
    return whole(&c) && score >= 0;
}

bool room_reply_leave(const struct redisReply *r, struct room_visit *out)
{
    struct cursor c = {.reply = r};
    struct room_head h = take_head(&c);
    *out = (struct room_visit){.text = "",
                               .queue_size = h.queue_size,
                               .active = h.active,
                               .threshold = h.threshold,
                               .reason = ""};
    out->status = take_status(&c);
    return whole(&c);
}

static struct room_pass take_pass(struct cursor *c)
{
    struct room_head h = take_head(c);
    return (struct room_pass){.text = "", .queue_size = h.queue_size, .active = h.active};
}

bool room_reply_admit(const struct redisReply *r, struct room_admitted *list, struct room_pass *out)
{
    struct cursor c = {.reply = r};
    *out = take_pass(&c);
    out->paced = take_bool(&c);
    out->ended = take_int(&c);
    out->parked = take_int(&c);
    out->more = take_bool(&c);
    out->admitted = list;
    for (; left(&c) > 0 && out->admitted_count < ROOM_ADMIT_MAX; out->admitted_count++) {
        list[out->admitted_count].user = take_str(&c);
        list[out->admitted_count].expiry_ms = take_int(&c);
    }
    return whole(&c);
}

bool room_reply_clean(const struct redisReply *r, struct room_pass *out)
{
    struct cursor c = {.reply = r};
    *out = take_pass(&c);
    out->moved = take_int(&c);
    out->forgotten = take_int(&c);
    out->more = take_bool(&c);
    return whole(&c);
}

bool room_reply_clear(const struct redisReply *r, struct room_pass *out)
{
    struct cursor c = {.reply = r};
    *out = take_pass(&c);
    out->moved = take_int(&c);
    out->more = take_bool(&c);
    return whole(&c);
}

static struct room_view take_view(struct cursor *c)
{
    struct room_head h = take_head(c);
    return (struct room_view){.text = "",
                              .queue_size = h.queue_size,
                              .active = h.active,
                              .threshold = h.threshold,
                              .epoch = h.epoch,
                              .last_number = h.seq,
                              .closed_reason = "",
                              .title = "",
                              .artist = ""};
}

bool room_reply_configure(const struct redisReply *r, struct room_view *out)
{
    struct cursor c = {.reply = r};
    *out = take_view(&c);
    return whole(&c);
}

bool room_reply_view(const struct redisReply *r, struct room_view *out)
{
    struct cursor c = {.reply = r};
    *out = take_view(&c);
    out->room_active = take_bool(&c);
    out->serving = take_int(&c);
    out->parked = take_int(&c);
    out->paused = take_bool(&c);
    out->closed_reason = take_str(&c);
    out->closed = out->closed_reason[0] != '\0';
    out->opens_at_ms = take_int(&c);
    out->title = take_str(&c);
    out->artist = take_str(&c);
    out->registered = take_bool(&c);
    out->admitted_last_minute = take_int(&c);
    out->restoring = take_bool(&c);
    return whole(&c);
}

bool room_reply_tier1(const struct redisReply *r, bool assign, struct room_tier1 *out)
{
    struct cursor c = {.reply = r};
    struct room_head h = take_head(&c);
    *out = (struct room_tier1){.text = "", .epoch = h.epoch, .last_number = h.seq};
    out->active = take_bool(&c);
    out->serving = take_int(&c);
    *(assign ? &out->number : &out->moved) = take_int(&c);
    out->closed_reason = take_str(&c);
    return whole(&c);
}

bool room_reply_watch(const struct redisReply *r, struct room_watched *list, struct room_watch *out)
{
    struct cursor c = {.reply = r};
    struct room_head h = take_head(&c);
    *out = (struct room_watch){
        .text = "", .queue_size = h.queue_size, .active = h.active, .users = list};
    out->closed_reason = take_str(&c);
    for (; left(&c) > 0 && out->count < ROOM_WATCH_MAX; out->count++) {
        list[out->count].status = take_status(&c);
        list[out->count].position = take_int(&c);
        list[out->count].expiry_ms = take_int(&c);
    }
    return whole(&c);
}

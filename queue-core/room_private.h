/* room_private.h - between the files of the room: its memory and the reading of replies. */
#ifndef ROOM_PRIVATE_H
#define ROOM_PRIVATE_H
#include "queue-core/room.h"

struct redisReply;

/* What an instance remembers, a bounded number of events; the longest unused goes first. */
struct room_memory;
struct room_memory *room_memory_new(uint32_t max); /* NULL: no memory. max 0 counts as 1 */
void room_memory_free(struct room_memory *m);      /* accepts NULL */
/* NULL when unknown. Valid until the next room_memory_of(). */
const struct room_known *room_memory_find(const struct room_memory *m, const char *event);
/* Never NULL: found and now the latest used, or new and zeroed. */
struct room_known *room_memory_of(struct room_memory *m, const char *event);

/* The part that every reply begins with. */
struct room_head {
    int64_t epoch, seq; /* seq 0: not read on this path */
    int64_t queue_size, active;
    int64_t threshold; /* -1: not read on this path */
};

/* Each is false when the reply has another shape; what it fills is undefined then. Strings are
 * borrowed from the reply. */
bool room_reply_head(const struct redisReply *r, struct room_head *out);
bool room_reply_is_visit(const struct redisReply *r); /* poll.lua: let visit.lua decide */
bool room_reply_visit(const struct redisReply *r, struct room_visit *out);
bool room_reply_leave(const struct redisReply *r, struct room_visit *out);
/* list has ROOM_ADMIT_MAX places. */
bool room_reply_admit(const struct redisReply *r, struct room_admitted *list,
                      struct room_pass *out);
bool room_reply_clean(const struct redisReply *r, struct room_pass *out);
bool room_reply_clear(const struct redisReply *r, struct room_pass *out);
bool room_reply_configure(const struct redisReply *r, struct room_view *out);
bool room_reply_view(const struct redisReply *r, struct room_view *out);
bool room_reply_tier1(const struct redisReply *r, bool assign, struct room_tier1 *out);
/* list has ROOM_WATCH_MAX places. */
bool room_reply_watch(const struct redisReply *r, struct room_watched *list,
                      struct room_watch *out);

#endif

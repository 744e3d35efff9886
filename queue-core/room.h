/* room.h - an event's waiting room in Redis: one call per decision, each one script (scripts/).
 *
 * Every call carries what this instance remembers of the event, and every answer refreshes it: when
 * Redis has lost its memory, the instances' and the callers' signed places bring the order back
 * (SPEC 5).
 *
 * A room belongs to one loop. Callbacks fire exactly once, never from inside the call; answers are
 * borrowed for the callback. rc as in redis.h: RC_RETRY = Redis is away or busy (503). */
#ifndef ROOM_H
#define ROOM_H
#include <stdbool.h>
#include <stdint.h>

struct fault;
struct loop;
struct redis;
struct room;

enum {
    ROOM_EVENT_MAX = 64,
    ROOM_USER_MAX = 128,
    ROOM_TEXT_MAX = 256,   /* bytes of a title, an artist, a reason */
    ROOM_WATCH_MAX = 500,  /* users per room_watch() */
    ROOM_ADMIT_MAX = 500,  /* users let in by one room_admit() */
    ROOM_SETTINGS_MAX = 16 /* per room_configure() */
};

struct room_rules { /* the daemon's defaults; an event's own settings win */
    int64_t threshold;
    int64_t active_ttl_ms, idle_ms, claim_ttl_ms, seen_ttl_ms;
    int64_t batch, interval_ms;
    int64_t restore_ms;
    int64_t max_length, max_wait_ms;
    int64_t clean_ms;
    int64_t vwr_batch, vwr_interval_ms;
    int64_t log_every;       /* entries of the log between two snapshots of it */
    int64_t call_timeout_ms; /* of one script */
    uint32_t events_max; /* how many events an instance remembers; the longest unused go first */
    int64_t clock_offset_ms; /* heeded by test builds only */
};
extern const struct room_rules ROOM_RULES; /* as SPEC.md has them */

/* Borrows redis. RC_FATAL: a script is missing from the program, or no memory. */
int room_new(struct redis *r, const struct room_rules *rules, struct room **out, struct fault *f);
void room_free(struct room *room); /* after redis_close(); accepts NULL */

bool room_event_ok(const char *event); /* [A-Za-z0-9_-]{1,64} */
bool room_user_ok(const char *user);   /* [A-Za-z0-9._@+:-]{1,128} */

/* What this instance remembers of an event, without asking Redis: a Tier 1 check needs no more.
 * False: nothing yet, *out untouched; room_look() makes it known and keeps it fresh. */
struct room_known {
    int64_t epoch, seq, threshold, serving;
    bool room_active;
};
bool room_recall(const struct room *room, const char *event, struct room_known *out);

/* Every call below returns 0, and its callback will fire; or RC_RETRY (see redis.h) or RC_REJECT
 * (an id, a setting or a count that is not acceptable), and it never fires. */

/* What a caller shows; numbers are those of verified tokens only, 0 where there is none. */
struct room_shown {
    int64_t place_epoch, place_number; /* signed place of this user */
    int64_t tier1_epoch, tier1_number; /* requestId inside a Tier 1 token */
    int64_t token_expiry_ms;           /* entry token of this user */
};

enum room_status {
    ROOM_QUEUED,
    ROOM_ACTIVE,
    ROOM_NOT_IN_QUEUE,
    ROOM_CLOSED,
    ROOM_NEED_TIER1,
    ROOM_FULL,
    ROOM_TOO_LONG,
    ROOM_PARKED /* only as the status before a leave */
};

struct room_visit {
    int rc; /* 0, or as in redis.h; nothing else is filled then */
    const char *text;
    enum room_status status;
    int64_t position; /* 1 = next; 0 unless queued */
    int64_t queue_size, active;
    int64_t threshold;           /* -1: not read on this path, see room_view */
    int64_t expiry_ms;           /* of the slot, when active */
    int64_t number, place_epoch; /* 0, 0: not read on this path */
    const char *reason;          /* of ROOM_CLOSED */
};
typedef void (*room_visit_fn)(const struct room_visit *v, void *arg);

/* join: check. poll: status, heartbeat; the cheap script first, the other one where there is
 * anything to decide. `shown` may be NULL. */
int room_join(struct room *room, const char *event, const char *user,
              const struct room_shown *shown, room_visit_fn fn, void *arg, struct fault *f);
int room_poll(struct room *room, const char *event, const char *user,
              const struct room_shown *shown, room_visit_fn fn, void *arg, struct fault *f);
/* Gives the place up; status is the one before. reason: "left", "sold". */
int room_leave(struct room *room, const char *event, const char *user,
               const struct room_shown *shown, const char *reason, room_visit_fn fn, void *arg,
               struct fault *f);

/* One admission pass. `admitted` lists who was let in. more: call again now. */
struct room_admitted {
    const char *user;
    int64_t expiry_ms;
};
struct room_pass {
    int rc;
    const char *text;
    bool paced;               /* admit: the pace allowed no admission yet */
    int64_t ended, parked;    /* admit: slots that were over, silent heads */
    int64_t moved, forgotten; /* clean: parked, expired; clear: moved is everybody it took */
    bool more;
    int64_t queue_size, active;
    const struct room_admitted *admitted;
    int64_t admitted_count;
};
typedef void (*room_pass_fn)(const struct room_pass *p, void *arg);
int room_admit(struct room *room, const char *event, room_pass_fn fn, void *arg, struct fault *f);
int room_clean(struct room *room, const char *event, bool first, room_pass_fn fn, void *arg,
               struct fault *f);
int room_clear(struct room *room, const char *event, const char *actor, room_pass_fn fn, void *arg,
               struct fault *f);

/* Settings: pairs of name and value ending with a NULL name; names and bounds in room_settings.c,
 * "" takes a setting back to its default. `actor` is logged. */
struct room_setting {
    const char *name, *value;
};
struct room_view {
    int rc;
    const char *text;
    int64_t queue_size, active, parked, threshold;
    bool paused, closed, registered, room_active, restoring;
    const char *closed_reason, *title, *artist;
    int64_t opens_at_ms;
    int64_t epoch, serving, last_number; /* Tier 1: served up to, given out up to */
    int64_t admitted_last_minute;
};
typedef void (*room_view_fn)(const struct room_view *v, void *arg);
/* configure: only threshold, queue_size and active are filled. */
int room_configure(struct room *room, const char *event, const char *actor,
                   const struct room_setting *settings, room_view_fn fn, void *arg,
                   struct fault *f);
int room_look(struct room *room, const char *event, room_view_fn fn, void *arg, struct fault *f);

bool room_setting_ok(const struct room_setting *s, struct fault *f);

/* Tier 1. number: given out (0: room not active, or event closed); moved: by advance and serve. */
struct room_tier1 {
    int rc;
    const char *text;
    bool active;
    const char *closed_reason; /* "" while open */
    int64_t number, epoch, serving, moved, last_number;
};
typedef void (*room_tier1_fn)(const struct room_tier1 *t, void *arg);
int room_assign(struct room *room, const char *event, room_tier1_fn fn, void *arg, struct fault *f);
enum room_action { ROOM_ACTIVATE, ROOM_DEACTIVATE, ROOM_ADVANCE };
int room_operate(struct room *room, const char *event, enum room_action action, const char *actor,
                 int64_t count, room_tier1_fn fn, void *arg, struct fault *f);
int room_serve(struct room *room, const char *event, room_tier1_fn fn, void *arg, struct fault *f);

/* Where the users of open streams stand (at most ROOM_WATCH_MAX): which is a heartbeat for each. */
struct room_watched {
    enum room_status status; /* QUEUED, ACTIVE or NOT_IN_QUEUE */
    int64_t position, expiry_ms;
};
struct room_watch {
    int rc;
    const char *text;
    const char *closed_reason; /* "" while open */
    int64_t queue_size, active;
    const struct room_watched *users; /* in the order asked */
    int64_t count;
};
typedef void (*room_watch_fn)(const struct room_watch *w, void *arg);
int room_watch(struct room *room, const char *event, const char *const *users, int64_t count,
               room_watch_fn fn, void *arg, struct fault *f);

#endif

/* advancer.h - Tier 1's counters: moved on smoothly, and known to this loop without asking Redis.
 *
 * Every ADVANCER_TICK_MS each loop calls serve.lua for the rooms it knows; the script moves the
 * serving number by what is due since the last call of anybody, so that any number of loops and
 * instances advance a room at its one pace, and each learns the number on the way. Rooms switched
 * on are listed in the set queue:vwr-events, so that they also move where nobody asks.
 *
 * Belongs to one loop. */
#ifndef ADVANCER_H
#define ADVANCER_H
#include <stdbool.h>
#include <stdint.h>

struct advancer;
struct fault;
struct loop;
struct redis;
struct room;
struct room_rules;
struct room_tier1;

enum {
    ADVANCER_TICK_MS = 200,
    ADVANCER_FRESH_MS = 250,   /* how old a counter may be */
    ADVANCER_LIST_MS = 2000,   /* between two looks at the set */
    ADVANCER_IDLE_MS = 30000,  /* an inactive room that nobody asks for is forgotten */
    ADVANCER_AWAY_MS = 60000,  /* an active room is answered from memory while Redis is away */
    ADVANCER_MAX_EVENTS = 512, /* rooms known at once */
    ADVANCER_MAX_WAITERS = 8192
};

struct advancer_view {
    bool active;
    int64_t serving, last_number; /* served up to, given out up to */
    double rate;                  /* numbers per second: measured, else the setting's */
    const char *closed_reason;    /* "" while open; valid until the loop's next round */
};

double advancer_rate(const struct room_rules *rules); /* numbers per second by the settings */

/* Borrows everything; `rate` is numbers per second until there is a measurement. */
int advancer_new(struct loop *l, struct redis *redis, struct room *room, double rate,
                 struct advancer **out, struct fault *f);
void advancer_free(struct advancer *a); /* after redis_close(); accepts NULL */

/* What memory says, with no call to Redis: fresh, or of an active room while Redis is away (its
 * counter never goes back: whoever it lets in is in). False: advancer_ask(). */
bool advancer_peek(struct advancer *a, const char *event, struct advancer_view *out);

/* rc 0, or RC_RETRY: Redis is away and *v empty. */
typedef void (*advancer_fn)(int rc, const struct advancer_view *v, void *arg);
/* Asks Redis once for all who wait. 0: fn fires once, not from inside the call. RC_RETRY: too many
 * rooms or waiters; RC_REJECT: not an event's id. */
int advancer_ask(struct advancer *a, const char *event, advancer_fn fn, void *arg, struct fault *f);

/* Somebody changed the room: this loop looks again now. t: what the change answered, known from now
 * on, and an active room is listed; NULL: it happened elsewhere. */
void advancer_changed(struct advancer *a, const char *event, const struct room_tier1 *t);

#endif

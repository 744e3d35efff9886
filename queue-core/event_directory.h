/* event_directory.h - which events exist, and what this loop knows about them.
 *
 * An event is known when it was registered here (its settings say so), or when the ticket service's
 * GET /internal/events/{eventId}/queue-info says so. Known is remembered for 60 s, unknown for 5 s;
 * one question per event is under way at a time, and everybody else waits for its answer. While the
 * ticket service is away an event that was known stays known.
 *
 * Events in use are looked at once a second, and at once when somebody says that they changed. What
 * is known of an event's settings is written back when Redis has lost them: an event must not open
 * early, or be forgotten, because Redis was.
 *
 * Belongs to one loop. */
#ifndef EVENT_DIRECTORY_H
#define EVENT_DIRECTORY_H
#include <stdbool.h>
#include <stdint.h>

#include "queue-core/room.h"

struct fault;
struct queue_part;
struct queue_service;

enum {
    EVENT_KNOWN_MS = 60000,
    EVENT_UNKNOWN_MS = 5000,
    EVENT_LOOK_MS = 1000,    /* between two looks at an event in use */
    EVENT_IN_USE_MS = 15000, /* asked for so recently */
    EVENT_MAX = 2048,        /* remembered; unknown ones go first, then the longest unused */
    EVENT_MAX_WAITERS = 16384
};

struct event_facts {
    char id[ROOM_EVENT_MAX + 1];
    char title[ROOM_TEXT_MAX + 1]; /* "" when nobody said */
    char artist[ROOM_TEXT_MAX + 1];
    char closed_reason[ROOM_TEXT_MAX + 1]; /* "" while open */
    bool looked;                           /* the rest has been read from Redis at least once */
    bool paused, room_active, registered;
    int64_t opens_at_ms; /* 0: at once */
    int64_t threshold, queue_size, active;
    int64_t admitted_last_minute;
    int64_t epoch;
};

extern const struct queue_part EVENT_DIRECTORY_PART;

enum event_answer { EVENT_KNOWN, EVENT_UNKNOWN, EVENT_AWAY /* 503: nobody could tell */ };

/* What memory says: true with EVENT_KNOWN and *facts (valid until the loop's next round), or with
 * EVENT_UNKNOWN. False: event_directory_ask(). */
bool event_directory_find(struct queue_service *s, const char *event, enum event_answer *answer,
                          const struct event_facts **facts);

/* facts: with EVENT_KNOWN, for the time of the call; else NULL. */
typedef void (*event_directory_fn)(enum event_answer answer, const struct event_facts *facts,
                                   void *arg);
/* 0: fn fires once, never from inside this call. RC_RETRY: too many wait. The id must be one. */
int event_directory_ask(struct queue_service *s, const char *event, event_directory_fn fn,
                        void *arg, struct fault *f);

/* The event was registered or changed on this loop: forget that it was unknown, look again now. */
void event_directory_changed(struct queue_service *s, const char *event);

/* After a decision of the room: when it shows that Redis has lost something, look now. */
void event_directory_heed_epoch(struct queue_service *s, const struct event_facts *facts);

#endif

/* engine.h - the framework a consumer is written with: exactly-once effects from an at-least-once
 * log.
 *
 * A consumer describes itself in a `struct engine_spec`: which topics, how a record becomes an
 * event (decode), which rows an event writes (conflict keys), and per type one set-based function
 * (apply). The engine does the rest: batches, offsets that move in the transaction of the effect,
 * dedupe, order, retries, poison, dead letters, pause, health and metrics. See
 * docs/write-a-consumer.md.
 *
 * One thread = one Kafka consumer + one PostgreSQL connection. Every hook runs on that thread. */
#ifndef ENGINE_H
#define ENGINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/config.h"
#include "runtime/metrics.h"

struct arena;
struct daemon;
struct engine;
struct fault;
struct pg;

enum {
    ENGINE_MAX_BATCH = 1000,
    ENGINE_MAX_CONFLICTS = 16, /* conflict keys per event; one with more runs alone in order */
    ENGINE_MAX_HANDLERS = 32,
    ENGINE_MAX_PARTITIONS = 256, /* held by one instance */
    ENGINE_KEY_MAX = 255,        /* processed_events.event_key */
    ENGINE_DETAIL_MAX = 160,
    ENGINE_UNKNOWN_MAX = 128
};

/* A record as it came from Kafka. Pointers live as long as the batch. */
struct engine_record {
    const char *topic;
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* -1: none */
    const void *key;      /* NULL: none */
    size_t key_len;
    const void *value; /* NULL: none */
    size_t value_len;
    int64_t now_ms; /* wall clock when it was read */
};

enum engine_outcome {
    ENGINE_APPLIED, /* the default */
    ENGINE_NOOP,    /* nothing to do, by the state of the entity; counts as processed */
    ENGINE_DEAD     /* to the dead letters, with `reason`; leaves no row in processed_events */
};

struct engine_event {
    const struct engine_record *record;
    /* Filled by decode. */
    const char *key;  /* under which it counts as seen; 1..ENGINE_KEY_MAX bytes, in the arena */
    unsigned handler; /* index in the spec's handlers */
    void *body;       /* the consumer's own, in the arena */
    /* Filled with engine_conflict() by decode and lock. */
    uint64_t conflicts[ENGINE_MAX_CONFLICTS];
    unsigned conflict_count;
    bool conflicts_all; /* too many: ordered against every other event of the batch */
    /* Set by apply; see engine_dead(). */
    enum engine_outcome outcome;
    const char *reason; /* a constant, [a-z0-9_]{1,40}; documented in docs/dead-letters.md */
    char detail[ENGINE_DETAIL_MAX];
};

/* Says that the event writes (or decides by) the row `id` of `kind`. Events with a common row never
 * run in one call, and keep their order. */
void engine_conflict(struct engine_event *e, const char *kind, const char *id);

/* Marks the event as dead with a reason and a detail (printf-like). For apply. */
__attribute__((format(printf, 3, 4))) void engine_dead(struct engine_event *e, const char *reason,
                                                       const char *fmt, ...);

/* Why decode refuses a record. */
struct engine_reject {
    const char *reason;                   /* a constant, as above */
    char unknown[ENGINE_UNKNOWN_MAX + 1]; /* a type nobody knows: counted and skipped, not dead,
                                           * where KAFKA_IGNORED_TYPES names it; else "" */
};

/* The transaction under way, handed to the hooks. Never begin, commit or roll back in a hook. */
struct engine_tx {
    struct pg *pg;
    struct arena *arena; /* emptied after the transaction */
    void *state;         /* the spec's */
    const char *group;
    int64_t now_ms;
    struct engine *engine;
    bool again; /* tick: more is left, call me once more now, in the next transaction */
};

/* How many partitions the topic has by Kafka's word, also those nobody has been given yet. Blocks
 * up to a second; RC_RETRY: not known now. For tick. */
int engine_partitions(const struct engine_tx *tx, const char *topic, int32_t *out, struct fault *f);

struct engine_brake {
    bool engaged;       /* roll back, pause all instances of the group until an operator resumes */
    const char *reason; /* short code for consumer_control.reason */
    char detail[ENGINE_DETAIL_MAX];
};

struct engine_handler {
    const char *name; /* label of the metrics */
    /* Applies n events (n >= 1) that share no row, in one set-based call; sets `outcome` per event
     * where it is not ENGINE_APPLIED. A failure is that of the database call: the engine retries,
     * or halves the batch until the one bad event is found. */
    int (*apply)(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                 struct fault *f);
};

struct engine_spec {
    const char *name;             /* "ticket": client id, metrics */
    const char *group;            /* Kafka's consumer group and the group of the rows below */
    const char *offset_group;     /* of consumer_offsets and consumer_gaps; NULL: group */
    const char *dedupe_group;     /* of processed_events; NULL: group */
    const char *const *topics;    /* ends with NULL */
    const char *database_setting; /* the name of the setting with the database's URL */
    bool stop_on_gap; /* records left the log unread: stop until an operator accepts (money), or go
                         on */

    /* 0; RC_REJECT: *out_reject and *f say why (dead letter); RC_RETRY: the arena is full. May
     * leave out->conflict_count 0: then nothing orders the event. `now_ms` and the record are in
     * out->record.
     */
    int (*decode)(struct arena *arena, struct engine_event *out, struct engine_reject *out_reject,
                  void *state, struct fault *f);
    const struct engine_handler *handlers; /* ends with a NULL name */

    /* All below may be NULL. */
    /* One set-based call that locks what the fresh events will touch, in the global order, and adds
     * conflict keys that only the database knows. */
    int (*lock)(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                struct fault *f);
    /* After all handlers: the last look. */
    int (*before_commit)(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                         struct engine_brake *brake, struct fault *f);
    /* After the commit, with the fresh events of the transaction: count what has become true. */
    void (*committed)(void *state, struct engine_event *const *events, size_t n);
    /* Every second while not paused, in a transaction of its own (sweepers); with tx->again a few
     * times more, for at most a quarter of a second. A failure is counted and tried again the next
     * second. */
    int (*tick)(struct engine_tx *tx, struct fault *f);
    void *state;
};

/* KAFKA_IGNORED_TYPES, CONSUMER_BATCH_SIZE, CONSUMER_LINGER_MS; a consumer daemon lists these
 * beside KAFKA_SETTINGS and KAFKA_CONSUMER_SETTINGS. Ends with a NULL name. */
extern const struct config_item ENGINE_SETTINGS[];
extern const struct metric_def ENGINE_METRICS[]; /* ends with a NULL name */

/* Call in daemon_spec.start: adds the thread and the readiness conditions "database", "kafka" and
 * "consumer". `spec` is borrowed for the life of the engine. Free it in daemon_spec.stop. */
int engine_start(struct daemon *d, const struct engine_spec *spec, struct engine **out,
                 struct fault *f);
void engine_free(struct engine *e); /* accepts NULL */

#endif

/* batch.h - records that were read and decoded and wait for their transaction. */
#ifndef BATCH_H
#define BATCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumers/engine/engine.h"
#include "runtime/arena.h"
#include "runtime/kafka_consumer.h"

struct partition;

enum batch_fate {
    BATCH_FRESH,     /* goes to its handler unless its key was seen */
    BATCH_DUPLICATE, /* its key was seen, in the database or earlier in the batch */
    BATCH_IGNORED,   /* KAFKA_IGNORED_TYPES names its type */
    BATCH_REFUSED    /* a dead letter before any handler sees it */
};

struct batch_item {
    struct kafka_message message;
    struct engine_record record;
    struct engine_event event;
    struct partition *partition;
    unsigned decoded_conflicts; /* how many keys decode gave: a retry starts with those */
    bool decoded_conflicts_all;
    enum batch_fate decoded;    /* FRESH, IGNORED or REFUSED */
    enum batch_fate fate;       /* in the transaction under way */
    struct batch_item *first;   /* DUPLICATE within the batch: the one that was first */
    const char *refused_reason; /* REFUSED */
    char refused_detail[ENGINE_DETAIL_MAX];
};

struct batch {
    struct batch_item *items; /* ENGINE_MAX_BATCH places */
    size_t count;
    size_t bytes;       /* of their values and keys */
    struct arena arena; /* of what decode made */
};

enum { BATCH_MAX_BYTES = 4 << 20, BATCH_ARENA_BYTES = 16 << 20 };

int batch_init(struct batch *b); /* RC_RETRY: no memory */
void batch_done(struct batch *b);
void batch_clear(struct batch *b); /* gives the messages back */
bool batch_full(const struct batch *b, size_t max_events);

/* Takes the message and decodes it. RC_RETRY: no room; the message stays the caller's, apply first.
 */
int batch_add(struct batch *b, const struct engine_spec *spec, const char *ignored_types,
              struct partition *partition, struct kafka_message *m, int64_t now_ms);

/* Within [lo, hi): outcomes back to the start, equal keys to one; fills `keys` with the distinct
 * keys in byte order, each pointing to its first item, and returns how many. */
size_t batch_prepare(struct batch *b, size_t lo, size_t hi, struct batch_item **keys);

/* The item of that key among those, or NULL. */
struct batch_item *batch_find(struct batch_item *const *keys, size_t count, const char *key);

/* True where `name` is an element of the comma-separated list (which may be NULL). */
bool batch_type_ignored(const char *list, const char *name);

/* Hash of a record's key, as kept in consumer_offsets.last_key_hash. */
int64_t batch_key_hash(const void *key, size_t len);

#endif

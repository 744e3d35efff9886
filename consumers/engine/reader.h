/* reader.h - a bounded second reader: ranges of a topic are read again beside the running group.
 *
 * It decodes, deduplicates, locks and applies with the group's own functions and in the group's own
 * order of locks, so that it applies only what was never applied. Its place stands in rows of its
 * own (consumer_offsets under `offset_group`), which move in the transactions of the effects:
 * killed at any point it goes on where it stood, and the group's offsets never move. Partitions are
 * read outside of Kafka's group.
 *
 * A rehearsal does the same and rolls each transaction back: it tells what would come of a replay.
 * What an event of one batch would have changed is not there for the next one, except that a key
 * seen before counts as a duplicate.
 *
 * Ranges should end at or below the group's own place: ahead of it, events of one entity could take
 * effect before earlier ones. One thread. */
#ifndef READER_H
#define READER_H
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumers/engine/engine.h"
#include "runtime/kafka.h"

struct fault;
struct pg;

struct reader_range {
    int32_t partition;
    int64_t next, to;   /* [next, to) is left to read */
    int64_t generation; /* of its row in consumer_offsets */
};

struct reader_counts {
    int64_t read; /* records; the rest adds up to it */
    int64_t applied, noop, duplicate, ignored, dead;
};

struct reader_options {
    const struct engine_spec *spec;
    const char *topic;
    const struct reader_range *ranges; /* at most ENGINE_MAX_PARTITIONS, each partition once */
    size_t range_count;
    struct kafka_client_options kafka;
    struct pg *pg; /* connected; the reader's alone while it runs */
    const char *ignored_types;
    const char *offset_group; /* its rows exist, with `next` and `generation` of the ranges */
    int64_t replay_id;        /* of consumer_replays, whose counts it keeps; 0: none */
    bool rehearse;            /* roll everything back; offset_group and replay_id are not used */
    bool dead_letters;        /* write them; else they are only counted (the group wrote them) */
    size_t batch_size;        /* 0: 200 */
    int64_t rate;             /* events per second; 0: rests as long as it works, for the others */
    const volatile sig_atomic_t *stop; /* ends after the transaction under way */
    void (*on_progress)(void *arg, const struct reader_counts *so_far); /* may be NULL */
    void *arg;
};

struct reader_result {
    struct reader_counts counts; /* of this run */
    bool brake_engaged;          /* rehearsal: the consumer's brake would stop it */
};

/* 0: every range is read to its end. RC_RETRY: stopped, or a server is away for more than 30 s: go
 * on later from the offset rows. RC_REJECT: somebody else has moved the rows, or the consumer's
 * brake stopped it. RC_FATAL: rights or schema are wrong. *out is filled in every case. */
int reader_run(const struct reader_options *o, struct reader_result *out, struct fault *f);

#endif

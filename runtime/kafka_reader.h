/* kafka_reader.h - reads given ranges of partitions once, without a group: for operators' tools.
 *
 * Nothing is committed and nobody is disturbed. Records of one partition come in order; those of
 * several partitions interleave. Only committed records of transactional publishers are delivered.
 * One thread per reader. */
#ifndef KAFKA_READER_H
#define KAFKA_READER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kafka.h"

struct fault;
struct kafka_reader;

struct kafka_range { /* [from, to) */
    const char *topic;
    int32_t partition;
    int64_t from, to;
};

/* A record; everything lives until the next call on the reader. */
struct kafka_read {
    const char *topic;
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* -1: none */
    const void *key;      /* NULL: none */
    size_t key_len;
    const void *value; /* NULL: none */
    size_t value_len;
};

enum kafka_reader_state {
    KAFKA_READ_RECORD, /* *out is filled */
    KAFKA_READ_WAIT,   /* nothing within the time-out; ask again */
    KAFKA_READ_DONE    /* every range was read to its end */
};

/* Copies the ranges; empty ones are fine. Does not wait for the cluster. */
int kafka_reader_open(const struct kafka_client_options *o, const struct kafka_range *ranges,
                      size_t count, struct kafka_reader **out, struct fault *f);
void kafka_reader_close(struct kafka_reader *r); /* accepts NULL */

/* RC_REJECT: an offset is not in the log (any more); *f names it. RC_RETRY: the cluster is away;
 * the reader goes on by itself when asked again. RC_FATAL: open another. */
int kafka_reader_next(struct kafka_reader *r, int timeout_ms, enum kafka_reader_state *out_state,
                      struct kafka_read *out, struct fault *f);

/* Headers of the last record: fills up to max, returns how many were filled. */
size_t kafka_reader_headers(const struct kafka_reader *r, struct kafka_header *out, size_t max);

#endif

/* kafka_producer.h - an idempotent producer whose every message has one known fate.
 *
 * acks=all, murmur2_random (the partitions Java publishers choose), no duplicates and no reordering
 * within a partition while one librdkafka handle lives. When that handle fails for good it is made
 * anew inside kafka_producer_poll(): every message not acknowledged is reported first, and nothing
 * after the first failed message of a partition was written (gapless), so an owner that sends the
 * reported ones again, in its own order, keeps the order.
 *
 * One thread owns a producer; deliveries are called only inside poll, flush and close. */
#ifndef KAFKA_PRODUCER_H
#define KAFKA_PRODUCER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kafka.h"

struct fault;
struct kafka_producer;

enum kafka_outcome {
    KAFKA_DELIVERED, /* written, with partition and offset */
    KAFKA_UNSENT,    /* not written, or nobody knows (time-out, purge, missing topic): may be sent
                        again */
    KAFKA_REFUSED,   /* the broker will never take it, or the batch it was in: send it alone to find
                        out */
    KAFKA_ABANDONED  /* like UNSENT, because the handle died: a new one is made before poll returns
                      */
};

struct kafka_delivery {
    void *tag;
    enum kafka_outcome outcome;
    int32_t partition; /* of DELIVERED, else -1 */
    int64_t offset;
    const char *reason; /* static text; NULL when delivered */
};

/* Exactly once for every message that kafka_producer_send() took. May not call into the producer.
 */
typedef void (*kafka_delivery_fn)(void *arg, const struct kafka_delivery *d);

struct kafka_producer_options { /* 0 = the default in brackets */
    struct kafka_client_options client;
    bool forever;               /* message.timeout.ms=0: nothing times out, so nothing overtakes */
    uint32_t timeout_ms;        /* [30000] otherwise; order may break where one times out */
    uint32_t max_messages;      /* [100000] sent and not yet reported */
    uint32_t max_kb;            /* [65536] */
    uint32_t max_message_bytes; /* [1000000] */
    uint32_t linger_ms;         /* [1] */
    kafka_delivery_fn on_delivery;
    void *arg;
};

struct kafka_record {
    const char *topic;
    bool to_partition; /* else the partition follows from the key; no key: any */
    int32_t partition;
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
    bool borrow_value; /* value is not copied: it stays valid until the delivery */
    const struct kafka_header *headers;
    size_t header_count;  /* <= KAFKA_MAX_HEADERS */
    int64_t timestamp_ms; /* 0: now */
    void *tag;            /* comes back in the delivery */
};

int kafka_producer_open(const struct kafka_producer_options *o, struct kafka_producer **out,
                        struct fault *f);

/* Queues a message. RC_RETRY: the queue is full (poll, then try again) or the topic is not there.
 * RC_REJECT: this record can't be sent (too large, too many headers). No delivery in both cases. */
int kafka_producer_send(struct kafka_producer *p, const struct kafka_record *r, struct fault *f);

/* Reports fates, waiting up to timeout_ms for the first; returns how many. */
int kafka_producer_poll(struct kafka_producer *p, int timeout_ms);

size_t kafka_producer_pending(const struct kafka_producer *p); /* taken and not yet reported */

/* Polls until nothing is pending. RC_RETRY at the deadline. */
int kafka_producer_flush(struct kafka_producer *p, int timeout_ms, struct fault *f);

/* Gives up every pending message now: each is reported (UNSENT, or its real fate). What is on its
 * way to the broker may still be written. */
void kafka_producer_purge(struct kafka_producer *p);

/* Purges, frees. Flush first to wait. Accepts NULL. */
void kafka_producer_close(struct kafka_producer *p);

bool kafka_producer_connected(const struct kafka_producer *p); /* for readiness */

#ifdef URR_TEST_HOOKS
/* Raises librdkafka's fatal error as a broker would. */
void kafka_producer_test_fatal(struct kafka_producer *p);
#endif

#endif

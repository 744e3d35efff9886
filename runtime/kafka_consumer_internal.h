/* kafka_consumer_internal.h - a consumer's state, shared by membership (kafka_consumer.c) and
 * questions (kafka_consumer_offsets.c). */
#ifndef KAFKA_CONSUMER_INTERNAL_H
#define KAFKA_CONSUMER_INTERNAL_H
#include "runtime/kafka_consumer.h"

#include <librdkafka/rdkafka.h>

#include "runtime/fault.h"
#include "runtime/kafka_client.h"
#include "runtime/kafka_ends.h"

struct kafka_consumer {
    struct kafka_client client; /* first: librdkafka's opaque */
    rd_kafka_t *rk;
    struct kafka_ends *ends;
    rd_kafka_queue_t *queue; /* what is prefetched: for its length */
    size_t queue_peak;       /* longest since the last nudge */
    uint32_t since_check;
    kafka_assign_fn on_assign;
    kafka_revoke_fn on_revoke;
    void *arg;
    int64_t assign_retry_ms;

    rd_kafka_topic_partition_list_t *held; /* NULL: none. offset = the next one to be delivered */
    bool assigned;                         /* `held` has its start offsets and is being consumed */
    int64_t ask_again_ms;                  /* when on_assign said RC_RETRY */
    int recent;                            /* index in held of the last message */
    bool paused;
    bool closing;
    struct fault failed; /* rc != 0: poll returns it */

    rd_kafka_message_t **slots;
    uint32_t *free_slots;
    uint32_t free_count;
    uint32_t max_held;
};

/* The entry of a partition that is held, or NULL. */
rd_kafka_topic_partition_t *kafka_consumer_held(struct kafka_consumer *c, const char *topic,
                                                int32_t partition);

#endif

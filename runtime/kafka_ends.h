/* kafka_ends.h - the ends of partitions, asked from the brokers in the background; for
 * kafka_consumer.
 *
 * librdkafka 2.0.2 has only blocking calls for it, so a thread of its own makes them. One ask at a
 * time; new, ask, take and free belong to one thread. */
#ifndef KAFKA_ENDS_H
#define KAFKA_ENDS_H
#include <stdbool.h>
#include <stdint.h>
#include <librdkafka/rdkafka.h>

struct fault;
struct kafka_ends;

enum { KAFKA_ENDS_TIMEOUT_MS = 2000 };

/* Borrows rk, which must outlive it. */
int kafka_ends_new(rd_kafka_t *rk, struct kafka_ends **out, struct fault *f);
void kafka_ends_free(struct kafka_ends *e); /* waits for an ask under way; accepts NULL */

/* Takes `parts`, also on RC_RETRY (an ask is under way, or answered and not taken yet). */
int kafka_ends_ask(struct kafka_ends *e, rd_kafka_topic_partition_list_t *parts, int64_t tag,
                   struct fault *f);
/* True once per answered ask: *out_parts (the caller destroys it) holds each end as its offset,
 * with `err` set where it is not known. */
bool kafka_ends_take(struct kafka_ends *e, int64_t *out_tag,
                     rd_kafka_topic_partition_list_t **out_parts);

/* Makes the brokers' threads look at their queues now, by asking and dropping the answer: a full
 * prefetch queue otherwise sleeps for up to a second in 2.0.2 after it was emptied. Takes `parts`.
 */
void kafka_ends_nudge(struct kafka_ends *e, rd_kafka_topic_partition_list_t *parts);

#endif

/* kafka_consumer.h - a member of a consumer group whose offsets are somebody else's (the
 * database's).
 *
 * One thread owns a consumer: every call and every callback happens on it, callbacks only inside
 * kafka_consumer_poll() and kafka_consumer_close(). Poll at least every max_poll_interval_ms, also
 * while paused, or the group gives the partitions away.
 *
 * The owner says in on_assign where each partition starts; nothing is ever read from another place:
 * an offset outside the log surfaces as KAFKA_EVENT_OUT_OF_RANGE and that partition stands still
 * until kafka_consumer_seek(). Only committed records of transactional publishers are delivered.
 *
 * Membership is eager: a rebalance takes all partitions away (on_revoke) before it gives some back.
 */
#ifndef KAFKA_CONSUMER_H
#define KAFKA_CONSUMER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kafka.h"

struct fault;
struct kafka_consumer;

/* A partition given to this member. on_assign fills `offset` with the offset to read first,
 * KAFKA_OFFSET_BEGINNING / _END, or leaves KAFKA_OFFSET_NONE: that partition is not read until a
 * seek. */
struct kafka_start {
    const char *topic;
    int32_t partition;
    int64_t offset;
};

/* Partitions have been given. May ask the database, kafka_consumer_committed() and _watermarks().
 * RC_RETRY: nothing is consumed, membership goes on, and it is asked again after `assign_retry_ms`.
 * RC_FATAL: the poll under way returns RC_FATAL with *f. */
typedef int (*kafka_assign_fn)(void *arg, struct kafka_start *starts, size_t count,
                               struct fault *f);

/* All partitions are taken away; messages already received may still be applied when the database
 * fences them. lost: others may own them already. Also called on close, when partitions were held.
 */
typedef void (*kafka_revoke_fn)(void *arg, bool lost);

struct kafka_consumer_options { /* 0 = the default in brackets */
    struct kafka_client_options client;
    const char *group;         /* may be NULL with places */
    const char *instance_id;   /* static membership; NULL: dynamic */
    const char *const *topics; /* ends with NULL; at most KAFKA_MAX_TOPICS */
    /* Instead of topics and on_assign: exactly these partitions, from their offsets on, outside of
     * any group: nobody's partitions move and nothing is committed. For readers of a range. */
    const struct kafka_start *places;
    size_t place_count;
    uint32_t session_timeout_ms;   /* [10000] */
    uint32_t max_poll_interval_ms; /* [300000] */
    uint32_t prefetch_kb;          /* [8192] received and not yet polled, all partitions together */
    uint32_t max_held;             /* [4096] messages polled and not yet freed */
    uint32_t assign_retry_ms;      /* [500] */
    kafka_assign_fn on_assign;
    kafka_revoke_fn on_revoke; /* may be NULL */
    void *arg;
};

enum { KAFKA_MAX_TOPICS = 32 };

/* KAFKA_GROUP_INSTANCE_ID, KAFKA_SESSION_TIMEOUT_MS, KAFKA_PREFETCH_KB; ends with a NULL name. */
extern const struct config_item KAFKA_CONSUMER_SETTINGS[];
/* Fills the options these settings and KAFKA_SETTINGS hold; client_id is borrowed. */
void kafka_consumer_from_config(const struct config *c, const char *client_id,
                                struct kafka_consumer_options *out);

/* A view of a record. All pointers stay valid until kafka_message_free(), also after a rebalance.
 * key and value are NULL when the record has none (which is not the same as empty). */
struct kafka_message {
    const char *topic;
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* -1 with KAFKA_TIME_NONE */
    enum kafka_timestamp timestamp_type;
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
    struct kafka_consumer *owner;
    uint32_t slot; /* the owner's */
};

enum kafka_event_kind {
    KAFKA_EVENT_NONE,    /* nothing within the time-out */
    KAFKA_EVENT_MESSAGE, /* `message` is the caller's: kafka_message_free() */
    KAFKA_EVENT_EOF,     /* the partition's end was reached: `offset` = that end. Comes once until
                          * more records came; counts control records, unlike message offsets + 1 */
    KAFKA_EVENT_OUT_OF_RANGE /* `offset` asked for is outside [low, high]; -1, -1: not known just
                                now */
};

struct kafka_event {
    enum kafka_event_kind kind;
    const char *topic; /* of EOF and OUT_OF_RANGE; valid until the next poll */
    int32_t partition;
    int64_t offset;
    int64_t low, high;
    struct kafka_message message;
};

/* RC_FATAL: the options are bad (*f names the property), or no memory. Joining happens in poll. */
int kafka_consumer_open(const struct kafka_consumer_options *o, struct kafka_consumer **out,
                        struct fault *f);

/* Leaves the group (a static member stays in it until the session time-out) after a last on_revoke,
 * and frees everything. Messages still held are freed too: a held message would hang librdkafka.
 * Blocks up to about the session time-out when the broker is away. Accepts NULL. */
void kafka_consumer_close(struct kafka_consumer *c);

/* Serves callbacks and waits up to timeout_ms for one event. 0: *out is filled (maybe with NONE).
 * RC_RETRY: something is wrong outside (broker away, topic missing); librdkafka goes on by itself:
 * note it and poll again. RC_FATAL: this member is done (fenced by another with its instance id;
 * on_assign said so): close. *out->kind is NONE on failure. */
int kafka_consumer_poll(struct kafka_consumer *c, int timeout_ms, struct kafka_event *out,
                        struct fault *f);

void kafka_message_free(struct kafka_message *m); /* zeroes *m; accepts a zeroed one */

/* Fills up to max headers, which live as long as the message; returns how many were filled. */
size_t kafka_message_headers(const struct kafka_message *m, struct kafka_header *out, size_t max);

/* The next record of that partition comes from `offset` (BEGINNING and END too; KAFKA_OFFSET_NONE
 * stops the partition). Records received before are dropped, those polled stay the caller's.
 * RC_REJECT: the partition is not ours (now). RC_RETRY: try again. */
int kafka_consumer_seek(struct kafka_consumer *c, const char *topic, int32_t partition,
                        int64_t offset, struct fault *f);

/* Stops and restarts fetching; holds over a rebalance. Polling must go on: it returns EOF, errors,
 * callbacks, but no message. What was prefetched is dropped and fetched again. */
void kafka_consumer_pause(struct kafka_consumer *c);
void kafka_consumer_resume(struct kafka_consumer *c);
bool kafka_consumer_paused(const struct kafka_consumer *c);

/* The partitions held now, with the offset of the next record to be delivered (KAFKA_OFFSET_NONE:
 * not read). Fills up to max, returns how many are held. Strings live until the next poll. */
size_t kafka_consumer_assignment(const struct kafka_consumer *c, struct kafka_start *out,
                                 size_t max);

/* Tells Kafka's lag tools that everything below `offset` is done: in the background, a failure is
 * only counted. Never read back as a start. */
void kafka_consumer_commit(struct kafka_consumer *c, const struct kafka_start *offsets,
                           size_t count);

/* Fills `offset` of each with what the group has committed to Kafka, or KAFKA_OFFSET_NONE. Blocks
 * up to timeout_ms; RC_RETRY: outputs untouched. */
int kafka_consumer_committed(struct kafka_consumer *c, struct kafka_start *parts, size_t count,
                             int timeout_ms, struct fault *f);

/* The offset of the first record and the one after the last stable record, asked from the broker
 * now. Blocks up to timeout_ms. RC_RETRY, or RC_REJECT for an unknown partition; outputs untouched
 * then. */
int kafka_consumer_watermarks(struct kafka_consumer *c, const char *topic, int32_t partition,
                              int timeout_ms, int64_t *out_low, int64_t *out_high, struct fault *f);

/* How many partitions the topic has, asked from the brokers now: a grown topic is seen before the
 * group gives its new partitions out. Blocks up to timeout_ms. RC_RETRY: *out untouched. */
int kafka_consumer_partitions(struct kafka_consumer *c, const char *topic, int timeout_ms,
                              int32_t *out, struct fault *f);

/* The ends alone without blocking, made to be asked every second: ask() has a background thread ask
 * the end of every partition held; take() returns true once when the answer is there, with the tag
 * of its ask, and fills up to max ends (`offset` = the end; a partition whose end is not known is
 * left out), *out_count of them. Each end was read from the broker after its ask(). RC_RETRY: an
 * ask is under way already. An unanswered ask ends after 2 s with no ends. */
int kafka_consumer_ends_ask(struct kafka_consumer *c, int64_t tag, struct fault *f);
bool kafka_consumer_ends_take(struct kafka_consumer *c, int64_t *out_tag, struct kafka_start *out,
                              size_t max, size_t *out_count);

/* True while the last thing heard of the cluster was an answer: for readiness. */
bool kafka_consumer_connected(const struct kafka_consumer *c);

/* True when this client can never go on (a static member that was fenced), and why: close it, open
 * another. Ask after each poll: librdkafka may tell poll nothing. */
bool kafka_consumer_failed(const struct kafka_consumer *c, struct fault *why);

#endif

/* topics.h - the topics of URR: names, partitions, keys, settings. */
#ifndef TOPICS_H
#define TOPICS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/config.h"

#define TOPIC_PAYMENT_EVENTS "payment-events"
#define TOPIC_RESERVATION_EVENTS "reservation-events"
#define TOPIC_TRANSFER_EVENTS "transfer-events"
#define TOPIC_MEMBERSHIP_EVENTS "membership-events"
#define TOPIC_PAYMENT_COMMANDS "payment-commands"
#define TOPIC_DLQ_SUFFIX ".dlq"

enum { TOPIC_NAME_MAX = 249 }; /* Kafka's own limit */

struct topic_def {
    const char *name;
    const char *key;         /* the field that is the record's key */
    const char *produced_by; /* for the docs */
    const char *consumed_by;
    const char *doc;
};
extern const struct topic_def TOPICS[]; /* ends with a NULL name; without the dead-letter topics */

/* KAFKA_TOPIC_PARTITIONS, KAFKA_REPLICATION_FACTOR, KAFKA_TOPIC_RETENTION_MS: see config.h. */
extern const struct config_item TOPIC_SETTINGS[];

enum { TOPIC_MAX_CONFIGS = 4 };
struct topic_plan { /* what `create topics` makes */
    char name[TOPIC_NAME_MAX + 1];
    int partitions;
    int replication;
    struct {
        const char *name;
        char value[24];
    } configs[TOPIC_MAX_CONFIGS];
    size_t config_count;
};

/* Topic number `index` of the whole set (each topic, then its dead-letter topic); false past the
 * end. */
bool topic_plan(const struct config *c, size_t index, struct topic_plan *out);

/* "<topic>.dlq" into out; false when it would not fit Kafka's limit. A dead-letter topic is its
 * own. */
bool topic_dlq(const char *topic, char out[TOPIC_NAME_MAX + 1]);

#endif

/* dead_letter.h - refused records on their way to <topic>.dlq, through the outbox. */
#ifndef DEAD_LETTER_H
#define DEAD_LETTER_H
#include "runtime/pg.h"

struct batch_item;
struct fault;

/* Headers with this prefix are the engine's; others travel on unchanged. */
#define DEAD_LETTER_PREFIX "urr-"
#define DEAD_LETTER_REASON "urr-reason"
#define DEAD_LETTER_DETAIL "urr-detail"
#define DEAD_LETTER_TOPIC "urr-topic"
#define DEAD_LETTER_PARTITION "urr-partition"
#define DEAD_LETTER_OFFSET "urr-offset"
#define DEAD_LETTER_GROUP "urr-group"
#define DEAD_LETTER_ATTEMPTS "urr-attempts"
#define DEAD_LETTER_CUT "urr-cut"

enum { DEAD_LETTER_MAX_VALUE = 900 * 1000 };

/* Caller's memory: the arrays of one append. */
struct dead_letters {
    struct pg_array number, topic, key, value, timestamp;
    struct pg_array header_number, header_name, header_value;
};

void dead_letters_init(struct dead_letters *d);
void dead_letters_done(struct dead_letters *d);
size_t dead_letters_count(const struct dead_letters *d);

/* Adds one record with its reason; a failure is the arrays' own and surfaces in the append. */
void dead_letters_add(struct dead_letters *d, const struct batch_item *item, const char *group,
                      const char *reason, const char *detail);

/* Queues the INSERT into outbox (pg_queue). */
int dead_letters_queue(struct dead_letters *d, struct pg *pg, struct fault *f);

/* The attempts a record's headers tell of; 0 where they do not. */
struct kafka_header;
int dead_letter_attempts(const struct kafka_header *headers, size_t count);

#endif

/* dlq.h - dead letters as an operator meets them: read from <topic>.dlq, and what was done about
 * each, which is kept in the database of the group that refused it (dead_letter_marks).
 *
 * A letter is one record refused by one group: the same letter may stand in the topic more than
 * once (the relay repeats, never loses), and two groups that refuse one record make two letters.
 */
#ifndef DLQ_H
#define DLQ_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/kafka.h"

struct buf;
struct fault;
struct stage;

enum { DLQ_MAX_LETTERS = 100000, DLQ_MAX_IDS = 64, DLQ_MAX_ATTEMPTS = 5 };

enum dlq_state { DLQ_OPEN, DLQ_REDRIVEN, DLQ_DISCARDED };
extern const char *const DLQ_STATES[]; /* names, NULL at the end */

struct dlq_letter {
    const char *topic; /* "payment-events.dlq" */
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms;
    const void *key, *value;
    size_t key_len, value_len;
    struct kafka_header *headers; /* all, ours included */
    size_t header_count;
    /* From the headers. */
    const char *reason, *detail, *group, *source_topic;
    int32_t source_partition;
    int64_t source_offset;
    int attempts;
    bool cut;
    /* From the database. */
    enum dlq_state state;
    const char *marked_by, *marked_at;
};

struct dlq_filter {
    const char *reason, *topic, *group; /* NULL: any; topic is the source's */
    int64_t since_ms, until_ms;         /* by record time; 0: open */
    bool all;                           /* also what was redriven or discarded */
    const char *ids[DLQ_MAX_IDS];       /* TOPIC.dlq/PARTITION/OFFSET; those alone */
    size_t id_count;
};

struct dlq {
    struct arena arena;
    struct dlq_letter *letters; /* in the order of the topics */
    size_t count, room;
    const struct dlq_filter *filter;
};

/* Every letter the filter lets through, with its state where its database is known and set. The
 * filter is borrowed. CLI_OK or the exit code, after saying why. */
int dlq_read(struct dlq *d, struct stage *stage, const struct dlq_filter *filter);
void dlq_done(struct dlq *d); /* accepts a zeroed one */

/* "payment-events.dlq/0/17" */
void dlq_id(const struct dlq_letter *l, char *out, size_t size);

/* Why it can't be redriven; NULL: it can. */
const char *dlq_obstacle(const struct dlq_letter *l, const struct stage *stage);

/* Everything about the letter as one JSON object. */
struct json_out;
void dlq_json(struct json_out *j, const struct dlq_letter *l, bool whole);

struct dlq_tally {
    int64_t done;    /* letters on their way to their source topic, or discarded */
    int64_t twins;   /* refused by two groups: went with the other one */
    int64_t already; /* somebody else was quicker */
};
/* Puts the letters into the outbox of the database that marks them, in one transaction per step:
 * a letter leaves once, whatever is killed when. At most `rate` per second. */
int dlq_redrive(struct dlq *d, struct stage *stage, const char *by, int rate,
                struct dlq_tally *tally);
int dlq_discard(struct dlq *d, struct stage *stage, const char *by, const char *note,
                struct dlq_tally *tally);

#endif

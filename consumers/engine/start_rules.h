/* start_rules.h - where a partition is read from, or why not. Pure. */
#ifndef START_RULES_H
#define START_RULES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct start_view {
    const char *group, *topic;
    int32_t partition;
    bool has_row;     /* in consumer_offsets */
    bool topic_known; /* the group has rows of other partitions of the topic */
    int64_t next_offset;
    bool has_last; /* the last applied record is remembered */
    int64_t last_offset;
    int64_t committed; /* in Kafka, KAFKA_OFFSET_NONE: nothing. Asked only when there is no row */
    int64_t low, high; /* the log: first offset, and the one behind the last */
};

enum start_action {
    START_READ,   /* from `offset` */
    START_VERIFY, /* read the record at `offset` first: is it still the one that was applied last?
                   */
    START_INSERT, /* make a row at `offset`, then ask again */
    START_GAP,    /* [next_offset, `offset`) has left the log unread */
    START_REFUSE  /* `text` says why and what an operator can do */
};

struct start_decision {
    enum start_action action;
    int64_t offset;
    char text[300];
};

void start_rules_decide(const struct start_view *v, struct start_decision *out);

/* The text for a record that is another one than was applied last. */
void start_rules_recreated(const struct start_view *v, char *out, size_t size);
/* The text for an unaccepted gap that stops the group. */
void start_rules_gap(const struct start_view *v, char *out, size_t size);

#endif

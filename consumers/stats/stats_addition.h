/* stats_addition.h - what one event adds to the figures: the same for the consumer and a rebuild.
 */
#ifndef STATS_ADDITION_H
#define STATS_ADDITION_H
#include <stdbool.h>
#include <stdint.h>

struct event;

/* Strings are the event's or constants. */
struct stats_addition {
    const char *type, *event_id, *detail;
    int64_t time_ms, amount; /* EVENT_NO_AMOUNT: none */
    bool payment;
};

void stats_addition(const struct event *e, struct stats_addition *out);

extern const char *const STATS_TOPICS[]; /* ends with NULL */

#endif

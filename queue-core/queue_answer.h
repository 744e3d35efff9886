/* queue_answer.h - what a user is told: the fields of check, status and the stream's events. Pure.
 */
#ifndef QUEUE_ANSWER_H
#define QUEUE_ANSWER_H
#include <stdbool.h>
#include <stdint.h>

#include "queue-core/room.h"

struct buf;
struct event_facts;

enum { QUEUE_RATE_UNTIL_MEASURED = 50, QUEUE_NEXT_POLL_S = 3 };

/* Seconds until the next question: 1 near the front, 60 far behind. */
int64_t queue_answer_next_poll(int64_t position);

/* Seconds until the turn: position by the admissions of the last minute; without any
 * max(position / 50, 5). Before the opening time: that, and then the line. */
int64_t queue_answer_wait(int64_t position, const struct event_facts *facts, int64_t now_ms);

struct queue_answer {
    enum room_status status; /* QUEUED, ACTIVE, NOT_IN_QUEUE, CLOSED */
    int64_t position, queue_size, active, threshold;
    int64_t expiry_ms;       /* ACTIVE: the slot's end */
    const char *entry_token; /* ACTIVE */
    const char *place;       /* NULL: not told here */
    const char *reason;      /* CLOSED */
    bool event_info;         /* title and artist too */
};

const char *queue_answer_status(enum room_status status); /* "queued" … */

/* Appends the JSON object. */
void queue_answer_write(const struct queue_answer *a, const struct event_facts *facts,
                        int64_t now_ms, struct buf *out);

#endif

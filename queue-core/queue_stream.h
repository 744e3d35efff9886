/* queue_stream.h - server-sent events of those who wait: position, admitted, closed.
 *
 * A stream keeps a hundred bytes: user, place and what was told last. Once a second a round looks
 * where everybody stands, in batches (room_watch, which is a heartbeat for each), and tells those
 * for whom something changed; a promotion that another instance announces is looked up at once. So
 * pub/sub brings speed, and the rounds certainty. A user whom Redis has lost is put back at the
 * place the stream remembers.
 *
 * Belongs to one loop. */
#ifndef QUEUE_STREAM_H
#define QUEUE_STREAM_H
#include "runtime/http_server.h"

struct queue_part;

enum {
    STREAM_ROUND_MS = 1000,
    STREAM_BATCH = 100,      /* users per look: what Redis does at a stretch stays below a ms */
    STREAM_REPEAT_MS = 15000 /* an unchanged position is told again: proxies close what is silent */
};

extern const struct queue_part QUEUE_STREAM_PART;
extern const struct http_route QUEUE_STREAM_ROUTES[]; /* ends with a NULL path */

#endif

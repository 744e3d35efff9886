/* fuzz_events.c - any bytes on any topic: a decision, never a crash; what is accepted encodes
 * again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "events/event.h"
#include "events/topics.h"
#include "runtime/arena.h"
#include "runtime/buf.h"
#include "runtime/fault.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct event *e, struct arena *arena)
{
    struct buf first, second;
    struct fault f;
    struct event again;
    struct event_reject reject;
    buf_init(&first, 1 << 20);
    buf_init(&second, 1 << 20);
    if (event_encode(e, &first, &f) != 0)
        abort();
    struct event_source src = {event_topic(e->type), first.data, first.len, 0, INT64_MAX / 2};
    if (event_decode(&src, arena, &again, &reject, &f) != 0)
        abort();
    if (event_encode(&again, &second, &f) != 0 || strcmp(first.data, second.data) != 0)
        abort();
    buf_done(&first);
    buf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct arena arena;
    struct event e;
    struct event_reject reject;
    struct fault f;
    arena_init(&arena, 4 << 20);
    for (const struct topic_def *topic = TOPICS; topic->name; topic++) {
        struct event_source src = {topic->name, data, size, INT64_C(1795006271042),
                                   INT64_C(1795006271042)};
        int rc = event_decode(&src, &arena, &e, &reject, &f);
        if (rc == RC_REJECT && (reject.reason == EVENT_OK || reject.reason >= EVENT_REASON_COUNT))
            abort();
        if (rc == 0) {
            if (!event_ticket_key(&e, &arena) || !event_stats_key(&e, &arena))
                abort();
            check_round_trip(&e, &arena);
        }
    }
    arena_done(&arena);
    return 0;
}

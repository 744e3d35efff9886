/* queue_answer.c - composes what a user is told. */
#include "queue-core/queue_answer.h"

#include "queue-core/event_directory.h"
#include "runtime/buf.h"
#include "runtime/json.h"

int64_t queue_answer_next_poll(int64_t position)
{
    static const struct {
        int64_t position, seconds;
    } STEPS[] = {{0, QUEUE_NEXT_POLL_S}, {1000, 1}, {5000, 5}, {10000, 10}, {100000, 30}};
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++)
        if (position <= STEPS[i].position)
            return STEPS[i].seconds;
    return 60;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

int64_t queue_answer_wait(int64_t position, const struct event_facts *facts, int64_t now_ms)
{
    int64_t wait;
    if (position <= 0)
        return 0;
    if (facts && facts->admitted_last_minute > 0) {
        wait = divide_up(position * 60, facts->admitted_last_minute);
    } else {
        wait = divide_up(position, QUEUE_RATE_UNTIL_MEASURED);
        wait = wait > 5 ? wait : 5;
    }
    if (facts && facts->opens_at_ms > now_ms)
        wait += divide_up(facts->opens_at_ms - now_ms, 1000);
    return wait;
}

const char *queue_answer_status(enum room_status status)
{
    switch (status) {
    case ROOM_QUEUED:
        return "queued";
    case ROOM_ACTIVE:
        return "active";
    case ROOM_CLOSED:
        return "closed";
    default:
        return "not_in_queue";
    }
}

static const char *message_of(const struct queue_answer *a, const struct event_facts *facts,
                              int64_t now_ms)
{
    switch (a->status) {
    case ROOM_QUEUED:
        if (facts && facts->opens_at_ms > now_ms)
            return "The sale has not opened yet. Your place is kept.";
        return facts && facts->paused ? "Admission is paused. Your place is kept."
                                      : "You are in line. Your place is kept.";
    case ROOM_ACTIVE:
        return "It is your turn. Go on to the seats.";
    case ROOM_CLOSED:
        return "The sale has closed.";
    default:
        return "You are not in this queue.";
    }
}

static void put_queued(struct json_out *j, const struct queue_answer *a,
                       const struct event_facts *facts, int64_t now_ms)
{
    int64_t behind = a->queue_size - a->position;
    json_put_int(j, "position", a->position);
    json_put_int(j, "peopleAhead", a->position - 1);
    json_put_int(j, "peopleBehind", behind > 0 ? behind : 0);
    json_put_int(j, "estimatedWait", queue_answer_wait(a->position, facts, now_ms));
    json_put_int(j, "nextPoll", queue_answer_next_poll(a->position));
    if (facts && facts->opens_at_ms > now_ms)
        json_put_int(j, "opensAt", facts->opens_at_ms);
    if (facts && facts->paused)
        json_put_bool(j, "paused", true);
}

static void put_event_info(struct json_out *j, const struct event_facts *facts)
{
    bool title = facts && facts->title[0], artist = facts && facts->artist[0];
    json_object(j, "eventInfo");
    json_put_str(j, "title", title ? facts->title : "Unknown");
    json_put_str(j, "artist", artist ? facts->artist : "");
    json_end(j);
}

void queue_answer_write(const struct queue_answer *a, const struct event_facts *facts,
                        int64_t now_ms, struct buf *out)
{
    struct json_out j;
    json_begin(&j, out);
    json_object(&j, NULL);
    json_put_str(&j, "status", queue_answer_status(a->status));
    json_put_bool(&j, "queued", a->status == ROOM_QUEUED);
    if (a->status == ROOM_QUEUED)
        put_queued(&j, a, facts, now_ms);
    else
        json_put_int(&j, "nextPoll", QUEUE_NEXT_POLL_S);
    json_put_int(&j, "queueSize", a->queue_size);
    json_put_int(&j, "currentUsers", a->active);
    if (a->threshold >= 0)
        json_put_int(&j, "threshold", a->threshold);
    if (a->status == ROOM_ACTIVE) {
        json_put_str(&j, "entryToken", a->entry_token);
        json_put_int(&j, "expiresAt", a->expiry_ms);
    }
    if (a->status == ROOM_CLOSED)
        json_put_str(&j, "reason", a->reason);
    if (a->place)
        json_put_str(&j, "place", a->place);
    if (a->event_info)
        put_event_info(&j, facts);
    json_put_str(&j, "message", message_of(a, facts, now_ms));
    json_end(&j);
}

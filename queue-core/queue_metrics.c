/* queue_metrics.c - urr-queue's own series. */
#include "queue-core/queue_metrics.h"

#include <pthread.h>

enum { VISITS, ADMITTED, ENDED, PARKED, FAILED, SENT, STREAMS, ROUND, COUNT };

static const double ROUND_SECONDS[] = {0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 5, 10};

const struct metric_def QUEUE_SERVICE_METRICS[] = {
    [VISITS] = {"urr_queue_visits_total", METRIC_COUNTER,
                "Answers to check, status and heartbeat, by what the user was told.", "status",
                NULL, 0},
    [ADMITTED] = {"urr_queue_admitted_total", METRIC_COUNTER,
                  "Users let in by this process's admission passes.", NULL, NULL, 0},
    [ENDED] = {"urr_queue_slots_ended_total", METRIC_COUNTER,
               "Slots that this process's passes found over, idle or unclaimed.", NULL, NULL, 0},
    [PARKED] = {"urr_queue_parked_total", METRIC_COUNTER,
                "Heads of the line that were silent at their turn.", NULL, NULL, 0},
    [FAILED] = {"urr_queue_passes_failed_total", METRIC_COUNTER,
                "Admission passes that Redis did not answer.", NULL, NULL, 0},
    [SENT] = {"urr_queue_stream_events_total", METRIC_COUNTER, "Events sent to open streams.",
              "event", NULL, 0},
    [STREAMS] = {"urr_queue_streams", METRIC_GAUGE, "Open streams.", NULL, NULL, 0},
    [ROUND] = {"urr_queue_stream_round_seconds", METRIC_HISTOGRAM,
               "How long one look at all streams of a loop took; a new one begins each second.",
               NULL, ROUND_SECONDS, sizeof ROUND_SECONDS / sizeof *ROUND_SECONDS},
    [COUNT] = {0},
};

static struct metric *visits[ROOM_PARKED + 1], *sent[QUEUE_EVENTS], *plain[COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_series(void)
{
    static const char *const STATUS[] = {
        [ROOM_QUEUED] = "queued",         [ROOM_ACTIVE] = "active",
        [ROOM_CLOSED] = "closed",         [ROOM_NOT_IN_QUEUE] = "not_in_queue",
        [ROOM_NEED_TIER1] = "need_tier1", [ROOM_FULL] = "full",
        [ROOM_TOO_LONG] = "too_long",     [ROOM_PARKED] = "parked"};
    static const char *const EVENT[] = {[QUEUE_EVENT_POSITION] = "position",
                                        [QUEUE_EVENT_ADMITTED] = "admitted",
                                        [QUEUE_EVENT_CLOSED] = "closed"};
    for (int i = 0; i <= ROOM_PARKED; i++)
        visits[i] = metrics_series(&QUEUE_SERVICE_METRICS[VISITS], &STATUS[i]);
    for (int i = 0; i < QUEUE_EVENTS; i++)
        sent[i] = metrics_series(&QUEUE_SERVICE_METRICS[SENT], &EVENT[i]);
    for (int i = ADMITTED; i < COUNT; i++)
        if (i != SENT)
            plain[i] = metrics_series(&QUEUE_SERVICE_METRICS[i], NULL);
}

void queue_metrics_init(void)
{
    (void)pthread_once(&once, make_series);
}

void queue_metrics_visit(enum room_status status)
{
    metric_add(visits[status], 1);
}

void queue_metrics_passed(int64_t admitted, int64_t ended, int64_t parked)
{
    metric_add(plain[ADMITTED], (uint64_t)admitted);
    metric_add(plain[ENDED], (uint64_t)ended);
    metric_add(plain[PARKED], (uint64_t)parked);
}

void queue_metrics_pass_failed(void)
{
    metric_add(plain[FAILED], 1);
}

void queue_metrics_sent(enum queue_event event)
{
    metric_add(sent[event], 1);
}

void queue_metrics_streams(int delta)
{
    metric_gauge_add(plain[STREAMS], delta);
}

void queue_metrics_round(double seconds)
{
    metric_observe(plain[ROUND], seconds);
}

/* queue_metrics.h - what urr-queue counts of its own. Any loop. */
#ifndef QUEUE_METRICS_H
#define QUEUE_METRICS_H
#include <stdint.h>

#include "queue-core/room.h"
#include "runtime/metrics.h"

extern const struct metric_def QUEUE_SERVICE_METRICS[]; /* ends with a NULL name */

void queue_metrics_init(void); /* any thread, any number of times */
void queue_metrics_visit(enum room_status status);
void queue_metrics_passed(int64_t admitted, int64_t ended, int64_t parked);
void queue_metrics_pass_failed(void);
enum queue_event { QUEUE_EVENT_POSITION, QUEUE_EVENT_ADMITTED, QUEUE_EVENT_CLOSED, QUEUE_EVENTS };
void queue_metrics_sent(enum queue_event event);
void queue_metrics_streams(int delta);
void queue_metrics_round(double seconds); /* all streams of a loop looked at once */

#endif

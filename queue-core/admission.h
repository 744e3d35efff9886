/* admission.h - the timers that let people in and clean up, for every event with anybody in it.
 *
 * Every instance runs them; the pace and the exclusion sit inside the scripts, so it does not
 * matter who comes first. queue:active-events lists the events: whoever joins adds, and an event
 * leaves when nobody waits and nobody is inside, is looked at once more, and is put back if
 * somebody came. */
#ifndef ADMISSION_H
#define ADMISSION_H

struct queue_part;
struct queue_service;

extern const struct queue_part ADMISSION_PART;

/* Somebody may have come to this event: it belongs on the list. Any loop; after the join. */
void admission_notice(struct queue_service *s, const char *event);

#endif

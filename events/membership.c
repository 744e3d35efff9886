/* membership.c - fan club memberships, as the ticket service tells it. */
#include "events/event_def.h"

#include "events/topics.h"

static const struct event_field ACTIVATED[] = {
    EVENT_SAGA_FIELD,
    {"membershipId", EVENT_KIND_ID, EVENT_REQUIRED, EVENT_AT(membership.membership_id),
     "The membership; the record's key.", NULL, EVENT_OK},
    {"userId", EVENT_KIND_ID, EVENT_REQUIRED, EVENT_AT(membership.user_id), "The member.", NULL,
     EVENT_OK},
    {"artistId", EVENT_KIND_ID, EVENT_REQUIRED, EVENT_AT(membership.artist_id), "Whose fan club.",
     NULL, EVENT_OK},
    {0},
};

const struct event_def EVENT_MEMBERSHIP_DEFS[] = {
    {EVENT_MEMBERSHIP_ACTIVATED, "MEMBERSHIP_ACTIVATED", TOPIC_MEMBERSHIP_EVENTS,
     "The membership is paid and runs for a year.", ACTIVATED, NULL},
    {0},
};

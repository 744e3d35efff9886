/* queue_admin.h - the operator's side of urr-queue: both tiers, admin role; and what the ticket
 * service may do with the services' own token (sold out, slot sold). */
#ifndef QUEUE_ADMIN_H
#define QUEUE_ADMIN_H
#include "runtime/http_server.h"

extern const struct http_route QUEUE_ADMIN_ROUTES[]; /* each ends with a NULL path */
extern const struct http_route VWR_ADMIN_ROUTES[];

#endif

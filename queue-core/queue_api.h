/* queue_api.h - Tier 2's calls of a signed-in user: check, status, heartbeat, leave. */
#ifndef QUEUE_API_H
#define QUEUE_API_H

#include "runtime/http_server.h"

extern const struct http_route QUEUE_API_ROUTES[]; /* ends with a NULL path */

#endif

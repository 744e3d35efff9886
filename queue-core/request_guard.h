/* request_guard.h - who asks, and whether a page of somebody else asks in their name.
 *
 * A browser adds cookies to requests that any page makes. So a change that is authenticated by a
 * cookie needs an Origin that is this host, and a body or header that a plain form cannot send:
 * application/json, or X-Requested-With. A Bearer token needs neither. */
#ifndef REQUEST_GUARD_H
#define REQUEST_GUARD_H
#include <stdbool.h>

#include "runtime/identity.h"

struct http_request;
struct jwt_keys;

bool request_guard_is_json(const struct http_request *req); /* its Content-Type says so */
/* Whether Origin is there and names the Host of this request. */
bool request_guard_same_origin(const struct http_request *req);

enum request_guard_kind {
    REQUEST_READS,  /* GET */
    REQUEST_CHANGES /* anything else */
};

/* The signed-in caller. False: 401 UNAUTHORIZED or 403 BAD_ORIGIN has been answered. */
bool request_guard_user(struct http_request *req, const struct jwt_keys *keys,
                        enum request_guard_kind kind, struct identity *out);
/* The same for administrators; also 403 FORBIDDEN. */
bool request_guard_admin(struct http_request *req, const struct jwt_keys *keys,
                         enum request_guard_kind kind, struct identity *out);

/* `Authorization: Bearer` with the services' own token. False without any answer: not a service. */
bool request_guard_service(const struct http_request *req, const char *token);

#endif

/* request_guard.c - who asks, and whether a page of somebody else asks in their name. */
#include "queue-core/request_guard.h"

#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"

bool request_guard_is_json(const struct http_request *req)
{
    static const char JSON[] = "application/json";
    const char *type = http_header(req, "Content-Type");
    if (!type || strncasecmp(type, JSON, sizeof JSON - 1) != 0)
        return false;
    return strchr("; \t", type[sizeof JSON - 1]) != NULL; /* the end of the text included */
}

bool request_guard_same_origin(const struct http_request *req)
{
    const char *origin = http_header(req, "Origin"), *host = http_header(req, "Host");
    const char *at = origin ? strstr(origin, "://") : NULL;
    return at && host && host[0] && strcasecmp(at + 3, host) == 0;
}

static bool from_our_page(const struct http_request *req)
{
    return request_guard_same_origin(req) &&
           (request_guard_is_json(req) || http_header(req, "X-Requested-With"));
}

bool request_guard_user(struct http_request *req, const struct jwt_keys *keys,
                        enum request_guard_kind kind, struct identity *out)
{
    struct fault f;
    if (identity_of_request(keys, req, clock_wall_ms() / 1000, out, &f) != 0) {
        (void)http_set_header(req, "WWW-Authenticate", "Bearer");
        http_error(req, 401, "UNAUTHORIZED", "Sign in: a valid token is required.");
        return false;
    }
    if (kind == REQUEST_CHANGES && out->from_cookie && !from_our_page(req)) {
        http_error(req, 403, "BAD_ORIGIN",
                   "A change needs this site's Origin and application/json or X-Requested-With.");
        return false;
    }
    return true;
}

bool request_guard_admin(struct http_request *req, const struct jwt_keys *keys,
                         enum request_guard_kind kind, struct identity *out)
{
    if (!request_guard_user(req, keys, kind, out))
        return false;
    if (!out->admin) {
        http_error(req, 403, "FORBIDDEN", "The admin role is required.");
        return false;
    }
    return true;
}

bool request_guard_service(const struct http_request *req, const char *token)
{
    static const char BEARER[] = "Bearer ";
    const char *given = http_header(req, "Authorization");
    if (!token || !token[0] || !given || strncasecmp(given, BEARER, sizeof BEARER - 1) != 0)
        return false;
    given += sizeof BEARER - 1;
    size_t len = strlen(token);
    return strlen(given) == len && CRYPTO_memcmp(given, token, len) == 0;
}

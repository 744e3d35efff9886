/* queue_http.c - identity, event ids, refusals and cookies of urr-queue's handlers. */
#include "queue-core/queue_http.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "queue-core/identity_cache.h"
#include "queue-core/queue_service.h"
#include "queue-core/request_guard.h"
#include "runtime/clock.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/redis.h"

struct queue_service *queue_http_service(void *worker)
{
    return ((struct worker *)worker)->state;
}

const char *queue_http_event(struct http_request *req)
{
    const char *event = http_param(req, "eventId");
    if (room_event_ok(event))
        return event;
    http_error(req, 400, "BAD_EVENT_ID", "An event's id is 1 to 64 of A-Z a-z 0-9 _ and -.");
    return NULL;
}

static enum request_guard_kind kind_of(const struct http_request *req)
{
    return http_method(req) == HTTP_GET ? REQUEST_READS : REQUEST_CHANGES;
}

/* A page asks every second or so with the same token: its signature is checked once. */
bool queue_http_user(struct queue_service *s, struct http_request *req, struct identity *out)
{
    static const char SCHEME[] = "Bearer ";
    const char *header = http_header(req, "Authorization");
    const char *token = NULL;
    if (header && strncmp(header, SCHEME, sizeof SCHEME - 1) == 0)
        token = header + sizeof SCHEME - 1;
    else if (!header && kind_of(req) == REQUEST_READS)
        token = http_cookie(req, "access_token");
    if (token && identity_cache_find(s->identities, token, clock_wall_ms() / 1000, out)) {
        out->from_cookie = !header;
        return true;
    }
    if (!request_guard_user(req, s->user_keys, kind_of(req), out))
        return false;
    if (token)
        identity_cache_add(s->identities, token, out);
    return true;
}

bool queue_http_admin(struct queue_service *s, struct http_request *req, struct identity *out)
{
    return request_guard_admin(req, s->user_keys, kind_of(req), out);
}

void queue_http_away(struct queue_service *s, struct http_request *req)
{
    int64_t seconds = s->redis ? (redis_retry_after_ms(s->redis) + 999) / 1000 : 1;
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, seconds > 0 ? seconds : 1);
    (void)http_set_header(req, "Retry-After", text);
    http_error(req, 503, "TRY_AGAIN",
               "The waiting room is resting for a moment. Your place is safe.");
}

void queue_http_failed(struct queue_service *s, struct http_request *req, int rc, const char *text)
{
    if (rc == RC_RETRY)
        queue_http_away(s, req);
    else if (rc == RC_REJECT)
        http_error(req, 400, "BAD_REQUEST", text);
    else
        http_error(req, 500, "INTERNAL", "Something is wrong here; it has been noted.");
}

void queue_http_unknown_event(struct http_request *req)
{
    http_error(req, 404, "UNKNOWN_EVENT", "There is no such event.");
}

void queue_http_set_cookie(struct queue_service *s, struct http_request *req, const char *name,
                           const char *value, int64_t max_age_s)
{
    char text[1024];
    int len = snprintf(text, sizeof text,
                       "%s=%s; Path=/; Max-Age=%" PRId64 "; HttpOnly; SameSite=Strict%s", name,
                       value, max_age_s, s->cookie_secure ? "; Secure" : "");
    if (len > 0 && (size_t)len < sizeof text)
        (void)http_set_header(req, "Set-Cookie", text);
}

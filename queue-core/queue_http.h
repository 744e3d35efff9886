/* queue_http.h - what the handlers of urr-queue check and answer alike.
 *
 * The functions that return NULL or false have answered the request. */
#ifndef QUEUE_HTTP_H
#define QUEUE_HTTP_H
#include <stdbool.h>
#include <stdint.h>

struct http_request;
struct identity;
struct queue_service;

struct queue_service *queue_http_service(void *worker); /* a handler's argument */

/* The path parameter {eventId}; else 400. */
const char *queue_http_event(struct http_request *req);

/* request_guard.h with this daemon's keys: who asks (else 401), from our own pages where a cookie
 * vouches for a change (else 403), and for the second an administrator (else 403). */
bool queue_http_user(struct queue_service *s, struct http_request *req, struct identity *out);
bool queue_http_admin(struct queue_service *s, struct http_request *req, struct identity *out);

/* 503 with Retry-After: Redis (or another server) is away or busy. */
void queue_http_away(struct queue_service *s, struct http_request *req);
/* rc of a room call that was refused or failed: RC_RETRY as away, RC_REJECT 400, else 500. */
void queue_http_failed(struct queue_service *s, struct http_request *req, int rc, const char *text);
void queue_http_unknown_event(struct http_request *req); /* 404 */

/* Path=/, SameSite=Strict, HttpOnly, and Secure where the setting says so. max_age_s 0 removes it.
 */
void queue_http_set_cookie(struct queue_service *s, struct http_request *req, const char *name,
                           const char *value, int64_t max_age_s);

#endif

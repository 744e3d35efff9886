/* queue_visit.h - one request of a user about an event: who, where, and what they show.
 *
 * Tokens travel so: the entry token in header x-queue-entry-token or cookie urr-entry-token, the
 * Tier 1 token in header x-vwr-token or cookie urr-vwr-token, the signed place in header
 * x-queue-place or query parameter `place` (a stream cannot send headers). One that does not verify
 * counts as absent. */
#ifndef QUEUE_VISIT_H
#define QUEUE_VISIT_H
#include "queue-core/entry_token.h"
#include "queue-core/queue_answer.h"
#include "queue-core/room.h"
#include "queue-core/signed_number.h"

struct event_facts;
struct http_request;
struct queue_service;

struct queue_visit {
    struct queue_service *service;
    struct http_request *req;
    const char *event; /* in req */
    int kind;          /* the caller's */
    struct room_shown shown;
    void (*go)(struct queue_visit *v);
    char user[ROOM_USER_MAX + 1];
};

/* Checks identity and event; then calls go(v) once, now or later, with an event that is known.
 * Where anything is wrong the request is answered and go is never called. go owns v:
 * queue_visit_free(). */
void queue_visit_begin(struct http_request *req, void *worker, int kind,
                       void (*go)(struct queue_visit *v));
void queue_visit_free(struct queue_visit *v);

/* What is known of the event now; NULL when nothing is. */
const struct event_facts *queue_visit_facts(const struct queue_visit *v);

/* From the room's answer to what is told; texts are put into *texts. Reads the clock. False: the
 * slot has just ended. */
struct queue_visit_texts {
    char token[ENTRY_TOKEN_MAX];
    char place[SIGNED_NUMBER_LEN + 1];
};
bool queue_visit_answer(struct queue_service *s, const char *event, const char *user,
                        const struct room_visit *r, const struct event_facts *facts,
                        struct queue_visit_texts *texts, struct queue_answer *out);

#endif

/* admin_order.h - what the operator's calls have in common: who gives the order, whether the event
 * exists, and the view of it that most of them answer with. */
#ifndef ADMIN_ORDER_H
#define ADMIN_ORDER_H
#include <stdbool.h>
#include <stdint.h>

#include "queue-core/queue_service.h"

struct buf;
struct http_request;
struct json_out;
struct room_view;

enum { ADMIN_VALUE_MAX = ROOM_TEXT_MAX + 1 };

/* One order under way; freed by the function that answers it. */
struct admin_order {
    struct queue_service *s;
    struct http_request *req;
    void (*act)(struct admin_order *o); /* once the event is known to exist */
    int64_t count;                      /* advance: how many; clear: cleared so far */
    int64_t action;                     /* enum room_action */
    bool changed;                       /* tell the other loops before answering */
    char event[ROOM_EVENT_MAX + 1];
    char actor[ROOM_USER_MAX + 1]; /* for the log */
    char user[ROOM_USER_MAX + 1];  /* whom it is about */
    struct room_setting settings[ROOM_SETTINGS_MAX + 1];
    char values[ROOM_SETTINGS_MAX][ADMIN_VALUE_MAX];
    size_t setting_count;
};

/* The order of an administrator about {eventId}; NULL: refused and answered. */
struct admin_order *admin_order_new(struct queue_service *s, struct http_request *req);
/* The same of another service (INTERNAL_API_TOKEN): 401 without a token, 403 with a wrong one. */
struct admin_order *admin_order_internal(struct queue_service *s, struct http_request *req);

/* Runs act(o) when the event exists; else 404 or 503. */
void admin_order_start(struct admin_order *o, void (*act)(struct admin_order *o));

/* Adds a setting; false: too many (cannot happen with a table of fixed names). */
bool admin_order_set(struct admin_order *o, const char *name, const char *value);
/* The JSON object of the body as settings: numbers, texts, true and false, null for the default;
 * opensAt also as ISO-8601. No body: none. False: 400 has been answered and the order freed. */
bool admin_order_read_settings(struct admin_order *o);
/* The body's text of that name into `out`. 0: absent. False: as above. */
bool admin_order_read_text(struct admin_order *o, const char *name, char *out, size_t cap);
/* A whole number within the bounds, in the body or the query (in both: the same); absent or null:
 * *out stays. */
bool admin_order_read_number(struct admin_order *o, const char *name, int64_t min, int64_t max,
                             int64_t *out);

/* Ends of an order: each answers and frees it. */
void admin_order_failed(struct admin_order *o, int rc, const char *text);
void admin_order_configure(struct admin_order *o); /* applies the settings, then the view */
void admin_order_look(struct admin_order *o);      /* the view */
void admin_order_answer(struct admin_order *o, int status, struct buf *body);

/* The fields of a view, without the braces. */
void admin_order_put_view(struct json_out *j, const char *event, const struct room_view *v);

#endif

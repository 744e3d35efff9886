/* event_list.h - the events an operator can choose from: registered ones, those with somebody
 * waiting or inside, those whose first room is on. */
#ifndef EVENT_LIST_H
#define EVENT_LIST_H

struct http_request;
struct queue_service;

#define EVENT_LIST_KEY "queue:events" /* the set of those registered here */

enum { EVENT_LIST_MAX = 200 /* in one answer */ };

void event_list_add(struct queue_service *s, const char *event);
/* Answers {"events":[{view} …],"more":bool}, sorted by id. */
void event_list_answer(struct queue_service *s, struct http_request *req);

#endif

/* queue_stream_table.h - the open streams of a loop: by event for the rounds, by user for
 * promotions.
 */
#ifndef QUEUE_STREAM_TABLE_H
#define QUEUE_STREAM_TABLE_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "queue-core/room.h"

struct http_stream;
struct queue_streams;
struct stream_event;
struct stream_table;

struct stream {
    TAILQ_ENTRY(stream) link; /* its event's list */
    struct stream *chain;
    struct stream_event *event;
    struct queue_streams *owner;
    struct http_stream *http; /* NULL: closed */
    uint32_t pins;            /* looks under way that point here */
    bool active;              /* told that it is inside */
    int64_t position;
    int64_t told_ms;
    int64_t expiry_ms;           /* active */
    int64_t place_epoch, number; /* 0: unknown */
    char user[];
};
TAILQ_HEAD(stream_list, stream);

struct stream_event {
    TAILQ_ENTRY(stream_event) link;
    struct stream_list streams;
    uint32_t count;
    char id[ROOM_EVENT_MAX + 1];
};
TAILQ_HEAD(stream_event_list, stream_event);

/* Walks over all streams; survives what is closed meanwhile. New ones are not met. */
struct stream_cursor {
    struct stream_event *event;
    struct stream *next; /* of event */
};

struct stream_table *stream_table_new(void);    /* NULL: no memory */
void stream_table_free(struct stream_table *t); /* and every stream without pins; accepts NULL */
uint32_t stream_table_count(const struct stream_table *t);

/* NULL: no memory. */
struct stream *stream_table_add(struct stream_table *t, const char *event, const char *user);
/* The connection has gone: out of the table; freed now, or with its last pin. */
void stream_table_close(struct stream_table *t, struct stream *s);
void stream_table_unpin(struct stream *s);

/* The first of that user, and the next one. */
struct stream *stream_table_find(struct stream_table *t, const char *event, const char *user);
struct stream *stream_table_same(const struct stream *s);

void stream_table_begin(struct stream_table *t); /* the walk, from the start */
/* Up to max streams of one event, each pinned; 0: the walk has ended. */
uint32_t stream_table_step(struct stream_table *t, struct stream **out, uint32_t max);

#endif

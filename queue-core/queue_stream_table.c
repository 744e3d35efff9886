/* queue_stream_table.c - a hash of streams by event and user, and a list of them per event. */
#include "queue-core/queue_stream_table.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CHAINS = 256 }; /* doubled when there are more streams than chains */

struct stream_table {
    struct stream_event_list events;
    struct stream_cursor cursor;
    struct stream **chains;
    uint32_t chain_count, count;
};

static uint32_t hash_of(const char *event, const char *user)
{
    uint32_t hash = 2166136261u;
    for (; *event; event++)
        hash = (hash ^ (unsigned char)*event) * 16777619u;
    hash = (hash ^ '/') * 16777619u;
    for (; *user; user++)
        hash = (hash ^ (unsigned char)*user) * 16777619u;
    return hash;
}

struct stream_table *stream_table_new(void)
{
    struct stream_table *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    TAILQ_INIT(&t->events);
    t->chains = calloc(FIRST_CHAINS, sizeof *t->chains);
    t->chain_count = FIRST_CHAINS;
    if (t->chains)
        return t;
    free(t);
    return NULL;
}

void stream_table_free(struct stream_table *t)
{
    if (!t)
        return;
    for (struct stream_event *e = TAILQ_FIRST(&t->events), *next; e; e = next) {
        next = TAILQ_NEXT(e, link);
        for (struct stream *s = TAILQ_FIRST(&e->streams), *after; s; s = after) {
            after = TAILQ_NEXT(s, link);
            s->event = NULL;
            if (s->pins == 0)
                free(s);
        }
        free(e);
    }
    free(t->chains);
    free(t);
}

uint32_t stream_table_count(const struct stream_table *t)
{
    return t->count;
}

static struct stream **chain_of(struct stream_table *t, const char *event, const char *user)
{
    return &t->chains[hash_of(event, user) & (t->chain_count - 1)];
}

static void grow(struct stream_table *t)
{
    struct stream **old = t->chains;
    uint32_t old_count = t->chain_count;
    struct stream **chains = calloc((size_t)old_count * 2, sizeof *chains);
    if (!chains)
        return; /* longer chains do as well */
    t->chains = chains;
    t->chain_count = old_count * 2;
    for (uint32_t i = 0; i < old_count; i++) {
        struct stream *s = old[i];
        while (s) {
            struct stream *next = s->chain, **head = chain_of(t, s->event->id, s->user);
            s->chain = *head;
            *head = s;
            s = next;
        }
    }
    free(old);
}

static struct stream_event *event_of(struct stream_table *t, const char *event)
{
    struct stream_event *e;
    TAILQ_FOREACH(e, &t->events, link)
    if (strcmp(e->id, event) == 0)
        return e;
    e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    TAILQ_INIT(&e->streams);
    memcpy(e->id, event, strlen(event) + 1);
    TAILQ_INSERT_HEAD(&t->events, e, link);
    return e;
}

static void drop_if_empty(struct stream_table *t, struct stream_event *e)
{
    if (e->count > 0)
        return;
    if (t->cursor.event == e) {
        t->cursor.event = TAILQ_NEXT(e, link);
        t->cursor.next = t->cursor.event ? TAILQ_FIRST(&t->cursor.event->streams) : NULL;
    }
    TAILQ_REMOVE(&t->events, e, link);
    free(e);
}

struct stream *stream_table_add(struct stream_table *t, const char *event, const char *user)
{
    size_t len = strlen(user) + 1;
    struct stream_event *e = event_of(t, event);
    struct stream *s = e ? calloc(1, sizeof *s + len) : NULL;
    if (!s) {
        if (e)
            drop_if_empty(t, e);
        return NULL;
    }
    if (t->count >= t->chain_count)
        grow(t);
    memcpy(s->user, user, len);
    s->event = e;
    TAILQ_INSERT_HEAD(&e->streams, s, link);
    e->count++;
    t->count++;
    struct stream **head = chain_of(t, event, user);
    s->chain = *head;
    *head = s;
    return s;
}

void stream_table_close(struct stream_table *t, struct stream *s)
{
    struct stream_event *e = s->event;
    struct stream **at = chain_of(t, e->id, s->user);
    while (*at != s)
        at = &(*at)->chain;
    *at = s->chain;
    if (t->cursor.next == s)
        t->cursor.next = TAILQ_NEXT(s, link);
    TAILQ_REMOVE(&e->streams, s, link);
    e->count--;
    t->count--;
    drop_if_empty(t, e);
    s->event = NULL;
    s->http = NULL;
    if (s->pins == 0)
        free(s);
}

void stream_table_unpin(struct stream *s)
{
    if (--s->pins == 0 && !s->event)
        free(s);
}

static struct stream *same_user(struct stream *s, const char *event, const char *user)
{
    while (s && (strcmp(s->user, user) != 0 || strcmp(s->event->id, event) != 0))
        s = s->chain;
    return s;
}

struct stream *stream_table_find(struct stream_table *t, const char *event, const char *user)
{
    return same_user(*chain_of(t, event, user), event, user);
}

struct stream *stream_table_same(const struct stream *s)
{
    return same_user(s->chain, s->event->id, s->user);
}

void stream_table_begin(struct stream_table *t)
{
    t->cursor.event = TAILQ_FIRST(&t->events);
    t->cursor.next = t->cursor.event ? TAILQ_FIRST(&t->cursor.event->streams) : NULL;
}

uint32_t stream_table_step(struct stream_table *t, struct stream **out, uint32_t max)
{
    struct stream_cursor *c = &t->cursor;
    uint32_t n = 0;
    while (c->event && !c->next) {
        c->event = TAILQ_NEXT(c->event, link);
        c->next = c->event ? TAILQ_FIRST(&c->event->streams) : NULL;
    }
    while (c->next && n < max) {
        c->next->pins++;
        out[n++] = c->next;
        c->next = TAILQ_NEXT(c->next, link);
    }
    return n;
}

/* answer_cache.c - a small table searched front to back: a dashboard has a dozen questions, not
 * thousands. */
#include "consumers/stats/answer_cache.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"

struct waiting {
    struct waiting *next;
    void *waiter;
};

struct entry {
    char key[ANSWER_CACHE_KEY_MAX + 1]; /* "" marks a free entry */
    bool loading;
    int64_t fresh_until_ms;
    char *body;
    size_t len;
    struct waiting *first;
};

struct answer_cache {
    answer_fn deliver;
    int64_t ttl_ms;
    size_t count;
    size_t waiters;
    struct entry entries[];
};

int answer_cache_new(size_t max_entries, int64_t ttl_ms, answer_fn deliver,
                     struct answer_cache **out, struct fault *f)
{
    struct answer_cache *c = calloc(1, sizeof *c + max_entries * sizeof c->entries[0]);
    if (!c)
        return fault_set(f, RC_FATAL, "no memory for %zu cached answers", max_entries);
    c->deliver = deliver;
    c->ttl_ms = ttl_ms;
    c->count = max_entries;
    *out = c;
    return 0;
}

/* Takes the waiters off first: deliver() may ask again. */
static void tell_all(struct answer_cache *c, struct entry *e, int status, const char *body,
                     size_t len)
{
    struct waiting *list = e->first;
    e->first = NULL;
    while (list) {
        struct waiting *next = list->next;
        c->waiters--;
        c->deliver(list->waiter, status, body, len);
        free(list);
        list = next;
    }
}

void answer_cache_free(struct answer_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        tell_all(c, &c->entries[i], 503, "", 0);
        free(c->entries[i].body);
    }
    free(c);
}

static struct entry *find(struct answer_cache *c, const char *key)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->entries[i].key, key) == 0)
            return &c->entries[i];
    return NULL;
}

/* A free entry, else the one that went stale first; NULL while all are fresh or loading. */
static struct entry *take_entry(struct answer_cache *c, int64_t now_ms)
{
    struct entry *best = NULL;
    for (size_t i = 0; i < c->count; i++) {
        struct entry *e = &c->entries[i];
        if (!e->key[0])
            return e;
        if (e->loading || e->fresh_until_ms > now_ms)
            continue;
        if (!best || e->fresh_until_ms < best->fresh_until_ms)
            best = e;
    }
    return best;
}

static bool join(struct answer_cache *c, struct entry *e, void *waiter)
{
    struct waiting *w = c->waiters < ANSWER_CACHE_MAX_WAITERS ? malloc(sizeof *w) : NULL;
    if (!w)
        return false;
    *w = (struct waiting){e->first, waiter};
    e->first = w;
    c->waiters++;
    return true;
}

enum answer_ask answer_cache_ask(struct answer_cache *c, const char *key, int64_t now_ms,
                                 void *waiter)
{
    if (!key[0] || strlen(key) > ANSWER_CACHE_KEY_MAX)
        return ANSWER_BUSY;
    struct entry *e = find(c, key);
    if (e && e->loading)
        return join(c, e, waiter) ? ANSWER_JOINED : ANSWER_BUSY;
    if (e && e->body && e->fresh_until_ms > now_ms) {
        c->deliver(waiter, 200, e->body, e->len);
        return ANSWER_GIVEN;
    }
    if (!e)
        e = take_entry(c, now_ms);
    if (!e || !join(c, e, waiter))
        return ANSWER_BUSY;
    memcpy(e->key, key, strlen(key) + 1);
    e->loading = true;
    return ANSWER_LOAD;
}

/* Replaces what the entry holds; without memory it holds nothing, which only costs a look-up. */
static void keep(struct entry *e, int64_t fresh_until_ms, const char *body, size_t len)
{
    free(e->body);
    e->body = malloc(len + 1);
    if (!e->body)
        return;
    memcpy(e->body, body, len);
    e->body[len] = '\0';
    e->len = len;
    e->fresh_until_ms = fresh_until_ms;
}

void answer_cache_fill(struct answer_cache *c, const char *key, int64_t now_ms, int status,
                       const char *body, size_t len)
{
    struct entry *e = find(c, key);
    if (!e)
        return;
    e->loading = false;
    e->fresh_until_ms = now_ms;
    if (status == 200)
        keep(e, now_ms + c->ttl_ms, body, len);
    tell_all(c, e, status, body, len);
}

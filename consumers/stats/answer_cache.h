/* answer_cache.h - keeps an answer for a moment, and lets callers of the same question share one
 * look-up.
 *
 * A dashboard wall asks the same few questions again and again; each costs the database one query
 * per second at most, however many ask. Belongs to one loop: no locks. */
#ifndef ANSWER_CACHE_H
#define ANSWER_CACHE_H
#include <stddef.h>
#include <stdint.h>

struct answer_cache;
struct fault;

enum { ANSWER_CACHE_KEY_MAX = 255, ANSWER_CACHE_MAX_WAITERS = 4096 };

/* Called exactly once for each waiter, also by answer_cache_free() (status 503, empty body). */
typedef void (*answer_fn)(void *waiter, int status, const char *body, size_t len);

enum answer_ask {
    ANSWER_GIVEN,  /* a fresh answer was there: deliver() has been called */
    ANSWER_JOINED, /* somebody is looking it up: deliver() will be called */
    ANSWER_LOAD, /* the caller looks it up and calls answer_cache_fill(); deliver() comes from there
                  */
    ANSWER_BUSY  /* too many keys or waiters: refused, deliver() will not be called */
};

/* Holds at most `max_entries` answers, each for ttl_ms. */
int answer_cache_new(size_t max_entries, int64_t ttl_ms, answer_fn deliver,
                     struct answer_cache **out, struct fault *f);
void answer_cache_free(struct answer_cache *c);

enum answer_ask answer_cache_ask(struct answer_cache *c, const char *key, int64_t now_ms,
                                 void *waiter);

/* Ends a look-up: every waiter of `key` is given the answer. Only status 200 is kept. `body` is
 * copied. */
void answer_cache_fill(struct answer_cache *c, const char *key, int64_t now_ms, int status,
                       const char *body, size_t len);

#endif

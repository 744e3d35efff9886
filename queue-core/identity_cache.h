/* identity_cache.h - user tokens whose signature has been checked, until they expire.
 *
 * A waiting page shows the same token again and again; checking it costs more than all the rest of
 * the request. Entries are found by the whole token, compared in constant time; where a token goes
 * is decided by a hash that outsiders cannot know. Belongs to one loop. */
#ifndef IDENTITY_CACHE_H
#define IDENTITY_CACHE_H
#include <stdbool.h>
#include <stdint.h>

struct fault;
struct identity;
struct identity_cache;

enum {
    IDENTITY_CACHE_ENTRIES = 8192, /* a newer token takes the place of the one in its slot */
    IDENTITY_CACHE_TOKEN_MAX = 600 /* longer ones are checked each time */
};

int identity_cache_new(struct identity_cache **out, struct fault *f);
void identity_cache_free(struct identity_cache *c); /* wipes the tokens; accepts NULL */

/* False: not here, or expired by now_s; *out untouched. */
bool identity_cache_find(const struct identity_cache *c, const char *token, int64_t now_s,
                         struct identity *out);
void identity_cache_add(struct identity_cache *c, const char *token, const struct identity *id);

#endif

/* arena.h - memory that is given out in pieces and taken back all at once.
 *
 * For the short-lived strings of one batch or one request. One thread at a time. */
#ifndef ARENA_H
#define ARENA_H
#include <stddef.h>

struct arena_chunk;

/* Caller's memory. `max` bounds the bytes handed out between two resets. */
struct arena {
    struct arena_chunk *first;
    struct arena_chunk *current;
    size_t used;
    size_t max;
};

void arena_init(struct arena *a, size_t max);
void arena_done(struct arena *a);  /* frees; accepts a zeroed struct */
void arena_reset(struct arena *a); /* everything handed out is gone; keeps the usual chunks */

/* Aligned for any type, not cleared. NULL past `max` or without memory. */
void *arena_alloc(struct arena *a, size_t size);

/* Copies with a NUL behind. NULL as above. */
char *arena_strndup(struct arena *a, const char *text, size_t len);
char *arena_strdup(struct arena *a, const char *text);

#endif

/* arena.c - a list of chunks; a reset starts at the first again. */
#include "runtime/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t size;
    size_t used;
    alignas(max_align_t) unsigned char bytes[];
};

void arena_init(struct arena *a, size_t max)
{
    *a = (struct arena){.max = max};
}

static void free_chunks(struct arena_chunk *c)
{
    while (c) {
        struct arena_chunk *next = c->next;
        free(c);
        c = next;
    }
}

void arena_done(struct arena *a)
{
    free_chunks(a->first);
    *a = (struct arena){.max = a->max};
}

void arena_reset(struct arena *a)
{
    /* Oversized chunks served one odd batch: give them back. */
    struct arena_chunk **link = &a->first;
    while (*link) {
        struct arena_chunk *c = *link;
        if (c->size > CHUNK_BYTES) {
            *link = c->next;
            free(c);
        } else {
            c->used = 0;
            link = &c->next;
        }
    }
    a->current = a->first;
    a->used = 0;
}

static struct arena_chunk *add_chunk(struct arena *a, size_t need)
{
    size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    struct arena_chunk *c = malloc(sizeof *c + size);
    if (!c)
        return NULL;
    c->size = size;
    c->used = 0;
    if (a->current) {
        c->next = a->current->next;
        a->current->next = c;
    } else {
        c->next = NULL;
        a->first = c;
    }
    return c;
}

void *arena_alloc(struct arena *a, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > a->max || a->used > a->max - size)
        return NULL;
    size_t need = (size + align - 1) / align * align;
    struct arena_chunk *c = a->current;
    if (c && c->size - c->used < need) {
        c = c->next; /* kept by a reset, hence empty */
        if (c && c->size < need)
            c = NULL;
    }
    if (!c && !(c = add_chunk(a, need)))
        return NULL;
    a->current = c;
    void *p = c->bytes + c->used;
    c->used += need;
    a->used += size;
    return p;
}

char *arena_strndup(struct arena *a, const char *text, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = arena_alloc(a, len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *arena_strdup(struct arena *a, const char *text)
{
    return arena_strndup(a, text, strlen(text));
}

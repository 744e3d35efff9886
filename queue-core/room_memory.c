/* room_memory.c - what an instance remembers of its events: a bounded table, least used out first.
 */
#include <stdlib.h>
#include <string.h>

#include "queue-core/room_private.h"

struct entry {
    char event[ROOM_EVENT_MAX + 1];
    struct room_known known;
    uint64_t used; /* the table's clock at the last use */
    uint32_t next; /* in its chain; 0: the end. Indices count from 1 */
};

struct room_memory {
    uint32_t max, count, chains;
    uint64_t clock;
    uint32_t *heads;
    struct entry *entries; /* [0] unused */
};

struct room_memory *room_memory_new(uint32_t max)
{
    struct room_memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->max = max > 0 ? max : 1;
    m->chains = m->max * 2 + 1;
    m->heads = calloc(m->chains, sizeof *m->heads);
    m->entries = calloc((size_t)m->max + 1, sizeof *m->entries);
    if (!m->heads || !m->entries) {
        room_memory_free(m);
        return NULL;
    }
    return m;
}

void room_memory_free(struct room_memory *m)
{
    if (!m)
        return;
    free(m->heads);
    free(m->entries);
    free(m);
}

static uint32_t chain_of(const struct room_memory *m, const char *event)
{
    uint32_t hash = 2166136261u; /* FNV-1a; ids come from known events only */
    for (; *event; event++)
        hash = (hash ^ (unsigned char)*event) * 16777619u;
    return hash % m->chains;
}

static struct entry *find(const struct room_memory *m, const char *event)
{
    for (uint32_t i = m->heads[chain_of(m, event)]; i; i = m->entries[i].next)
        if (strcmp(m->entries[i].event, event) == 0)
            return &m->entries[i];
    return NULL;
}

static void unlink_entry(struct room_memory *m, uint32_t index)
{
    uint32_t *link = &m->heads[chain_of(m, m->entries[index].event)];
    while (*link != index)
        link = &m->entries[*link].next;
    *link = m->entries[index].next;
}

/* A full table is rare (more events on sale at once than it was made for): a scan is fine. */
static uint32_t longest_unused(const struct room_memory *m)
{
    uint32_t oldest = 1;
    for (uint32_t i = 2; i <= m->count; i++)
        if (m->entries[i].used < m->entries[oldest].used)
            oldest = i;
    return oldest;
}

const struct room_known *room_memory_find(const struct room_memory *m, const char *event)
{
    const struct entry *e = find(m, event);
    return e ? &e->known : NULL;
}

struct room_known *room_memory_of(struct room_memory *m, const char *event)
{
    struct entry *e = find(m, event);
    if (!e) {
        uint32_t index;
        if (m->count < m->max) {
            index = ++m->count;
        } else {
            index = longest_unused(m);
            unlink_entry(m, index);
        }
        e = &m->entries[index];
        uint32_t *head = &m->heads[chain_of(m, event)];
        *e = (struct entry){.next = *head};
        strncpy(e->event, event, sizeof e->event - 1);
        *head = index;
    }
    e->used = ++m->clock;
    return &e->known;
}

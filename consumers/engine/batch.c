/* batch.c - decode on arrival, dedupe within the batch before the database is asked. */
#include "consumers/engine/batch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/fault.h"

static uint64_t fnv(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(1099511628211);
    return hash;
}

#define FNV_START UINT64_C(14695981039346656037)

int64_t batch_key_hash(const void *key, size_t len)
{
    return key ? (int64_t)fnv(FNV_START, key, len) : 0;
}

void engine_conflict(struct engine_event *e, const char *kind, const char *id)
{
    uint64_t hash =
        fnv(FNV_START, kind, strlen(kind) + 1); /* the NUL keeps "ab"+"c" from "a"+"bc" */
    hash = fnv(hash, id, strlen(id));
    hash |= hash == 0;
    for (unsigned i = 0; i < e->conflict_count; i++)
        if (e->conflicts[i] == hash)
            return;
    if (e->conflict_count == ENGINE_MAX_CONFLICTS)
        e->conflicts_all = true;
    else
        e->conflicts[e->conflict_count++] = hash;
}

void engine_dead(struct engine_event *e, const char *reason, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->detail, sizeof e->detail, fmt, args);
    va_end(args);
    e->outcome = ENGINE_DEAD;
    e->reason = reason;
}

bool batch_type_ignored(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = list; p && *p && len;) {
        p += strspn(p, ", ");
        size_t word = strcspn(p, ", ");
        if (word == len && memcmp(p, name, len) == 0)
            return true;
        p += word;
    }
    return false;
}

int batch_init(struct batch *b)
{
    *b = (struct batch){.items = calloc(ENGINE_MAX_BATCH, sizeof *b->items)};
    arena_init(&b->arena, BATCH_ARENA_BYTES);
    return b->items ? 0 : RC_RETRY;
}

void batch_clear(struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        kafka_message_free(&b->items[i].message);
    b->count = 0;
    b->bytes = 0;
    arena_reset(&b->arena);
}

void batch_done(struct batch *b)
{
    if (b->items)
        batch_clear(b);
    free(b->items);
    arena_done(&b->arena);
    *b = (struct batch){0};
}

bool batch_full(const struct batch *b, size_t max_events)
{
    return b->count >= max_events || b->count >= ENGINE_MAX_BATCH || b->bytes >= BATCH_MAX_BYTES;
}

static void refuse(struct batch_item *item, const char *reason, const char *detail)
{
    item->decoded = BATCH_REFUSED;
    item->refused_reason = reason;
    snprintf(item->refused_detail, sizeof item->refused_detail, "%.*s", ENGINE_DETAIL_MAX - 1,
             detail);
}

static int decode(struct batch *b, const struct engine_spec *spec, const char *ignored_types,
                  struct batch_item *item)
{
    struct engine_reject reject = {0};
    struct fault f = {0};
    int rc = spec->decode(&b->arena, &item->event, &reject, spec->state, &f);
    if (rc == RC_RETRY)
        return rc;
    item->decoded = BATCH_FRESH;
    if (rc != 0 && batch_type_ignored(ignored_types, reject.unknown))
        item->decoded = BATCH_IGNORED;
    else if (rc != 0)
        refuse(item, reject.reason ? reject.reason : "undecodable", f.text);
    else if (!item->event.key || !*item->event.key || strlen(item->event.key) > ENGINE_KEY_MAX)
        refuse(item, "bad_key", "the event has no key of 1 to 255 bytes");
    item->decoded_conflicts = item->event.conflict_count;
    item->decoded_conflicts_all = item->event.conflicts_all;
    return 0;
}

int batch_add(struct batch *b, const struct engine_spec *spec, const char *ignored_types,
              struct partition *partition, struct kafka_message *m, int64_t now_ms)
{
    struct batch_item *item = &b->items[b->count];
    memset(item, 0, sizeof *item);
    item->record =
        (struct engine_record){m->topic,   m->partition, m->offset,    m->timestamp_ms, m->key,
                               m->key_len, m->value,     m->value_len, now_ms};
    item->event.record = &item->record;
    item->partition = partition;
    int rc = decode(b, spec, ignored_types, item);
    if (rc == RC_RETRY && b->count > 0)
        return rc;
    if (rc == RC_RETRY)
        refuse(item, "too_large", "decoding it needs more memory than a batch may have");
    item->message = *m;
    memset(m, 0, sizeof *m);
    b->count++;
    b->bytes += item->record.key_len + item->record.value_len;
    return 0;
}

static int by_key_then_place(const void *a, const void *b)
{
    const struct batch_item *x = *(struct batch_item *const *)a;
    const struct batch_item *y = *(struct batch_item *const *)b;
    int order = strcmp(x->event.key, y->event.key);
    return order ? order : (x > y) - (x < y);
}

static void start_over(struct batch_item *item)
{
    item->fate = item->decoded;
    item->first = NULL;
    item->event.conflict_count = item->decoded_conflicts;
    item->event.conflicts_all = item->decoded_conflicts_all;
    item->event.outcome = ENGINE_APPLIED;
    item->event.reason = NULL;
    item->event.detail[0] = '\0';
}

size_t batch_prepare(struct batch *b, size_t lo, size_t hi, struct batch_item **keys)
{
    size_t n = 0, distinct = 0;
    for (size_t i = lo; i < hi; i++) {
        start_over(&b->items[i]);
        if (b->items[i].fate == BATCH_FRESH)
            keys[n++] = &b->items[i];
    }
    qsort(keys, n, sizeof *keys, by_key_then_place);
    for (size_t i = 0; i < n; i++) {
        struct batch_item *first = distinct ? keys[distinct - 1] : NULL;
        if (first && strcmp(first->event.key, keys[i]->event.key) == 0) {
            keys[i]->fate = BATCH_DUPLICATE;
            keys[i]->first = first;
        } else {
            keys[distinct++] = keys[i];
        }
    }
    return distinct;
}

struct batch_item *batch_find(struct batch_item *const *keys, size_t count, const char *key)
{
    size_t lo = 0, hi = count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(keys[mid]->event.key, key);
        if (order == 0)
            return keys[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

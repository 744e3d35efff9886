/* metrics.c - the registry of series, and updates without locks.
 *
 * Every series owns a few 8-byte cells in each of SHARDS memory areas. A thread adds to the area it
 * was given (round robin) when it first touched a metric, so that two loops share a cache line only
 * when there are more than SHARDS threads; the adds are atomic, so even then nothing is lost.
 *   counter    1 cell: the count
 *   gauge      1 cell: sum of deltas; metric_set() moves `base` so that the total becomes the value
 *   histogram  bucket_count + 1 cells: observations per bucket; 1 cell: their sum
 * Cells holding a double keep its bits. The registry's lock is held to find or make a series and to
 * render, never by an update. */
#include "runtime/metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/metrics_text.h"
#include "runtime/utf8.h"

enum {
    SHARDS = 16,
    LINE = 64,
    CHUNK_CELLS = 512,
    MAX_CELLS = METRICS_MAX_BUCKETS + 2,
    MAX_LABEL_VALUE = 128,
    MAX_LABELS_TEXT = 2048,
    MAX_HOOKS = 32
};

typedef _Atomic(uint64_t) cell;

struct metric {
    const struct metric_def *def;
    struct metric *next; /* of the same family, in order of creation */
    char *labels;        /* a="x",b="y", ready to print; "" without labels */
    cell base;           /* gauges */
    cell *cells[SHARDS];
};

struct family {
    const struct metric_def *def;
    struct family *next; /* sorted by name */
    struct metric *first, *last, *other;
    size_t count;
};

struct hook {
    void (*fn)(void *arg);
    void *arg;
};

static struct {
    pthread_mutex_t lock;
    struct family *families;
    cell *chunk[SHARDS];
    size_t chunk_used;
    struct hook hooks[MAX_HOOKS];
    size_t hook_count;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .chunk_used = CHUNK_CELLS};

const double METRICS_SECONDS[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                  0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
const size_t METRICS_SECONDS_COUNT = sizeof METRICS_SECONDS / sizeof METRICS_SECONDS[0];

/* Takes the updates of series for which there was no memory. */
static cell scrap_cells[MAX_CELLS];
static struct metric scrap;

static unsigned my_shard(void)
{
    static atomic_uint next;
    static _Thread_local unsigned mine; /* 0: not yet given */
    if (mine == 0)
        mine = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % SHARDS + 1;
    return mine - 1;
}

static double to_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t load(const cell *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static void add_double(cell *c, double delta)
{
    uint64_t old = load(c);
    while (!atomic_compare_exchange_weak_explicit(c, &old, to_bits(to_double(old) + delta),
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

static size_t cells_of(const struct metric_def *def)
{
    return def->kind == METRIC_HISTOGRAM ? def->bucket_count + 2 : 1;
}

/* A fresh chunk for every shard, or none at all. The tail of the old chunks stays unused. */
static bool new_chunks(void)
{
    cell *fresh[SHARDS];
    for (unsigned s = 0; s < SHARDS; s++) {
        fresh[s] = aligned_alloc(LINE, CHUNK_CELLS * sizeof(cell));
        if (!fresh[s]) {
            while (s-- > 0)
                free(fresh[s]);
            return false;
        }
        for (size_t i = 0; i < CHUNK_CELLS; i++)
            atomic_init(&fresh[s][i], 0);
    }
    memcpy(registry.chunk, fresh, sizeof fresh);
    registry.chunk_used = 0;
    return true;
}

static bool give_cells(struct metric *m, size_t count)
{
    if (count > CHUNK_CELLS - registry.chunk_used && !new_chunks())
        return false;
    for (unsigned s = 0; s < SHARDS; s++)
        m->cells[s] = registry.chunk[s] + registry.chunk_used;
    registry.chunk_used += count;
    return true;
}

static struct metric *scrap_series(const struct metric_def *def)
{
    scrap.def = def; /* only its kind's bounds matter: bucket_count <= METRICS_MAX_BUCKETS */
    for (unsigned s = 0; s < SHARDS; s++)
        scrap.cells[s] = scrap_cells;
    return &scrap;
}

/* Writes a="x",b="y" for the definition's labels; every value is cut at MAX_LABEL_VALUE bytes. */
static void format_labels(const struct metric_def *def, const char *const *values, struct buf *out)
{
    const char *name = def->labels;
    for (size_t i = 0; name && *name && i < METRICS_MAX_LABELS; i++) {
        size_t len = strcspn(name, ",");
        const char *value = values && values[i] ? values[i] : "";
        if (i > 0)
            (void)buf_putc(out, ',');
        (void)buf_append(out, name, len);
        (void)buf_puts(out, "=\"");
        metrics_text_escape(out, value, utf8_prefix(value, strlen(value), MAX_LABEL_VALUE), true);
        (void)buf_putc(out, '"');
        name += len + (name[len] == ',');
    }
}

static struct family *find_family(const struct metric_def *def)
{
    struct family **at = &registry.families;
    while (*at && strcmp((*at)->def->name, def->name) < 0)
        at = &(*at)->next;
    if (*at && strcmp((*at)->def->name, def->name) == 0)
        return *at;
    struct family *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return NULL;
    fresh->def = def;
    fresh->next = *at;
    *at = fresh;
    return fresh;
}

static struct metric *add_series(struct family *fam, const char *labels)
{
    struct metric *m = calloc(1, sizeof *m);
    char *copy = strdup(labels);
    if (!m || !copy || !give_cells(m, cells_of(fam->def))) {
        free(m);
        free(copy);
        return NULL;
    }
    m->def = fam->def;
    m->labels = copy;
    if (fam->last)
        fam->last->next = m;
    else
        fam->first = m;
    fam->last = m;
    fam->count++;
    return m;
}

static struct metric *other_series(struct family *fam)
{
    static const char *const OTHER[METRICS_MAX_LABELS] = {"other", "other", "other", "other"};
    if (!fam->other) {
        struct buf labels;
        buf_init(&labels, MAX_LABELS_TEXT);
        format_labels(fam->def, OTHER, &labels);
        fam->other = add_series(fam, buf_text(&labels));
        buf_done(&labels);
    }
    return fam->other;
}

/* Lock held. NULL: no memory. */
static struct metric *find_series(const struct metric_def *def, const char *labels)
{
    struct family *fam = find_family(def);
    if (!fam)
        return NULL;
    for (struct metric *m = fam->first; m; m = m->next)
        if (strcmp(m->labels, labels) == 0)
            return m;
    return fam->count < METRICS_MAX_SERIES ? add_series(fam, labels) : other_series(fam);
}

struct metric *metrics_series(const struct metric_def *def, const char *const *label_values)
{
    if (def->bucket_count > METRICS_MAX_BUCKETS)
        abort(); /* a definition is code: this fails on the first run */
    struct buf labels;
    buf_init(&labels, MAX_LABELS_TEXT);
    format_labels(def, label_values, &labels);
    (void)pthread_mutex_lock(&registry.lock);
    struct metric *m = labels.failed ? NULL : find_series(def, buf_text(&labels));
    if (!m)
        m = scrap_series(def);
    (void)pthread_mutex_unlock(&registry.lock);
    buf_done(&labels);
    return m;
}

void metric_add(struct metric *m, uint64_t n)
{
    (void)atomic_fetch_add_explicit(m->cells[my_shard()], n, memory_order_relaxed);
}

static double sum_doubles(const struct metric *m, size_t index)
{
    double sum = 0;
    for (unsigned s = 0; s < SHARDS; s++)
        sum += to_double(load(m->cells[s] + index));
    return sum;
}

static uint64_t sum_counts(const struct metric *m, size_t index)
{
    uint64_t sum = 0;
    for (unsigned s = 0; s < SHARDS; s++)
        sum += load(m->cells[s] + index);
    return sum;
}

/* Deltas that other threads add meanwhile count as added after the set. */
void metric_set(struct metric *m, double value)
{
    atomic_store_explicit(&m->base, to_bits(value - sum_doubles(m, 0)), memory_order_relaxed);
}

void metric_gauge_add(struct metric *m, double delta)
{
    add_double(m->cells[my_shard()], delta);
}

void metric_observe(struct metric *m, double value)
{
    const struct metric_def *def = m->def;
    size_t bucket = 0;
    while (bucket < def->bucket_count && value > def->buckets[bucket])
        bucket++;
    cell *cells = m->cells[my_shard()];
    (void)atomic_fetch_add_explicit(cells + bucket, 1, memory_order_relaxed);
    add_double(cells + def->bucket_count + 1, value);
}

double metric_value(const struct metric *m)
{
    if (m->def->kind == METRIC_COUNTER)
        return (double)sum_counts(m, 0);
    if (m->def->kind == METRIC_GAUGE)
        return to_double(load(&m->base)) + sum_doubles(m, 0);
    uint64_t count = 0;
    for (size_t i = 0; i <= m->def->bucket_count; i++)
        count += sum_counts(m, i);
    return (double)count;
}

void metrics_on_render(void (*fn)(void *arg), void *arg)
{
    (void)pthread_mutex_lock(&registry.lock);
    if (registry.hook_count < MAX_HOOKS)
        registry.hooks[registry.hook_count++] = (struct hook){fn, arg};
    (void)pthread_mutex_unlock(&registry.lock);
}

/* Hooks run without the lock: they may ask for series. */
static void run_hooks(void)
{
    struct hook hooks[MAX_HOOKS];
    (void)pthread_mutex_lock(&registry.lock);
    size_t count = registry.hook_count;
    memcpy(hooks, registry.hooks, sizeof hooks);
    (void)pthread_mutex_unlock(&registry.lock);
    for (size_t i = 0; i < count; i++)
        hooks[i].fn(hooks[i].arg);
}

static void render_histogram(struct buf *out, const struct metric *m)
{
    const struct metric_def *def = m->def;
    const char *comma = m->labels[0] ? "," : "";
    uint64_t count = 0;
    for (size_t i = 0; i <= def->bucket_count; i++) {
        count += sum_counts(m, i);
        (void)buf_printf(out, "%s_bucket{%s%sle=\"", def->name, m->labels, comma);
        if (i < def->bucket_count)
            metrics_text_number(out, def->buckets[i]);
        else
            (void)buf_puts(out, "+Inf");
        (void)buf_printf(out, "\"} %" PRIu64 "\n", count);
    }
    metrics_text_name(out, def->name, "_sum", m->labels);
    metrics_text_number(out, sum_doubles(m, def->bucket_count + 1));
    (void)buf_putc(out, '\n');
    metrics_text_name(out, def->name, "_count", m->labels);
    (void)buf_printf(out, "%" PRIu64 "\n", count);
}

static void render_series(struct buf *out, const struct metric *m)
{
    if (m->def->kind == METRIC_HISTOGRAM) {
        render_histogram(out, m);
        return;
    }
    metrics_text_name(out, m->def->name, "", m->labels);
    if (m->def->kind == METRIC_COUNTER)
        (void)buf_printf(out, "%" PRIu64, sum_counts(m, 0));
    else
        metrics_text_number(out, metric_value(m));
    (void)buf_putc(out, '\n');
}

void metrics_render(struct buf *out)
{
    run_hooks();
    (void)pthread_mutex_lock(&registry.lock);
    for (const struct family *fam = registry.families; fam; fam = fam->next) {
        metrics_text_head(out, fam->def);
        for (const struct metric *m = fam->first; m; m = m->next)
            render_series(out, m);
    }
    (void)pthread_mutex_unlock(&registry.lock);
}

/* reader.c - the engine's batch and transaction, fed from fixed ranges instead of a membership. */
#include "consumers/engine/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "consumers/engine/engine_internal.h"
#include "runtime/clock.h"
#include "runtime/fault.h"

enum {
    POLL_MS = 100,
    SLICE_MS = 20, /* how soon a stop is heard while waiting */
    GIVE_UP_MS = 30000,
    BATCH_SIZE = 200,
    MAX_REST_MS = 500,
    ARENA_BYTES = 32 << 20,
    SEEN_START = 1 << 12,
    SEEN_MAX = 1 << 24 /* keys a rehearsal remembers: 128 MB */
};

/* A set of hashes; 0 is free. Full: nothing more is remembered. */
struct seen {
    uint64_t *places;
    size_t count, size;
};

static size_t seen_place(const struct seen *s, uint64_t hash)
{
    size_t i = (size_t)hash & (s->size - 1);
    while (s->places[i] && s->places[i] != hash)
        i = (i + 1) & (s->size - 1);
    return i;
}

static bool seen_grow(struct seen *s)
{
    struct seen wider = {.size = s->size ? s->size * 2 : SEEN_START};
    if (wider.size > SEEN_MAX || !(wider.places = calloc(wider.size, sizeof *wider.places)))
        return false;
    for (size_t i = 0; i < s->size; i++)
        if (s->places[i])
            wider.places[seen_place(&wider, s->places[i])] = s->places[i];
    wider.count = s->count;
    free(s->places);
    *s = wider;
    return true;
}

/* True where it was in the set before. */
static bool seen_add(struct seen *s, const char *key)
{
    uint64_t hash = (uint64_t)batch_key_hash(key, strlen(key));
    hash |= hash == 0;
    if ((s->count + 1) * 2 > s->size && !seen_grow(s) && s->count + 1 >= s->size)
        return false;
    size_t i = seen_place(s, hash);
    bool there = s->places[i] == hash;
    s->count += !there;
    s->places[i] = hash;
    return there;
}

struct reader {
    const struct reader_options *o;
    struct reader_counts counts;
    struct reader_counts delta; /* of the transaction under way */
    struct seen seen;
    int64_t ends[ENGINE_MAX_PARTITIONS];
    bool finished[ENGINE_MAX_PARTITIONS];
    size_t open;              /* ranges not finished */
    int64_t failing_since_ms; /* 0: the last transaction went through */
    int64_t heard_ms;         /* the last time Kafka gave us anything */
    enum transaction_end end;
    bool gave_up, brake_engaged;
    struct fault why;
};

bool reader_stopping(const struct engine *e)
{
    return *e->reader->o->stop != 0;
}

bool reader_rehearses(const struct engine *e)
{
    return e->reader && e->reader->o->rehearse;
}

bool reader_writes_dead(const struct engine *e)
{
    return !e->reader || (e->reader->o->dead_letters && !e->reader->o->rehearse);
}

void reader_database_failed(struct engine *e, const struct fault *f)
{
    struct reader *r = e->reader;
    if (!r->failing_since_ms)
        r->failing_since_ms = clock_mono_ms();
    r->why = *f;
    r->gave_up = f->rc == RC_FATAL || clock_mono_ms() - r->failing_since_ms > GIVE_UP_MS;
    e->stale = e->stale || r->gave_up;
}

bool reader_wait(struct engine *e, int64_t ms)
{
    int64_t until = clock_mono_ms() + ms;
    while (!reader_stopping(e) && !e->stale && clock_mono_ms() < until)
        nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL);
    return !reader_stopping(e) && !e->stale;
}

/* The fate of one item, as the counts have it. */
static int64_t *place_of(struct reader *r, const struct batch_item *item, bool dead)
{
    struct reader_counts *d = &r->delta;
    if (dead)
        return &d->dead;
    if (item->fate == BATCH_IGNORED)
        return &d->ignored;
    if (item->fate == BATCH_DUPLICATE)
        return &d->duplicate;
    if (r->o->rehearse && seen_add(&r->seen, item->event.key))
        return &d->duplicate;
    return item->event.outcome == ENGINE_NOOP ? &d->noop : &d->applied;
}

void reader_begin(struct engine *e)
{
    e->reader->delta = (struct reader_counts){0};
}

void reader_count(struct engine *e, const struct batch_item *item, bool dead)
{
    e->reader->delta.read++;
    (*place_of(e->reader, item, dead))++;
}

int reader_queue_counts(struct engine *e, size_t *queued, struct fault *f)
{
    const struct reader_counts *d = &e->reader->delta;
    if (!e->reader->o->replay_id || e->reader->o->rehearse)
        return 0;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, e->reader->o->replay_id);
    pg_params_int8(&p, d->read);
    pg_params_int8(&p, d->applied);
    pg_params_int8(&p, d->noop);
    pg_params_int8(&p, d->duplicate);
    pg_params_int8(&p, d->ignored);
    pg_params_int8(&p, d->dead);
    (*queued)++;
    return pg_queue(e->pg, engine_sql(ENGINE_SQL_REPLAY_COUNT), &p, f);
}

void reader_ended(struct engine *e, enum transaction_end end)
{
    struct reader *r = e->reader;
    r->end = end;
    if (end != TRANSACTION_DONE)
        return;
    r->failing_since_ms = 0;
    r->counts.read += r->delta.read;
    r->counts.applied += r->delta.applied;
    r->counts.noop += r->delta.noop;
    r->counts.duplicate += r->delta.duplicate;
    r->counts.ignored += r->delta.ignored;
    r->counts.dead += r->delta.dead;
    if (r->o->on_progress)
        r->o->on_progress(r->o->arg, &r->counts);
}

/* A rehearsal only notes it and goes on; else the batch is rolled back and the run ends. The group
 * itself is left alone: its own batches meet the brake when they reach it. */
bool reader_braked(struct engine *e, const struct engine_brake *brake, struct fault *f)
{
    struct reader *r = e->reader;
    r->brake_engaged = true;
    if (r->o->rehearse)
        return false;
    (void)fault_set(f, RC_REJECT, "%s: %s", brake->reason, brake->detail);
    r->why = *f;
    return true;
}

/* What comes of it later is dropped: stopping one partition would make the client fetch all others
 * anew. */
static void finish(struct engine *e, size_t i)
{
    struct reader *r = e->reader;
    r->open -= !r->finished[i];
    r->finished[i] = true;
}

/* RC_RETRY: the batch is full and the message stays the caller's. */
static int on_message(struct engine *e, struct kafka_message *m)
{
    struct reader *r = e->reader;
    struct partition *p = engine_partition(e, m->topic, m->partition);
    size_t i = p ? (size_t)(p - e->partitions) : 0;
    int rc = 0;
    if (p && !r->finished[i] && m->offset >= p->delivered && m->offset < r->ends[i]) {
        int64_t offset = m->offset;
        rc = batch_add(&e->batch, e->spec, e->ignored_types, p, m, clock_wall_ms());
        if (rc != 0)
            return rc;
        p->delivered = offset + 1;
    }
    if (p && (m->offset >= r->ends[i] || p->delivered >= r->ends[i]))
        finish(e, i);
    kafka_message_free(m);
    return 0;
}

static int on_event(struct engine *e, struct kafka_event *event, struct fault *f)
{
    struct partition *p = event->kind == KAFKA_EVENT_EOF || event->kind == KAFKA_EVENT_OUT_OF_RANGE
                              ? engine_partition(e, event->topic, event->partition)
                              : NULL;
    if (event->kind == KAFKA_EVENT_OUT_OF_RANGE)
        return fault_set(f, RC_REJECT, "%s[%d]: %lld is not in the log any more (%lld to %lld)",
                         event->topic, event->partition, (long long)event->offset,
                         (long long)event->low, (long long)event->high);
    if (p && event->kind == KAFKA_EVENT_EOF)
        finish(e, (size_t)(p - e->partitions)); /* what is left of the range are control records */
    return 0;
}

/* Why a batch was not applied. */
static int stopped(struct engine *e, struct fault *f)
{
    struct reader *r = e->reader;
    if (r->end == TRANSACTION_BRAKED) {
        *f = r->why;
        return r->why.rc;
    }
    if (r->end == TRANSACTION_FENCED)
        return fault_set(f, RC_REJECT, "somebody else has moved this replay on; nothing was lost");
    if (r->gave_up) {
        *f = r->why;
        return r->why.rc;
    }
    return fault_set(f, RC_RETRY, "interrupted");
}

/* Makes room for the live group between two transactions. */
static void rest(struct engine *e, size_t events, int64_t worked_us)
{
    int64_t ms = worked_us / 1000;
    if (e->reader->o->rate > 0)
        ms = (int64_t)events * 1000 / e->reader->o->rate - ms;
    else if (ms > MAX_REST_MS)
        ms = MAX_REST_MS;
    if (ms > 0)
        (void)reader_wait(e, ms);
}

static int flush(struct engine *e, struct fault *f)
{
    size_t events = e->batch.count;
    if (events == 0)
        return 0;
    int64_t start = clock_mono_us();
    apply_batch(e);
    if (e->partitions[0].state != PARTITION_RUNNING)
        return stopped(e, f);
    rest(e, events, clock_mono_us() - start);
    e->reader->heard_ms = clock_mono_ms(); /* what the database took is not Kafka's silence */
    return 0;
}

static int step(struct engine *e, struct fault *f)
{
    struct kafka_event event;
    int rc = kafka_consumer_poll(e->kafka, e->batch.count ? 0 : POLL_MS, &event, f);
    if (rc == RC_FATAL)
        return rc;
    if (rc == RC_RETRY) { /* librdkafka tries again by itself */
        reader_database_failed(e, f);
        return e->reader->gave_up ? rc : 0;
    }
    if (event.kind != KAFKA_EVENT_NONE)
        e->reader->heard_ms = clock_mono_ms();
    else if (clock_mono_ms() - e->reader->heard_ms > GIVE_UP_MS) /* a range always has more */
        return fault_set(f, RC_RETRY, "Kafka does not answer");
    if (event.kind == KAFKA_EVENT_MESSAGE) {
        rc = on_message(e, &event.message);
        if (rc == RC_RETRY) {
            rc = flush(e, f);
            if (rc == 0)
                rc = on_message(e, &event.message);
            else
                kafka_message_free(&event.message);
        }
    } else {
        rc = on_event(e, &event, f);
    }
    bool waits = event.kind == KAFKA_EVENT_NONE || e->reader->open == 0;
    if (rc == 0 && (waits || batch_full(&e->batch, e->batch_size)))
        rc = flush(e, f);
    return rc;
}

static int run(struct engine *e, struct fault *f)
{
    int rc = 0;
    while (rc == 0 && e->reader->open > 0)
        rc = reader_stopping(e) ? fault_set(f, RC_RETRY, "interrupted") : step(e, f);
    return rc;
}

static int open_kafka(struct engine *e, const struct reader_options *o, struct fault *f)
{
    struct kafka_start places[ENGINE_MAX_PARTITIONS];
    for (size_t i = 0; i < e->partition_count; i++)
        places[i] =
            (struct kafka_start){o->topic, e->partitions[i].number, e->partitions[i].next_offset};
    struct kafka_consumer_options options = {
        .client = o->kafka, .places = places, .place_count = e->partition_count};
    return e->partition_count ? kafka_consumer_open(&options, &e->kafka, f) : 0;
}

static int prepare(struct engine *e, struct reader *r, const struct reader_options *o,
                   struct fault *f)
{
    if (batch_init(&e->batch) != 0 || waves_init(&e->waves) != 0)
        return fault_set(f, RC_FATAL, "no memory for the reader");
    if (o->range_count > ENGINE_MAX_PARTITIONS)
        return fault_set(f, RC_REJECT, "%zu partitions at once are too many", o->range_count);
    e->spec = o->spec;
    e->reader = r;
    e->pg = o->pg;
    e->offset_group = o->offset_group;
    e->dedupe_group = o->spec->dedupe_group ? o->spec->dedupe_group : o->spec->group;
    e->ignored_types = o->ignored_types;
    e->batch_size = o->batch_size ? o->batch_size : BATCH_SIZE;
    if (o->rate > 0 && o->rate / 10 < (int64_t)e->batch_size) /* no bursts: ten batches a second */
        e->batch_size = o->rate >= 10 ? (size_t)(o->rate / 10) : 1;
    arena_init(&e->arena, ARENA_BYTES);
    backoff_init(&e->backoff, 10, 1000, 0);
    engine_metrics_init(&e->metrics, o->spec->group);
    for (size_t i = 0; i < o->range_count; i++) {
        const struct reader_range *range = &o->ranges[i];
        if (range->next >= range->to)
            continue;
        r->ends[e->partition_count] = range->to;
        e->partitions[e->partition_count++] = (struct partition){.topic = o->topic,
                                                                 .number = range->partition,
                                                                 .state = PARTITION_RUNNING,
                                                                 .next_offset = range->next,
                                                                 .delivered = range->next,
                                                                 .generation = range->generation,
                                                                 .eof = -1};
    }
    r->open = e->partition_count;
    r->heard_ms = clock_mono_ms();
    return open_kafka(e, o, f);
}

int reader_run(const struct reader_options *o, struct reader_result *out, struct fault *f)
{
    struct reader r = {.o = o};
    struct engine *e = calloc(1, sizeof *e);
    *out = (struct reader_result){0};
    if (!e)
        return fault_set(f, RC_FATAL, "no memory for the reader");
    int rc = prepare(e, &r, o, f);
    if (rc == 0)
        rc = run(e, f);
    if (e->batch.items)
        batch_clear(&e->batch); /* its messages belong to the client */
    kafka_consumer_close(e->kafka);
    engine_free(e);
    free(r.seen.places);
    out->counts = r.counts;
    out->brake_engaged = r.brake_engaged;
    return rc;
}

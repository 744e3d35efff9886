/* engine.c - the loop: poll, decode, collect, apply; and once a second everything else. */
#include "consumers/engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumers/engine/engine_internal.h"
#include "runtime/clock.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/log.h"

enum {
    TICK_MS = 1000,
    TICK_WORK_MS = 250, /* for a hook that asks for more: payments wait meanwhile */
    IDLE_POLL_MS = 100,
    RESOLVE_RETRY_MS = 200,
    JOIN_AGAIN_MS = 1000,
    PARTITIONS_MS = 1000,
    ARENA_BYTES = 32 << 20
};

const struct config_item ENGINE_SETTINGS[] = {
    {"KAFKA_IGNORED_TYPES", CONFIG_STRING, NULL, 0, 4096, NULL,
     "Event types (and paymentTypes) that nobody here knows and that are skipped and counted "
     "instead of "
     "going to the dead letters; separated by commas.",
     CONFIG_OPTIONAL},
    {"CONSUMER_BATCH_SIZE", CONFIG_INT, "1000", 1, ENGINE_MAX_BATCH, NULL,
     "Most events in one transaction.", 0},
    {"CONSUMER_LINGER_MS", CONFIG_INT, "10", 0, 1000, NULL,
     "At most one transaction per so many milliseconds, unless a batch is full. An event that "
     "comes later than this after the last one is applied at once.",
     0},
    {0}};

struct partition *engine_partition(struct engine *e, const char *topic, int32_t number)
{
    for (size_t i = 0; i < e->partition_count; i++)
        if (e->partitions[i].number == number && strcmp(e->partitions[i].topic, topic) == 0)
            return &e->partitions[i];
    return NULL;
}

void engine_reset(struct engine *e)
{
    batch_clear(&e->batch);
    e->stale = false;
    for (size_t i = 0; i < e->partition_count; i++)
        e->partitions[i].state = PARTITION_PENDING;
    e->pending = e->partition_count > 0;
}

void engine_database_failed(struct engine *e, const struct fault *f)
{
    if (e->reader)
        reader_database_failed(e, f);
    else
        readiness_set(e->ready_database, false, f->text);
}

bool engine_stopping(const struct engine *e)
{
    return e->reader ? reader_stopping(e) : daemon_stopping(e->daemon);
}

static bool any_blocked(const struct engine *e)
{
    for (size_t i = 0; i < e->partition_count; i++)
        if (e->partitions[i].state == PARTITION_BLOCKED)
            return true;
    return false;
}

static void set_fetching(struct engine *e)
{
    bool stop = e->paused || any_blocked(e);
    if (stop && !kafka_consumer_paused(e->kafka))
        kafka_consumer_pause(e->kafka);
    else if (!stop && kafka_consumer_paused(e->kafka))
        kafka_consumer_resume(e->kafka);
}

static void show_readiness(struct engine *e)
{
    const char *why = e->paused ? e->pause_text : e->halt_text;
    bool stopped = e->paused || e->halt_text[0];
    readiness_set(e->ready_consumer, !stopped, stopped ? why : "");
    readiness_set(e->ready_kafka, kafka_consumer_connected(e->kafka),
                  "no answer from Kafka; trying again");
    metric_set(e->metrics.paused, stopped);
}

bool engine_wait(struct engine *e, int64_t ms)
{
    if (e->reader)
        return reader_wait(e, ms);
    if (ms < IDLE_POLL_MS) /* too short to matter to the group */
        return !daemon_wait(e->daemon, (int)ms) && !e->stale;
    int64_t until = clock_mono_ms() + ms;
    kafka_consumer_pause(e->kafka);
    while (!daemon_stopping(e->daemon) && !e->stale && clock_mono_ms() < until) {
        struct kafka_event event;
        struct fault f;
        if (kafka_consumer_poll(e->kafka, IDLE_POLL_MS, &event, &f) == RC_FATAL) {
            e->stale = true;
            daemon_wait(e->daemon, IDLE_POLL_MS);
        }
        if (event.kind == KAFKA_EVENT_MESSAGE) { /* was on its way: read again after a reset */
            kafka_message_free(&event.message);
            e->stale = true;
        }
    }
    set_fetching(e);
    return !daemon_stopping(e->daemon) && !e->stale;
}

static int on_assign(void *arg, struct kafka_start *starts, size_t count, struct fault *f)
{
    struct engine *e = arg;
    if (count > ENGINE_MAX_PARTITIONS)
        return fault_set(f, RC_FATAL, "%zu partitions for one instance: start more instances",
                         count);
    e->stale = e->batch.count > 0;
    e->partition_count = 0;
    for (size_t i = 0; i < count; i++) {
        const char *topic = NULL;
        for (size_t k = 0; e->spec->topics[k]; k++)
            if (strcmp(e->spec->topics[k], starts[i].topic) == 0)
                topic = e->spec->topics[k];
        if (!topic)
            continue;
        struct partition *p = &e->partitions[e->partition_count++];
        *p = (struct partition){.topic = topic, .number = starts[i].partition, .eof = -1};
        engine_metrics_partition(&p->metrics, e->spec->group, topic, p->number);
        starts[i].offset = KAFKA_OFFSET_NONE; /* the loop asks the database, then seeks */
    }
    e->pending = e->partition_count > 0;
    LOG_INFO("partitions assigned", LOG_STR("group", e->spec->group), LOG_INT("count", count));
    return 0;
}

static void on_revoke(void *arg, bool lost)
{
    struct engine *e = arg;
    for (size_t i = 0; i < e->partition_count; i++) { /* another instance shows them now */
        metric_set(e->partitions[i].metrics.lag_messages, 0);
        metric_set(e->partitions[i].metrics.lag_seconds, 0);
    }
    e->stale = e->batch.count > 0;
    e->partition_count = 0;
    e->pending = false;
    e->halt_text[0] = '\0';
    LOG_INFO("partitions taken away", LOG_STR("group", e->spec->group), LOG_INT("lost", lost));
}

static void on_message(struct engine *e, struct kafka_message *m)
{
    struct partition *p = engine_partition(e, m->topic, m->partition);
    if (p && p->state == PARTITION_VERIFYING) {
        offsets_verify(e, p, m);
    } else if (p && p->state == PARTITION_RUNNING && !e->halt_text[0] &&
               m->offset >= p->next_offset && m->offset >= p->delivered) {
        int64_t offset = m->offset;
        if (batch_add(&e->batch, e->spec, e->ignored_types, p, m, clock_wall_ms()) == RC_RETRY) {
            apply_batch(e);
            /* After a clean apply the partition is as it was; else the record is read again. */
            if (e->batch.count == 0 && p->state == PARTITION_RUNNING && !e->pending)
                batch_add(&e->batch, e->spec, e->ignored_types, p, m, clock_wall_ms());
        }
        if (p->state == PARTITION_RUNNING)
            p->delivered = offset + 1;
    }
    kafka_message_free(m);
}

static void on_event(struct engine *e, struct kafka_event *event)
{
    struct partition *p = NULL;
    switch (event->kind) {
    case KAFKA_EVENT_NONE:
        return;
    case KAFKA_EVENT_MESSAGE:
        on_message(e, &event->message);
        return;
    case KAFKA_EVENT_EOF:
        p = engine_partition(e, event->topic, event->partition);
        if (p && p->state == PARTITION_VERIFYING)
            offsets_verify_failed(e, p);
        else if (p)
            p->eof = event->offset;
        return;
    case KAFKA_EVENT_OUT_OF_RANGE:
        p = engine_partition(e, event->topic, event->partition);
        if (p && p->state != PARTITION_BLOCKED) {
            p->state = PARTITION_PENDING;
            e->pending = true;
        }
        return;
    }
}

int engine_partitions(const struct engine_tx *tx, const char *topic, int32_t *out, struct fault *f)
{
    return kafka_consumer_partitions(tx->engine->kafka, topic, PARTITIONS_MS, out, f);
}

static int tick_once(struct engine *e, bool *out_again, struct fault *f)
{
    struct engine_tx tx = {.pg = e->pg,
                           .arena = &e->arena,
                           .state = e->spec->state,
                           .group = e->spec->group,
                           .now_ms = clock_wall_ms(),
                           .engine = e};
    int rc = pg_begin(e->pg, f);
    if (!rc)
        rc = e->spec->tick(&tx, f);
    if (!rc)
        rc = pg_commit(e->pg, f);
    if (rc)
        pg_rollback(e->pg);
    arena_reset(&e->arena);
    *out_again = tx.again;
    return rc;
}

static void run_tick_hook(struct engine *e)
{
    struct fault f = {0};
    bool again = true;
    int64_t until = clock_mono_ms() + TICK_WORK_MS;
    while (again && !daemon_stopping(e->daemon)) {
        if (tick_once(e, &again, &f) != 0) {
            metric_add(e->metrics.tick_failures, 1);
            LOG_WARN("the work of this second failed", LOG_STR("error", f.text));
            return;
        }
        again = again && clock_mono_ms() < until;
    }
}

static int tick(struct engine *e, struct fault *f)
{
    int rc = pg_connected(e->pg) ? 0 : pg_connect(e->pg, f);
    if (!rc)
        rc = control_read(e, f);
    if (!rc)
        rc = offsets_watch(e, f);
    if (!rc && e->spec->tick && !e->paused && !e->halt_text[0])
        run_tick_hook(e);
    if (rc) {
        engine_database_failed(e, f);
        return rc;
    }
    readiness_set(e->ready_database, true, "");
    caught_up_ask(e);
    return 0;
}

static void each_second(struct engine *e)
{
    struct fault f = {0};
    int64_t now = clock_mono_ms();
    if (now < e->next_tick_ms)
        return;
    e->next_tick_ms = now + TICK_MS;
    if (tick(e, &f) != 0)
        LOG_WARN("the database does not answer", LOG_STR("error", f.text));
    set_fetching(e);
    show_readiness(e);
}

static void resolve(struct engine *e)
{
    struct fault f = {0};
    int rc = pg_connected(e->pg) ? 0 : pg_connect(e->pg, &f);
    if (!rc)
        rc = offsets_resolve(e, &f);
    if (rc) {
        LOG_DEBUG("places not found yet", LOG_STR("error", f.text));
        engine_wait(e, RESOLVE_RETRY_MS);
    }
    set_fetching(e);
}

/* drained: the last poll brought no message. What is here already comes along. */
static bool batch_due(const struct engine *e, bool drained)
{
    if (e->batch.count == 0)
        return false;
    return batch_full(&e->batch, e->batch_size) ||
           (drained && clock_mono_us() - e->applied_us >= e->linger_us);
}

static int poll_timeout_ms(const struct engine *e)
{
    if (e->batch.count == 0)
        return IDLE_POLL_MS;
    int64_t left_us = e->linger_us - (clock_mono_us() - e->applied_us);
    return left_us > 0 ? (int)((left_us + 999) / 1000) : 0;
}

static int step(struct engine *e, struct fault *f)
{
    each_second(e);
    if (e->stale)
        engine_reset(e);
    if (e->pending)
        resolve(e);
    struct kafka_event event;
    int rc = kafka_consumer_poll(e->kafka, poll_timeout_ms(e), &event, f);
    if (rc == RC_FATAL)
        return rc;
    if (rc == 0)
        on_event(e, &event);
    if (e->stale || (e->pending && e->batch.count > 0))
        engine_reset(e);
    if (batch_due(e, rc != 0 || event.kind != KAFKA_EVENT_MESSAGE))
        apply_batch(e);
    struct fault scrap;
    caught_up_take(e, &scrap);
    return 0;
}

static int open_kafka(struct engine *e, struct fault *f)
{
    struct kafka_consumer_options o = {.group = e->spec->group,
                                       .topics = e->spec->topics,
                                       .on_assign = on_assign,
                                       .on_revoke = on_revoke,
                                       .arg = e};
    kafka_consumer_from_config(daemon_config(e->daemon), e->spec->name, &o);
    return kafka_consumer_open(&o, &e->kafka, f);
}

static void close_kafka(struct engine *e)
{
    batch_clear(&e->batch); /* its messages belong to the client */
    kafka_consumer_close(e->kafka);
    e->kafka = NULL;
}

static int open_clients(struct engine *e, struct fault *f)
{
    struct pg_session session = {
        .uri = config_str(daemon_config(e->daemon), e->spec->database_setting),
        .application_name = e->spec->name};
    int rc = pg_new(&session, &e->pg, f);
    return rc ? rc : open_kafka(e, f);
}

/* A static member that stood still can find that the group knows its id under another name; its
 * client is then dead for good. A new one joins as after a restart. Two processes with one id take
 * turns here, loudly: the swap of the offsets keeps their effects apart. */
static int join_again(struct engine *e, struct fault *f)
{
    readiness_set(e->ready_kafka, false, f->text);
    LOG_ERROR("the group gave this member up; joining again", LOG_STR("group", e->spec->group),
              LOG_STR("error", f->text));
    close_kafka(e);
    on_revoke(e, true);
    e->stale = false;
    if (daemon_wait(e->daemon, JOIN_AGAIN_MS))
        return 0;
    return open_kafka(e, f);
}

static int run(struct daemon *d, void *arg)
{
    struct engine *e = arg;
    struct fault f = {0};
    int rc = open_clients(e, &f);
    while (rc == 0 && !daemon_stopping(d)) {
        rc = step(e, &f);
        if (kafka_consumer_failed(e->kafka, &f))
            rc = join_again(e, &f);
    }
    if (rc == 0 && e->batch.count > 0 && !e->stale)
        apply_batch(e); /* finish what was begun, then leave */
    if (rc)
        LOG_ERROR("the consumer cannot go on", LOG_STR("group", e->spec->group),
                  LOG_STR("error", f.text));
    close_kafka(e);
    pg_free(e->pg);
    e->pg = NULL;
    return rc ? RC_FATAL : 0;
}

int engine_start(struct daemon *d, const struct engine_spec *spec, struct engine **out,
                 struct fault *f)
{
    const struct config *c = daemon_config(d);
    struct engine *e = calloc(1, sizeof *e);
    if (!e || batch_init(&e->batch) != 0 || waves_init(&e->waves) != 0) {
        engine_free(e);
        return fault_set(f, RC_FATAL, "no memory for the consumer %s", spec->name);
    }
    e->spec = spec;
    e->daemon = d;
    e->offset_group = spec->offset_group ? spec->offset_group : spec->group;
    e->dedupe_group = spec->dedupe_group ? spec->dedupe_group : spec->group;
    e->ignored_types = config_str(c, "KAFKA_IGNORED_TYPES");
    e->batch_size = (size_t)config_int(c, "CONSUMER_BATCH_SIZE");
    e->linger_us = config_int(c, "CONSUMER_LINGER_MS") * 1000;
    arena_init(&e->arena, ARENA_BYTES);
    backoff_init(&e->backoff, 10, 1000, 0);
    engine_metrics_init(&e->metrics, spec->group);
    e->ready_database = daemon_readiness(d, "database");
    e->ready_kafka = daemon_readiness(d, "kafka");
    e->ready_consumer = daemon_readiness(d, "consumer");
    int rc = daemon_thread(d, spec->name, run, e, f);
    if (rc) {
        engine_free(e);
        return rc;
    }
    *out = e;
    return 0;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    batch_done(&e->batch);
    waves_done(&e->waves);
    arena_done(&e->arena);
    free(e);
}

/* engine_internal.h - what the engine's files share. Not for consumers. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H
#include "consumers/engine/batch.h"
#include "consumers/engine/engine.h"
#include "consumers/engine/engine_metrics.h"
#include "consumers/engine/engine_sql.h"
#include "consumers/engine/waves.h"
#include "runtime/arena.h"
#include "runtime/backoff.h"
#include "runtime/kafka_consumer.h"
#include "runtime/pg.h"

struct reader;
struct readiness;

enum partition_state {
    PARTITION_PENDING,   /* its place must be read from the database first */
    PARTITION_VERIFYING, /* the last applied record is read again: is it still the same one? */
    PARTITION_RUNNING,
    PARTITION_BLOCKED /* a start rule says stop; looked at again every second */
};

struct partition {
    const char *topic;
    int32_t number;
    enum partition_state state;
    int64_t next_offset, generation; /* as in consumer_offsets */
    bool has_last;
    int64_t last_offset, last_timestamp, last_key_hash;
    int64_t delivered;       /* the offset behind the last record handed to the batch */
    int64_t eof;             /* the last end that was reached; -1: none */
    int64_t applied_time_ms; /* record time of the last applied record; 0: none yet */
    struct engine_partition_metrics metrics;
};

struct engine {
    const struct engine_spec *spec;
    struct daemon *daemon;
    struct reader
        *reader; /* a second reader, without a daemon (reader.c); NULL: the group itself */
    struct pg *pg;
    struct kafka_consumer *kafka;
    const char *offset_group, *dedupe_group, *ignored_types;
    size_t batch_size;
    int64_t linger_us, applied_us; /* when the last batch began to be applied, monotonic */

    struct partition partitions[ENGINE_MAX_PARTITIONS];
    size_t partition_count;
    bool pending; /* a partition is PENDING */
    bool stale;   /* partitions were taken away: the batch is nobody's */
    struct batch batch;
    struct waves waves;
    struct arena arena; /* of the transaction */

    bool paused; /* by consumer_control */
    char pause_text[320];
    char halt_text[320]; /* "" or why a start rule stops this instance */
    int64_t next_tick_ms, db_now_ms;
    struct backoff backoff;

    struct engine_metrics metrics;
    struct readiness *ready_database, *ready_kafka, *ready_consumer;
};

/* engine.c */
struct partition *engine_partition(struct engine *e, const char *topic, int32_t number);
/* Drops the batch and reads every place again: after anything out of the ordinary. */
void engine_reset(struct engine *e);
/* Waits up to ms with fetching paused and polling going on; false: stopping, or the batch is stale.
 */
bool engine_wait(struct engine *e, int64_t ms);
void engine_database_failed(struct engine *e, const struct fault *f);
bool engine_stopping(const struct engine *e);

/* offsets.c: finds the place of every pending partition. RC_RETRY: a server is away. */
int offsets_resolve(struct engine *e, struct fault *f);
/* The first record after a start at the last applied one; it is only looked at. */
void offsets_verify(struct engine *e, struct partition *p, const struct kafka_message *m);
/* An end of partition while verifying: the record is not there any more. */
void offsets_verify_failed(struct engine *e, struct partition *p);
/* Rows that moved without us make their partitions pending. */
int offsets_watch(struct engine *e, struct fault *f);

/* apply.c: the whole batch, in as many transactions as it takes. Empties it. */
void apply_batch(struct engine *e);

/* transaction.c: events [lo, hi) of the batch in one transaction. */
enum transaction_end {
    TRANSACTION_DONE,
    TRANSACTION_FENCED,
    TRANSACTION_BRAKED,
    TRANSACTION_FAILED
};
enum transaction_end transaction_run(struct engine *e, size_t lo, size_t hi, struct fault *f);

/* control.c */
int control_read(struct engine *e, struct fault *f);
int control_pause(struct engine *e, const struct engine_brake *brake, struct fault *f);

/* reader.c: what differs in a second reader. */
bool reader_stopping(const struct engine *e);
bool reader_wait(struct engine *e, int64_t ms);
void reader_database_failed(struct engine *e, const struct fault *f);
bool reader_rehearses(const struct engine *e);   /* false for the group itself */
bool reader_writes_dead(const struct engine *e); /* true for the group itself */
void reader_begin(struct engine *e);
void reader_count(struct engine *e, const struct batch_item *item, bool dead);
int reader_queue_counts(struct engine *e, size_t *queued, struct fault *f);
void reader_ended(struct engine *e, enum transaction_end end);
bool reader_braked(struct engine *e, const struct engine_brake *brake, struct fault *f);

/* caught_up.c */
void caught_up_ask(struct engine *e);
int caught_up_take(struct engine *e, struct fault *f);

#endif

/* ticket_internal.h - what the ticket consumer's files share. */
#ifndef TICKET_INTERNAL_H
#define TICKET_INTERNAL_H
#include "consumers/engine/engine.h"
#include "consumers/ticket/ticket_consumer.h"
#include "events/event.h"
#include "runtime/pg.h"

struct ticket_planted;

/* Confirmations stand in the order of enum event_payment_type. */
enum ticket_handler {
    TICKET_CONFIRMED_RESERVATION,
    TICKET_CONFIRMED_TRANSFER,
    TICKET_CONFIRMED_MEMBERSHIP,
    TICKET_REFUNDED,
    TICKET_HANDLER_COUNT
};

/* The answers of the SQL functions. */
enum ticket_outcome {
    TICKET_APPLIED, /* the only one that the statements leave out of their answer */
    TICKET_NOOP,
    TICKET_REFUND_REQUESTED,
    TICKET_LEDGER_ONLY,
    TICKET_DEAD,
    TICKET_OUTCOME_COUNT
};

/* Reasons are the SQL functions' words; each is kept once, for the life of the process. */
enum { TICKET_REASON_MAX = 40, TICKET_MAX_REASONS = 64 };
struct ticket_reason {
    char name[TICKET_REASON_MAX + 1];
    struct metric *refund_requests; /* NULL until the first one */
};

struct ticket_body { /* engine_event.body */
    struct event event;
    const char *subject; /* a UUID in lower case; NULL: a refund that names none */
    enum ticket_outcome outcome;
    struct ticket_reason *reason; /* NULL: none */
};

enum ticket_sql {
    TICKET_SQL_CONFIRMED_RESERVATION, /* the handlers' come first, in their order */
    TICKET_SQL_CONFIRMED_TRANSFER,
    TICKET_SQL_CONFIRMED_MEMBERSHIP,
    TICKET_SQL_REFUNDED,
    TICKET_SQL_LOCK_BATCH,
    TICKET_SQL_BRAKE_CHECK,
    TICKET_SQL_EXPIRE_DUE,
    TICKET_SQL_PRUNE,
    TICKET_SQL_PLANTED_TAKE,
    TICKET_SQL_PLANTED_PUT,
    TICKET_SQL_COUNT
};

/* One array per column, filled anew for each call and kept between batches. */
struct ticket_columns {
    struct pg_array ord, kind, payment, order, saga, user, type, subject, amount, method, time;
};

struct ticket_metrics {
    struct metric *payments[TICKET_HANDLER_COUNT][TICKET_OUTCOME_COUNT];
    struct metric *expired, *sweep_blocked, *caught_up_age, *pruned;
    struct metric *brake_engaged, *brake_requests;
};

struct ticket_consumer {
    const char *group, *topic;
    int32_t prune_after_days;
    int64_t next_prune_ms; /* monotonic */
    struct ticket_columns columns;
    struct ticket_reason reasons[TICKET_MAX_REASONS];
    size_t reason_count;
    struct pg_stmt statements[TICKET_SQL_COUNT];
    struct ticket_metrics metrics;
    struct ticket_planted *planted; /* NULL outside tests */
    const char *topics[2];
    struct engine_spec spec;
};

/* ticket_decode.c: engine_spec.decode. */
int ticket_decode(struct arena *arena, struct engine_event *out, struct engine_reject *out_reject,
                  void *state, struct fault *f);

/* ticket_apply.c: the hooks of a batch's transaction. */
extern const struct engine_handler TICKET_HANDLERS[];
int ticket_lock(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                struct fault *f);
int ticket_before_commit(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                         struct engine_brake *brake, struct fault *f);

/* ticket_sweep.c: engine_spec.tick. */
int ticket_sweep(struct engine_tx *tx, struct fault *f);

/* ticket_metrics.c */
void ticket_metrics_init(struct ticket_metrics *m);
struct metric *ticket_metrics_refund_requests(const char *reason);
/* engine_spec.committed. */
void ticket_metrics_committed(void *state, struct engine_event *const *events, size_t n);

/* ticket_planted.c: a fault that tests plant, to see whether the chaos checker finds it: follow-up
 * events leave before the effect they speak of is committed. *out is NULL where nobody asks for it
 * (URR_TEST_PUBLISH_BEFORE_COMMIT=1). RC_FATAL: asked of a build without URR_TEST_HOOKS. */
int ticket_planted_open(const char *database_url, struct ticket_planted **out, struct fault *f);
void ticket_planted_close(struct ticket_planted *p); /* accepts NULL */
/* Moves the outbox rows of the open transaction into one that is committed at once. */
int ticket_planted_publish(struct ticket_planted *p, struct engine_tx *tx, struct fault *f);

#endif

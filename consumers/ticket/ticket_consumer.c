/* ticket_consumer.c - the consumer's description of itself for the engine, and its memory. */
#include "consumers/ticket/ticket_consumer.h"

#include <stdlib.h>
#include <string.h>

#include "consumers/ticket/ticket_internal.h"
#include "events/topics.h"
#include "runtime/fault.h"
#include "urr_ticket_consumer_sql.h"

/* Per column of a full batch; the longest field is a payment method of 1,000 bytes. */
enum { COLUMN_BYTES = 2 << 20 };

const struct config_item TICKET_CONSUMER_SETTINGS[] = {
    {"TICKET_DATABASE_URL", CONFIG_URL, NULL, 0, 0, "postgresql|postgres", "ticket_db.", 0},
    {"TICKET_CONSUMER_GROUP", CONFIG_STRING, "ticket-service-group", 1, 100, NULL,
     "Consumer group, in Kafka and in the database.", 0},
    {"TICKET_CONSUMER_TOPIC", CONFIG_STRING, TOPIC_PAYMENT_EVENTS, 1, TOPIC_NAME_MAX, NULL,
     "The topic of the payment events.", 0},
    {"TICKET_PRUNE_AFTER_DAYS", CONFIG_INT, "30", 1, 3650, NULL,
     "Days after which an event's key is forgotten; the ledger remembers its payment for ever.", 0},
    {0}};

static const struct {
    const char *name, *file;
} STATEMENTS[TICKET_SQL_COUNT] = {
    [TICKET_SQL_CONFIRMED_RESERVATION] = {"ticket_confirmed_reservation",
                                          "confirmed_reservation.sql"},
    [TICKET_SQL_CONFIRMED_TRANSFER] = {"ticket_confirmed_transfer", "confirmed_transfer.sql"},
    [TICKET_SQL_CONFIRMED_MEMBERSHIP] = {"ticket_confirmed_membership", "confirmed_membership.sql"},
    [TICKET_SQL_REFUNDED] = {"ticket_refunded", "refunded.sql"},
    [TICKET_SQL_LOCK_BATCH] = {"ticket_lock_batch", "lock_batch.sql"},
    [TICKET_SQL_BRAKE_CHECK] = {"ticket_brake_check", "brake_check.sql"},
    [TICKET_SQL_EXPIRE_DUE] = {"ticket_expire_due", "expire_due.sql"},
    [TICKET_SQL_PRUNE] = {"ticket_prune", "prune.sql"},
    [TICKET_SQL_PLANTED_TAKE] = {"ticket_planted_take", "planted_take.sql"},
    [TICKET_SQL_PLANTED_PUT] = {"ticket_planted_put", "planted_put.sql"},
};

static void columns_init(struct ticket_columns *c)
{
    pg_array_init(&c->ord, PG_INT4, COLUMN_BYTES);
    pg_array_init(&c->kind, PG_TEXT, COLUMN_BYTES);
    pg_array_init(&c->payment, PG_TEXT, COLUMN_BYTES);
    pg_array_init(&c->order, PG_TEXT, COLUMN_BYTES);
    pg_array_init(&c->saga, PG_TEXT, COLUMN_BYTES);
    pg_array_init(&c->user, PG_TEXT, COLUMN_BYTES);
    pg_array_init(&c->type, PG_TEXT, COLUMN_BYTES);
    pg_array_init(&c->subject, PG_UUID, COLUMN_BYTES);
    pg_array_init(&c->amount, PG_INT8, COLUMN_BYTES);
    pg_array_init(&c->method, PG_TEXT, COLUMN_BYTES);
    pg_array_init(&c->time, PG_INT8, COLUMN_BYTES);
}

static void columns_done(struct ticket_columns *c)
{
    struct pg_array *const all[] = {&c->ord,    &c->kind,   &c->payment, &c->order,
                                    &c->saga,   &c->user,   &c->type,    &c->subject,
                                    &c->amount, &c->method, &c->time};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pg_array_done(all[i]);
}

static void describe(struct ticket_consumer *t)
{
    t->topics[0] = t->topic;
    t->spec = (struct engine_spec){
        .name = "ticket",
        .group = t->group,
        .topics = t->topics,
        .database_setting = "TICKET_DATABASE_URL",
        .stop_on_gap = true, /* a lost record may be a lost payment */
        .decode = ticket_decode,
        .handlers = TICKET_HANDLERS,
        .lock = ticket_lock,
        .before_commit = ticket_before_commit,
        .committed = ticket_metrics_committed,
        .tick = ticket_sweep,
        .state = t,
    };
}

int ticket_consumer_new(const struct config *c, struct ticket_consumer **out, struct fault *f)
{
    struct ticket_planted *planted;
    int rc = ticket_planted_open(config_str(c, "TICKET_DATABASE_URL"), &planted, f);
    if (rc)
        return rc;
    struct ticket_consumer *t = calloc(1, sizeof *t);
    if (!t) {
        ticket_planted_close(planted);
        return fault_set(f, RC_FATAL, "no memory for the ticket consumer");
    }
    t->group = config_str(c, "TICKET_CONSUMER_GROUP");
    t->topic = config_str(c, "TICKET_CONSUMER_TOPIC");
    t->prune_after_days = (int32_t)config_int(c, "TICKET_PRUNE_AFTER_DAYS");
    t->planted = planted;
    columns_init(&t->columns);
    for (int i = 0; i < TICKET_SQL_COUNT; i++) {
        t->statements[i].name = STATEMENTS[i].name;
        t->statements[i].sql = embed_find(urr_ticket_consumer_sql, STATEMENTS[i].file)->data;
    }
    ticket_metrics_init(&t->metrics);
    describe(t);
    *out = t;
    return 0;
}

void ticket_consumer_free(struct ticket_consumer *t)
{
    if (!t)
        return;
    ticket_planted_close(t->planted);
    columns_done(&t->columns);
    free(t);
}

const struct engine_spec *ticket_consumer_spec(const struct ticket_consumer *t)
{
    return &t->spec;
}

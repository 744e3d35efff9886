/* exampled.c - urr-example-consumer: what each user has paid. The smallest complete consumer. */
#include "consumers/engine/engine.h"

#include <string.h>

#include "events/event.h"
#include "runtime/arena.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/kafka_consumer.h"
#include "runtime/pg.h"
#include "urr_example_sql.h"

/* A record becomes an event: its body, the key under which it counts as seen, the row it writes. */
static int decode(struct arena *arena, struct engine_event *out, struct engine_reject *reject,
                  void *state __attribute__((unused)), struct fault *f)
{
    const struct engine_record *r = out->record;
    struct event_source src = {NULL, r->value, r->value_len, r->timestamp_ms, r->now_ms};
    struct event_reject why = {0};
    struct event *e = arena_alloc(arena, sizeof *e);
    int rc = e ? event_decode(&src, arena, e, &why, f) : RC_RETRY;
    if (rc == 0 &&
        (e->type > EVENT_PAYMENT_REFUNDED || !e->payment.user_id || e->payment.amount < 0)) {
        why.reason = EVENT_MISSING_FIELD;
        rc = fault_set(f, RC_REJECT, "no payment with userId and amount");
    }
    if (rc != 0) {
        reject->reason = event_reason_name(why.reason);
        memcpy(reject->unknown, why.unknown, sizeof why.unknown);
        return rc;
    }
    out->body = e;
    out->key = event_ticket_key(e, arena);
    engine_conflict(out, "user", e->payment.user_id);
    return out->key ? 0 : RC_RETRY;
}

/* Many events, one statement. No two of them share a user. */
static int add(struct engine_tx *tx, struct engine_event *const *events, size_t n, struct fault *f)
{
    struct pg_stmt stmt = {"example_add", embed_find(urr_example_sql, "add.sql")->data};
    struct pg_array users, amounts;
    pg_array_init(&users, PG_TEXT, 1 << 20);
    pg_array_init(&amounts, PG_INT8, 1 << 20);
    for (size_t i = 0; i < n; i++) {
        const struct event *e = events[i]->body;
        pg_array_text(&users, e->payment.user_id);
        pg_array_int8(&amounts, e->payment.amount * (e->type == EVENT_PAYMENT_REFUNDED ? -1 : 1));
    }
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, &users);
    pg_params_array(&p, &amounts);
    int rc = pg_exec(tx->pg, &stmt, &p, NULL, f);
    pg_array_done(&users);
    pg_array_done(&amounts);
    return rc;
}

static const char *topics[2];
static struct engine_spec spec = {.name = "example",
                                  .topics = topics,
                                  .handlers = (const struct engine_handler[]){{"add", add}, {0}},
                                  .database_setting = "EXAMPLE_DATABASE_URL",
                                  .stop_on_gap = true,
                                  .decode = decode};
static struct engine *engine;

static int start(struct daemon *d, struct fault *f)
{
    topics[0] = config_str(daemon_config(d), "EXAMPLE_TOPIC");
    spec.group = config_str(daemon_config(d), "EXAMPLE_GROUP");
    return engine_start(d, &spec, &engine, f);
}

static void stop(struct daemon *d __attribute__((unused)))
{
    engine_free(engine);
}

int main(int argc, char **argv)
{
    static const struct config_item own[] = {
        {"EXAMPLE_DATABASE_URL", CONFIG_URL, NULL, 0, 0, "postgresql|postgres", "The database.", 0},
        {"EXAMPLE_TOPIC", CONFIG_STRING, "payment-events", 1, 249, NULL, "What is read.", 0},
        {"EXAMPLE_GROUP", CONFIG_STRING, "example-group", 1, 100, NULL, "The consumer group.", 0},
        {0}};
    static const struct config_item *const settings[] = {
        own, KAFKA_SETTINGS, KAFKA_CONSUMER_SETTINGS, ENGINE_SETTINGS, NULL};
    static const struct daemon_spec daemon = {.name = "urr-example-consumer",
                                              .purpose = "Adds up what each user has paid.",
                                              .settings = settings,
                                              .default_port = "3099",
                                              .start = start,
                                              .stop = stop,
                                              .single_worker = true};
    return daemon_main(&daemon, argc, argv);
}

/* hooks_consumer.c - a consumer whose every hook asks a SQL function, so that a test can make each
 * of them fail in its own way: hook_lock, hook_add, hook_before_commit, hook_tick. */
#include "consumers/engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/kafka_consumer.h"
#include "runtime/pg.h"

/* The value is the event: its key, and the row it writes. */
static int decode(struct arena *arena, struct engine_event *out, struct engine_reject *reject,
                  void *state, struct fault *f)
{
    (void)state;
    char text[64];
    const struct engine_record *r = out->record;
    if (!r->value || r->value_len >= sizeof text) {
        reject->reason = "bad_value";
        return fault_set(f, RC_REJECT, "no short value");
    }
    memcpy(text, r->value, r->value_len);
    text[r->value_len] = '\0';
    out->key = arena_strdup(arena, text);
    out->body = (void *)(uintptr_t)out->key;
    return out->key ? 0 : RC_RETRY;
}

/* Calls one of the functions with the events' values; *out_answer is its text, "" for NULL. */
static int ask(struct engine_tx *tx, const struct pg_stmt *stmt, struct engine_event *const *events,
               size_t n, char out_answer[64], struct fault *f)
{
    struct pg_array values;
    struct pg_params p;
    struct pg_result *result = NULL;
    pg_array_init(&values, PG_TEXT, 1 << 20);
    for (size_t i = 0; i < n; i++)
        pg_array_text(&values, events[i]->body);
    pg_params_init(&p);
    pg_params_array(&p, &values);
    int rc = pg_exec(tx->pg, stmt, &p, &result, f);
    if (!rc) {
        const char *text = pg_result_text(result, 0, 0);
        (void)snprintf(out_answer, 64, "%s", text ? text : "");
        pg_result_free(result);
    }
    pg_array_done(&values);
    return rc;
}

/* An answer of "retry" or "fatal" is a refusal that the database knows nothing of. */
static int judge(int rc, const char *answer, struct fault *f)
{
    if (rc == 0 && strcmp(answer, "retry") == 0)
        return fault_set(f, RC_RETRY, "the hook says retry");
    if (rc == 0 && strcmp(answer, "reject") == 0)
        return fault_set(f, RC_REJECT, "the hook says reject");
    return rc;
}

static int lock(struct engine_tx *tx, struct engine_event *const *events, size_t n, struct fault *f)
{
    static const struct pg_stmt LOCK = {"hook_lock", "SELECT hook_lock($1::text[])"};
    char answer[64] = "";
    int rc = ask(tx, &LOCK, events, n, answer, f);
    if (rc == 0 && strcmp(answer, "order") == 0) /* rows only the database knows of */
        for (size_t i = 0; i < n; i++)
            engine_conflict(events[i], "one", "row");
    return judge(rc, answer, f);
}

static int add(struct engine_tx *tx, struct engine_event *const *events, size_t n, struct fault *f)
{
    static const struct pg_stmt ADD = {"hook_add", "SELECT hook_add($1::text[])"};
    char answer[64];
    return ask(tx, &ADD, events, n, answer, f);
}

static int before_commit(struct engine_tx *tx, struct engine_event *const *events, size_t n,
                         struct engine_brake *brake, struct fault *f)
{
    static const struct pg_stmt LAST = {"hook_last", "SELECT hook_before_commit($1::text[])"};
    char answer[64] = "";
    int rc = ask(tx, &LAST, events, n, answer, f);
    if (rc == 0 && strcmp(answer, "brake") == 0) {
        brake->engaged = true;
        brake->reason = "test_brake";
        (void)snprintf(brake->detail, sizeof brake->detail, "the hook says so");
    }
    return judge(rc, answer, f);
}

static int tick(struct engine_tx *tx, struct fault *f)
{
    static const struct pg_stmt TICK = {"hook_tick", "SELECT hook_tick($1::text[])"};
    char answer[64] = "";
    int rc = ask(tx, &TICK, NULL, 0, answer, f);
    tx->again = rc == 0 && strcmp(answer, "again") == 0;
    return judge(rc, answer, f);
}

static const char *topics[2];
static struct engine_spec spec = {.name = "hooks",
                                  .topics = topics,
                                  .handlers = (const struct engine_handler[]){{"add", add}, {0}},
                                  .database_setting = "EXAMPLE_DATABASE_URL",
                                  .decode = decode,
                                  .lock = lock,
                                  .before_commit = before_commit,
                                  .tick = tick};
static struct engine *engine;

static int start(struct daemon *d, struct fault *f)
{
    topics[0] = config_str(daemon_config(d), "EXAMPLE_TOPIC");
    spec.group = config_str(daemon_config(d), "EXAMPLE_GROUP");
    return engine_start(d, &spec, &engine, f);
}

static void stop(struct daemon *d)
{
    (void)d;
    engine_free(engine);
}

int main(int argc, char **argv)
{
    static const struct config_item own[] = {
        {"EXAMPLE_DATABASE_URL", CONFIG_URL, NULL, 0, 0, "postgresql|postgres", "The database.", 0},
        {"EXAMPLE_TOPIC", CONFIG_STRING, NULL, 1, 249, NULL, "What is read.", 0},
        {"EXAMPLE_GROUP", CONFIG_STRING, NULL, 1, 100, NULL, "The consumer group.", 0},
        {0}};
    static const struct config_item *const settings[] = {
        own, KAFKA_SETTINGS, KAFKA_CONSUMER_SETTINGS, ENGINE_SETTINGS, NULL};
    static const struct daemon_spec daemon = {.name = "hooks_consumer",
                                              .purpose = "Asks SQL functions in every hook.",
                                              .settings = settings,
                                              .default_port = "3098",
                                              .start = start,
                                              .stop = stop,
                                              .single_worker = true};
    return daemon_main(&daemon, argc, argv);
}

/* ticket_planted.c - the planted fault: follow-ups are published before their cause is committed.
 *
 * What a consumer that publishes by itself would do. The outbox rows of the open transaction are
 * taken out of it and committed by a second connection; a crash, a lost race or a failed commit
 * after that leaves events without effect, and doubles them when the batch runs again. */
#include <stdlib.h>
#include <string.h>

#include "consumers/ticket/ticket_internal.h"
#include "runtime/fault.h"

#ifdef URR_TEST_HOOKS

#include <time.h>

enum { MAX_BYTES = 16 << 20, GAP_MS = 20 };

struct ticket_planted {
    struct pg *pg;
    struct pg_array topic, key, value;
};

int ticket_planted_open(const char *database_url, struct ticket_planted **out, struct fault *f)
{
    const char *asked = getenv("URR_TEST_PUBLISH_BEFORE_COMMIT");
    *out = NULL;
    if (!asked || strcmp(asked, "1") != 0)
        return 0;
    struct ticket_planted *p = calloc(1, sizeof *p);
    if (!p)
        return fault_set(f, RC_FATAL, "no memory for the planted fault");
    struct pg_session session = {.uri = database_url, .application_name = "ticket-planted"};
    int rc = pg_new(&session, &p->pg, f);
    pg_array_init(&p->topic, PG_TEXT, MAX_BYTES);
    pg_array_init(&p->key, PG_BYTEA, MAX_BYTES);
    pg_array_init(&p->value, PG_BYTEA, MAX_BYTES);
    if (rc) {
        ticket_planted_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

void ticket_planted_close(struct ticket_planted *p)
{
    if (!p)
        return;
    pg_free(p->pg);
    pg_array_done(&p->topic);
    pg_array_done(&p->key);
    pg_array_done(&p->value);
    free(p);
}

static void fill(struct ticket_planted *p, const struct pg_result *rows)
{
    pg_array_reset(&p->topic);
    pg_array_reset(&p->key);
    pg_array_reset(&p->value);
    for (int i = 0; i < pg_result_rows(rows); i++) {
        size_t key_len, value_len;
        const void *key = pg_result_bytes(rows, i, 1, &key_len);
        const void *value = pg_result_bytes(rows, i, 2, &value_len);
        pg_array_text(&p->topic, pg_result_text(rows, i, 0));
        pg_array_bytes(&p->key, key, key_len);
        pg_array_bytes(&p->value, value, value_len);
    }
}

int ticket_planted_publish(struct ticket_planted *p, struct engine_tx *tx, struct fault *f)
{
    const struct ticket_consumer *t = tx->state;
    struct pg_result *rows = NULL;
    int rc = pg_exec(tx->pg, &t->statements[TICKET_SQL_PLANTED_TAKE], NULL, &rows, f);
    if (rc)
        return rc;
    fill(p, rows);
    pg_result_free(rows);
    struct pg_params params;
    pg_params_init(&params);
    pg_params_array(&params, &p->topic);
    pg_params_array(&params, &p->key);
    pg_params_array(&params, &p->value);
    if (!pg_connected(p->pg))
        rc = pg_connect(p->pg, f);
    if (!rc && p->topic.count)
        rc = pg_exec(p->pg, &t->statements[TICKET_SQL_PLANTED_PUT], &params, NULL, f);
    nanosleep(&(struct timespec){.tv_nsec = GAP_MS * 1000000L},
              NULL); /* a publisher's round trip to Kafka: time to be killed in */
    return rc;
}

#else

int ticket_planted_open(const char *database_url, struct ticket_planted **out, struct fault *f)
{
    (void)database_url;
    *out = NULL;
    if (getenv("URR_TEST_PUBLISH_BEFORE_COMMIT"))
        return fault_set(f, RC_FATAL,
                         "URR_TEST_PUBLISH_BEFORE_COMMIT is set, and this is no test build");
    return 0;
}

void ticket_planted_close(struct ticket_planted *p)
{
    (void)p;
}

int ticket_planted_publish(struct ticket_planted *p, struct engine_tx *tx, struct fault *f)
{
    (void)p;
    (void)tx;
    return fault_set(f, RC_FATAL, "no planted fault in this build");
}

#endif

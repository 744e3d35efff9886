/* pg.h - a blocking PostgreSQL connection for consumers and tools, that never waits for ever.
 *
 *   static const struct pg_stmt ADD = {"add", "INSERT INTO t SELECT * FROM unnest($1::text[])"};
 *   struct pg_params p; pg_params_init(&p); pg_params_array(&p, &keys);
 *   if (pg_begin(c, f) || pg_exec(c, &ADD, &p, NULL, f) || pg_commit(c, f))
 *       { enum pg_class why = pg_error(c)->class; pg_rollback(c); … }
 *
 * One thread uses a connection at a time. Every wait has a deadline (pg_session.reply_timeout_ms,
 * anew with each result): a frozen server costs the connection, not the process.
 *
 * Fallible calls return 0 or RC_RETRY / RC_REJECT / RC_FATAL by the error's class; pg_error() has
 * the class and the SQLSTATE. After PG_CLASS_AWAY the connection may be closed: pg_connect() makes
 * a new one (statements are prepared again by themselves). A connection lost during a commit leaves
 * it open whether the transaction took place. */
#ifndef PG_H
#define PG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/pg_array.h"
#include "runtime/pg_error.h"
#include "runtime/pg_params.h"
#include "runtime/pg_result.h"
#include "runtime/pg_session.h"
#include "runtime/pg_statements.h"

struct fault;
struct pg;

enum { PG_MAX_QUEUE = 128 };

/* Does not connect. RC_FATAL: the URI cannot be read. Copies *session. */
int pg_new(const struct pg_session *session, struct pg **out, struct fault *f);
void pg_free(struct pg *c); /* accepts NULL; an open transaction is rolled back by the server */

/* Connects, closing what was open before. RC_RETRY: not reachable now; RC_FATAL: wrong password, no
 * such database. */
int pg_connect(struct pg *c, struct fault *f);
void pg_disconnect(struct pg *c);
bool pg_connected(const struct pg *c); /* as far as is known without asking */

/* Does the server answer SELECT 1 on a fresh connection? Leaves the connection of `c` and its
 * pg_error() alone. */
int pg_probe(const struct pg *c, struct fault *f);

/* Of the last call that failed; class NONE after one that did not. */
const struct pg_error *pg_error(const struct pg *c);

/* "127.0.0.1:5432/ticket_db", for messages. */
const char *pg_target(const struct pg *c);

/* Executes one statement. `p` may be NULL. Rows go to *out (free with pg_result_free()), which may
 * be NULL; untouched on failure. */
int pg_exec(struct pg *c, const struct pg_stmt *stmt, const struct pg_params *p,
            struct pg_result **out, struct fault *f);

/* Several statements in one round trip. pg_queue() copies its parameters and sends what fits;
 * pg_collect() waits for all: results[i] belongs to the i-th queued statement (`results` may be
 * NULL, or has `count` places, which must be the number queued). After the first failure the rest
 * is skipped, every result is freed, and pg_error()->index names the failed statement. Without a
 * transaction of their own the statements of one queue are one transaction. A failed pg_queue() is
 * reported again by pg_collect(), which must be called in any case. */
int pg_queue(struct pg *c, const struct pg_stmt *stmt, const struct pg_params *p, struct fault *f);
int pg_collect(struct pg *c, struct pg_result **results, size_t count, struct fault *f);

/* For queues: BEGIN and COMMIT as statements. */
extern const struct pg_stmt PG_BEGIN, PG_COMMIT;

int pg_begin(struct pg *c, struct fault *f);
int pg_commit(struct pg *c, struct fault *f); /* fails where the server answers ROLLBACK */
/* Back to no transaction, or to no connection where that fails. Keeps pg_error(). */
void pg_rollback(struct pg *c);
bool pg_in_transaction(const struct pg *c);

/* A script of any number of statements without parameters, as one transaction unless it has its
 * own. `label` names it in messages. */
int pg_script(struct pg *c, const char *label, const char *sql, struct fault *f);

/* COPY … FROM STDIN, in the format the statement names. Begin, any number of data, end; a failed
 * call ends it. pg_copy_end(): *out_rows may be NULL. pg_copy_abort() leaves without storing. */
int pg_copy_begin(struct pg *c, const char *sql, struct fault *f);
int pg_copy_data(struct pg *c, const void *data, size_t len, struct fault *f);
int pg_copy_end(struct pg *c, int64_t *out_rows, struct fault *f);
void pg_copy_abort(struct pg *c);
/* Appends one field in COPY's text format (\N for NULL); the caller adds tabs and newlines. */
int pg_copy_field(struct buf *row, const char *text, size_t len);

#endif

/* relay.h - one database's outbox to Kafka, in order per key, at least once.
 *
 * Order. A row's id is drawn while its entity is locked, so a snapshot that sees a key's later row
 * sees its earlier one: rows are read ORDER BY id, sent in that order through one gapless producer,
 * and deleted when acknowledged. Whenever one row is not delivered, everything still on its way is
 * given up, and all that is left in the table is read and sent again from the start: a key's first
 * appearances stay in order, what follows may be a repetition.
 *
 * Leader. One relay per database works at a time: it holds an advisory lock on the session that
 * also deletes. A stopped leader's session is ended by the server (idle_session_timeout), so that
 * another takes over within 2 s, and the stopped one finds its session gone before it reads or
 * deletes again.
 *
 * Failed rows. A row that is refused when sent alone moves to outbox_failed with the later rows of
 * its key; new rows of that key join it until an operator has the key retried. */
#ifndef RELAY_H
#define RELAY_H
#include <stdbool.h>
#include <stddef.h>

#include "runtime/kafka.h"

struct fault;
struct relay;

struct relay_options {
    const char *name; /* "ticket": label of metrics and logs */
    const char *database_url;
    struct kafka_client_options client;
};

/* Does not connect. Copies the strings. RC_FATAL: a setting is bad. */
int relay_new(const struct relay_options *o, struct relay **out, struct fault *f);
void relay_free(struct relay *r); /* accepts NULL */

/* One round: take the lead or keep it, delete what is delivered, read and send. Returns 0 with how
 * long to wait before the next round in *out_wait_ms (0: go on at once); RC_RETRY: PostgreSQL is
 * away (wait too); RC_FATAL: the schema is wrong. One thread. */
int relay_step(struct relay *r, int *out_wait_ms, struct fault *f);

/* Stops sending and deletes what gets acknowledged within timeout_ms. */
void relay_drain(struct relay *r, int timeout_ms);

bool relay_leads(const struct relay *r);
bool relay_kafka_connected(const struct relay *r);
bool relay_pg_connected(const struct relay *r);

extern const struct metric_def RELAY_METRICS[];
extern const size_t RELAY_METRICS_COUNT;

#endif

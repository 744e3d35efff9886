/* ticket_consumer.h - payments take effect: the consumer of payment-events into ticket_db.
 *
 * The rules are SQL (sql/ticket/functions); this turns batches of events into arrays, one call per
 * kind of event, and their answers into outcomes. docs/saga.md says what comes of which event.
 *
 * The sweeper that ends unpaid reservations runs here too, because only the consumer knows up to
 * which moment all payments have been heard. */
#ifndef TICKET_CONSUMER_H
#define TICKET_CONSUMER_H
#include <stdint.h>

#include "runtime/config.h"
#include "runtime/metrics.h"

struct engine_spec;
struct fault;
struct ticket_consumer;

extern const struct config_item TICKET_CONSUMER_SETTINGS[]; /* ends with a NULL name */
extern const struct metric_def TICKET_CONSUMER_METRICS[];   /* ends with a NULL name */

/* Reads the settings above from `c`, which must outlive it. RC_FATAL: no memory, or a planted fault
 * (URR_TEST_PUBLISH_BEFORE_COMMIT) is asked of a build that has none. */
int ticket_consumer_new(const struct config *c, struct ticket_consumer **out, struct fault *f);
/* After the engine that uses its spec. Accepts NULL. */
void ticket_consumer_free(struct ticket_consumer *t);

/* For engine_start(); lives as long as `t`. */
const struct engine_spec *ticket_consumer_spec(const struct ticket_consumer *t);

#endif

/* stats_consumer.h - reads all domain topics into the figures of stats_db. */
#ifndef STATS_CONSUMER_H
#define STATS_CONSUMER_H
#include "runtime/config.h"
#include "runtime/metrics.h"

struct daemon;
struct engine_spec;
struct fault;
struct stats_consumer;

/* STATS_DATABASE_URL, STATS_TIME_ZONE, STATS_PRUNE_AFTER_DAYS; ends with a NULL name. */
extern const struct config_item STATS_SETTINGS[];
#define STATS_GROUP "stats-service-group"

/* The consumer without its engine, for a second reader. Reads the settings above from `config`,
 * which must outlive it. RC_FATAL: there is no such time zone. */
int stats_consumer_new(const struct config *config, struct stats_consumer **out, struct fault *f);
const struct engine_spec *stats_consumer_spec(const struct stats_consumer *c); /* lives as long */

/* RC_FATAL: there is no such time zone, or the engine refuses to start. Call it in
 * daemon_spec.start, and free it in daemon_spec.stop. */
int stats_consumer_start(struct daemon *d, struct stats_consumer **out, struct fault *f);
void stats_consumer_free(struct stats_consumer *c); /* accepts NULL */

#endif

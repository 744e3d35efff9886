/* stats_api.h - the read API of the figures: docs/openapi-stats.yaml, admin role only. */
#ifndef STATS_API_H
#define STATS_API_H

#include "runtime/http_server.h"

struct fault;
struct worker;

/* Under /api/stats and /api/v1/stats. Ends with a NULL path. */
extern const struct http_route STATS_ROUTES[];

/* For daemon_spec.worker_start and worker_stop: opens and closes the worker's connections and
 * cache. */
int stats_api_open(struct worker *w, struct fault *f);
void stats_api_close(struct worker *w);

#endif

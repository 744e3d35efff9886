/* vwr_api.h - Tier 1 of urr-queue: numbers for anonymous visitors, and the way on when it is their
 * turn. A check is answered from memory; see advancer.h. */
#ifndef VWR_API_H
#define VWR_API_H
#include <stdbool.h>
#include <stdint.h>

#include "runtime/http_server.h"
#include "runtime/metrics.h"

struct advancer;
struct queue_part;
struct queue_service;

#define VWR_COOKIE "urr-vwr-token"

extern const struct queue_part VWR_PART;
extern const struct http_route VWR_ROUTES[];  /* /vwr/…; ends with a NULL path */
extern const struct metric_def VWR_METRICS[]; /* ends with a NULL name */

struct advancer *vwr_api_advancer(struct queue_service *s);

/* Seconds until a visitor should ask again, by how many are ahead. */
int64_t vwr_api_next_poll_s(int64_t ahead);
/* Seconds until `position` is served, rounded up; 0 when it is. */
int64_t vwr_api_wait_s(int64_t position, int64_t serving, double rate);

#endif

/* crowd.h - a crowd of simulated users before a waiting room, and what became of them. */
#ifndef CROWD_H
#define CROWD_H
#include <stdbool.h>
#include <stdint.h>

#include "crowd/fairness.h"
#include "crowd/wire.h"
#include "runtime/histogram.h"

struct crowd;
struct fault;
struct jwt_keys;

enum { CROWD_MAX_USERS = 200000, CROWD_STATUS_MAX = 600 };

enum crowd_curve {
    CROWD_BURST, /* all at once */
    CROWD_RAMP,  /* evenly over `over_ms` */
    CROWD_WAVE   /* three swells over `over_ms` */
};
/* When user i of n comes, as a share of `over_ms`. */
double crowd_arrival(enum crowd_curve curve, uint32_t i, uint32_t n);

struct crowd_options {
    const char *event;
    char host[64]; /* of the Host header */
    struct wire_options wire;
    const struct jwt_keys *keys; /* signs the users' tokens */
    const char *prefix;          /* of the users' ids */
    uint32_t users;
    enum crowd_curve curve;
    int64_t over_ms, time_ms;                   /* arrivals, and the whole run at most */
    uint32_t streams, no_shows, sleepers, bots; /* percent of the users */
    int64_t sleep_ms, shop_min_ms, shop_max_ms; /* a nap; a stay inside */
    int64_t present_ms; /* a user silent for longer may be parked: keep below the claim time */
    double poll_scale;  /* nextPoll times this */
    bool tier1;         /* ask for a number first */
    uint64_t seed;
};

struct crowd_report {
    int64_t users, arrived, served, no_shows, slept, bots, bots_refused, refused, closed, lost;
    int64_t unfinished; /* when the time was up */
    int64_t tier1;      /* got a number there */
    int64_t waiting_now, inside_now;
    int64_t requests, answers, network_errors, elapsed_ms;
    int64_t statuses[CROWD_STATUS_MAX];
    int64_t errors; /* answers that no user of a working room should get, network included */
    int64_t stream_events;
    struct histogram wait_ms;    /* from arrival to being inside, both tiers */
    struct histogram latency_us; /* of requests, from when they were due */
    struct fair_report fair;
};

int crowd_new(const struct crowd_options *o, struct crowd **out, struct fault *f);
void crowd_free(struct crowd *c); /* accepts NULL */

/* Runs until everybody is through or the time is up; `progress` is called every second. */
typedef void (*crowd_progress_fn)(const struct crowd_report *r, void *arg);
int crowd_run(struct crowd *c, crowd_progress_fn progress, void *arg, struct fault *f);
void crowd_stop(struct crowd *c); /* from a signal's event: ends the run soon */
const struct crowd_report *crowd_report(struct crowd *c);
bool crowd_fair(const struct crowd_report *r);

#endif

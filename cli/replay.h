/* replay.h - a replay's ranges and its row in consumer_replays; for cmd_replay.c. */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumers/engine/reader.h"

struct cli_change;
struct fault;
struct pg;

struct replay {
    int64_t id; /* 0: not stored yet */
    char started_by[129];
    bool dead_letters;
    struct reader_range ranges[ENGINE_MAX_PARTITIONS];
    int64_t from[ENGINE_MAX_PARTITIONS]; /* where each range began */
    size_t count;
    struct reader_counts counts; /* so far, by the database */
};

/* The unfinished one of that group and topic; out->id 0: none. */
int replay_find(struct pg *pg, const char *group, const char *topic, struct replay *out,
                struct fault *f);
/* Stores a new one, with its audit row. */
int replay_start(struct pg *pg, const struct cli_change *c, const char *group, const char *topic,
                 struct replay *r, struct fault *f);
/* Takes an unfinished one over: a run of it that still lives somewhere is fenced. */
int replay_take(struct pg *pg, const struct cli_change *c, struct replay *r, struct fault *f);
/* Ends it as `outcome` (done, abandoned), with its audit row; its counts go to r->counts. */
int replay_end(struct pg *pg, const struct cli_change *c, const char *outcome, struct replay *r,
               struct fault *f);

/* One at a time per group and topic, for as long as `pg` is connected. */
int replay_lock(struct pg *pg, const char *group, const char *topic, bool *out_ours,
                struct fault *f);

int64_t replay_size(const struct replay *r); /* offsets from first to last */
int64_t replay_left(const struct replay *r);

#endif

/* group_view.h - where a group stands, partition by partition: the database's word, Kafka's commit,
 * and the log's bounds. */
#ifndef GROUP_VIEW_H
#define GROUP_VIEW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/servers.h"

struct cli;
struct fault;
struct kafka_admin;
struct pg;

enum { GROUP_VIEW_MAX = 4096, GROUP_VIEW_TOPIC = 249 };

struct group_place {
    char topic[GROUP_VIEW_TOPIC + 1];
    int32_t partition;
    bool has_row; /* the fields down to updated_ms are the database's */
    int64_t next_offset, generation;
    int64_t last_timestamp_ms, caught_up_ms, updated_ms; /* 0: not known */
    int64_t committed;                                   /* KAFKA_OFFSET_NONE: nothing */
    int64_t low, high;                                   /* -1: the topic is not there */
};

struct group_view {
    struct group_place *places; /* by topic, then partition */
    size_t count;
    int64_t db_now_ms, at_ms; /* the database's clock; ours, monotonic */
};

/* Looks. With `topic`, at that one alone. CLI_OK, or an exit code after saying why; free with
 * group_view_done() in both cases. */
int group_view_look(const struct cli *cli, struct pg *pg, struct kafka_admin *kafka,
                    const struct cli_group *group, const char *topic, struct group_view *out);
void group_view_done(struct group_view *v);

/* Records not applied yet; -1: not known. */
int64_t group_place_lag(const struct group_place *p);
/* Everything up to that many seconds ago is applied; 0 without lag; -1: not known. */
double group_place_lag_seconds(const struct group_place *p, int64_t db_now_ms);

#endif

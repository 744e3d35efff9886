/* kafka_admin.h - topics, watermarks and group offsets: what operators' tools ask a cluster.
 *
 * Every call blocks up to its time-out; one thread per handle. For tools and start-up, not for
 * loops. */
#ifndef KAFKA_ADMIN_H
#define KAFKA_ADMIN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kafka.h"

struct fault;
struct kafka_admin;

enum { KAFKA_ADMIN_MAX_CONFIGS = 16 };

struct kafka_topic_spec {
    const char *name;
    int32_t partitions;
    int32_t replication;
    const char *const *configs; /* "retention.ms", "-1", …, NULL; or NULL */
};

enum kafka_topic_outcome {
    KAFKA_TOPIC_CREATED,
    KAFKA_TOPIC_EXISTS,  /* with the partitions asked for */
    KAFKA_TOPIC_DIFFERS, /* exists with another number of partitions, which is left alone */
    KAFKA_TOPIC_FAILED
};

struct kafka_topic_result {
    enum kafka_topic_outcome outcome;
    int32_t partitions; /* there now; -1 when not known */
    char reason[128];   /* of FAILED */
};

/* A partition and an offset or a time, in and out. */
struct kafka_place {
    const char *topic;
    int32_t partition;
    int64_t offset;
};

/* Does not wait for the cluster: the calls do. */
int kafka_admin_open(const struct kafka_client_options *o, struct kafka_admin **out,
                     struct fault *f);
void kafka_admin_close(struct kafka_admin *a); /* accepts NULL */

/* Waits until a broker answers. RC_RETRY at the time-out. */
int kafka_admin_ping(struct kafka_admin *a, int timeout_ms, struct fault *f);

/* One result per spec. 0: every topic is there (CREATED, EXISTS or DIFFERS). RC_RETRY: the cluster
 * does not answer, results untouched. RC_REJECT: at least one FAILED. Waits until the new topics
 * are known. */
int kafka_admin_create_topics(struct kafka_admin *a, const struct kafka_topic_spec *specs,
                              size_t count, struct kafka_topic_result *results, int timeout_ms,
                              struct fault *f);

/* Topics that are not there are fine. */
int kafka_admin_delete_topics(struct kafka_admin *a, const char *const *names, size_t count,
                              int timeout_ms, struct fault *f);

/* The number of partitions; 0 when there is no such topic. */
int kafka_admin_partitions(struct kafka_admin *a, const char *topic, int timeout_ms, int32_t *out,
                           struct fault *f);

/* First offset, and the one after the last record. */
int kafka_admin_watermarks(struct kafka_admin *a, const char *topic, int32_t partition,
                           int timeout_ms, int64_t *out_low, int64_t *out_high, struct fault *f);

/* Fills `offset` of each place with the group's committed offset, or KAFKA_OFFSET_NONE. */
int kafka_admin_group_offsets(struct kafka_admin *a, const char *group, struct kafka_place *places,
                              size_t count, int timeout_ms, struct fault *f);

/* `offset` in: a time in ms; out: the first offset at or after it, or KAFKA_OFFSET_END when there
 * is none. */
int kafka_admin_offsets_for_times(struct kafka_admin *a, struct kafka_place *places, size_t count,
                                  int timeout_ms, struct fault *f);

/* Deletes the records below each offset (retention by hand; tests of gaps). */
int kafka_admin_delete_records(struct kafka_admin *a, const struct kafka_place *places,
                               size_t count, int timeout_ms, struct fault *f);

#endif

/* kafka_client.h - librdkafka plumbing shared by the kafka_* modules; for them alone.
 *
 * Configuration with the names we decide protected, the log bridge, statistics as metrics. */
#ifndef KAFKA_CLIENT_H
#define KAFKA_CLIENT_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <librdkafka/rdkafka.h>

#include "runtime/kafka.h"

struct fault;
struct metric;

enum kafka_metric {
    KAFKA_METRIC_SENT,
    KAFKA_METRIC_RECEIVED,
    KAFKA_METRIC_UP,
    KAFKA_METRIC_ROUND_TRIP,
    KAFKA_METRIC_UNACKED,
    KAFKA_METRIC_PREFETCHED,
    KAFKA_METRIC_ERRORS,
    KAFKA_METRIC_REBALANCES,
    KAFKA_METRIC_COMMIT_FAILURES,
    KAFKA_METRIC_DELIVERIES,
    KAFKA_METRIC_RECREATED,
    KAFKA_METRIC_COUNT_
};

/* The part of a client that librdkafka's callbacks write to. It must outlive the handle. */
struct kafka_client {
    char id[64];
    atomic_bool connected;
    atomic_int last_error;                      /* rd_kafka_resp_err_t, for texts */
    struct metric *series[KAFKA_METRIC_COUNT_]; /* those with the label `client` alone */
    uint64_t sent_bytes, received_bytes;        /* totals last seen of this handle */
    double heard_rx, heard_tx; /* totals when something was last received, and when that was */
    int64_t heard_ms;
    atomic_uint lines_logged; /* warnings of librdkafka in this window */
    atomic_llong log_window_ms;
};

void kafka_client_init(struct kafka_client *k, const char *client_id);

/* A configuration with connection, log and statistics set up for `k`; the caller sets its own
 * properties with kafka_client_set() and hands it to kafka_client_handle() or destroys it. */
int kafka_client_conf(struct kafka_client *k, const struct kafka_client_options *o,
                      rd_kafka_conf_t **out, struct fault *f);
int kafka_client_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct fault *f);
int kafka_client_set_int(rd_kafka_conf_t *conf, const char *name, int64_t value, struct fault *f);

/* Takes conf in every case. RC_FATAL with the reason. */
int kafka_client_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf, rd_kafka_t **out,
                        struct fault *f);

/* Counts the error, remembers it, and fills *f with "context: text (name)". Returns
 * kafka_class_rc(). */
int kafka_client_error(struct kafka_client *k, rd_kafka_resp_err_t error, const char *context,
                       struct fault *f);

/* The first offset and the one after the last, within timeout_ms. RC_REJECT: no such partition. */
int kafka_client_bounds(struct kafka_client *k, rd_kafka_t *rk, const char *topic,
                        int32_t partition, int timeout_ms, int64_t *out_low, int64_t *out_high,
                        struct fault *f);

/* Applies one statistics document; exposed for tests. */
void kafka_client_stats(struct kafka_client *k, const char *json, size_t len);

/* Reads name=value lines into conf; exposed for tests. */
int kafka_client_properties(rd_kafka_conf_t *conf, const char *file, struct fault *f);

#endif

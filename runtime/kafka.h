/* kafka.h - what the Kafka consumer, producer and admin modules share: options, errors, headers.
 *
 * They stand on librdkafka 2.0.2. Never fork after one of them was opened. */
#ifndef KAFKA_H
#define KAFKA_H
#include <stddef.h>
#include <stdint.h>

#include "runtime/config.h"
#include "runtime/metrics.h"

/* What to do about an error of the broker or of librdkafka (its rd_kafka_resp_err_t as an int). */
enum kafka_class {
    KAFKA_RETRY,  /* passes by itself, or after an operator's act (a missing topic, a denied one) */
    KAFKA_REFUSE, /* this record will never be taken: too large, malformed, bad timestamp */
    KAFKA_RANGE,  /* the offset asked for is not in the log: below its start or beyond its end */
    KAFKA_FATAL   /* this client can't go on: make a new one, or stop */
};
enum kafka_class kafka_classify(int error);
int kafka_class_rc(enum kafka_class c); /* RC_RETRY, RC_REJECT, RC_FATAL (KAFKA_RANGE: RC_FATAL) */

/* How to reach a cluster. Strings are borrowed during open calls only. */
struct kafka_client_options {
    const char *brokers;     /* "host:port,host:port" */
    const char *client_id;   /* shown in the broker's logs, label `client` of the metrics */
    const char *config_file; /* librdkafka properties (TLS, SASL …), name=value per line; or NULL.
                              * Names that these modules decide themselves are refused. */
};

/* KAFKA_BROKERS, KAFKA_CONFIG_FILE; ends with a NULL name. */
extern const struct config_item KAFKA_SETTINGS[];
void kafka_client_from_config(const struct config *c, const char *client_id,
                              struct kafka_client_options *out);

/* A record header; value is NULL (len 0) for a header without value. Names may repeat. */
struct kafka_header {
    const char *name;
    const void *value;
    size_t len;
};

enum { KAFKA_MAX_HEADERS = 64 }; /* of a record we send or read; more are cut when reading */

enum kafka_timestamp { KAFKA_TIME_NONE, KAFKA_TIME_CREATE, KAFKA_TIME_APPEND };

/* Special offsets. */
enum {
    KAFKA_OFFSET_BEGINNING = -2,
    KAFKA_OFFSET_END = -1,
    KAFKA_OFFSET_NONE = -1001, /* no committed offset; as a start: do not consume this partition */
};

extern const struct metric_def KAFKA_METRICS[]; /* ends with a NULL name */
extern const size_t KAFKA_METRICS_COUNT;

#endif

/* log_scan.h - reads whole topics, or their end from a time on, up to where they end now. */
#ifndef LOG_SCAN_H
#define LOG_SCAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kafka_reader.h"

struct fault;
struct stage;

enum { LOG_SCAN_MAX_RANGES = 512 };

/* A record, with its headers. 0 goes on; anything else ends the scan and is returned. */
typedef int (*log_scan_fn)(const struct kafka_read *r, const struct kafka_header *headers,
                           size_t header_count, void *arg, struct fault *f);

struct log_scan {
    struct kafka_range ranges[LOG_SCAN_MAX_RANGES];
    size_t count;
    int64_t total;   /* records to read, at most */
    int64_t low_sum; /* of the first offsets: above 0, the log has lost its beginning */
};

/* Adds every partition of the topic, from the first record at or after from_ms (<= 0: the log's
 * start) to the end. A topic that is not there adds nothing. RC_RETRY: the cluster is away. */
int log_scan_add(struct log_scan *s, struct stage *stage, const char *topic, int64_t from_ms,
                 struct fault *f);

/* Reads it all. `what` names the work on a terminal's standard error while it takes long. */
int log_scan_run(const struct log_scan *s, struct stage *stage, const char *what, log_scan_fn fn,
                 void *arg, struct fault *f);

#endif

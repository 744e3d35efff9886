/* log_scan.c - ranges from the broker's answers, then one pass with a bounded patience. */
#include "cli/log_scan.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/stage.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/kafka_admin.h"

enum { ASK_MS = 10000, POLL_MS = 200, SILENCE_MS = 30000, SHOW_MS = 500 };

static int start_of(struct kafka_admin *admin, const char *topic, int32_t partition,
                    int64_t from_ms, int64_t low, int64_t high, int64_t *out, struct fault *f)
{
    *out = low;
    if (from_ms <= 0)
        return 0;
    struct kafka_place place = {topic, partition, from_ms};
    int rc = kafka_admin_offsets_for_times(admin, &place, 1, ASK_MS, f);
    if (rc == 0)
        *out = place.offset < 0 ? high : place.offset;
    return rc;
}

int log_scan_add(struct log_scan *s, struct stage *stage, const char *topic, int64_t from_ms,
                 struct fault *f)
{
    int32_t partitions = 0;
    int rc = kafka_admin_partitions(stage->admin, topic, ASK_MS, &partitions, f);
    for (int32_t n = 0; rc == 0 && n < partitions; n++) {
        int64_t low, high;
        if (s->count == LOG_SCAN_MAX_RANGES)
            return fault_set(f, RC_REJECT, "more than %d partitions", LOG_SCAN_MAX_RANGES);
        rc = kafka_admin_watermarks(stage->admin, topic, n, ASK_MS, &low, &high, f);
        struct kafka_range *range = &s->ranges[s->count];
        *range = (struct kafka_range){topic, n, low, high};
        if (rc == 0)
            rc = start_of(stage->admin, topic, n, from_ms, low, high, &range->from, f);
        if (rc == 0) {
            s->count++;
            s->total += range->to - range->from;
            s->low_sum += low;
        }
    }
    return rc;
}

static void show(const char *what, int64_t done, int64_t total, int64_t *next_ms)
{
    int64_t now = clock_mono_ms();
    if (now < *next_ms || !isatty(STDERR_FILENO))
        return;
    *next_ms = now + SHOW_MS;
    (void)fprintf(stderr, "\r%s: %lld of %lld records ", what, (long long)done, (long long)total);
    if (done == total)
        (void)fputs("\r\033[K", stderr);
}

int log_scan_run(const struct log_scan *s, struct stage *stage, const char *what, log_scan_fn fn,
                 void *arg, struct fault *f)
{
    struct kafka_reader *reader = NULL;
    struct kafka_header headers[KAFKA_MAX_HEADERS];
    int64_t done = 0, next_ms = clock_mono_ms() + SHOW_MS, heard_ms = clock_mono_ms();
    int rc = kafka_reader_open(&stage->kafka, s->ranges, s->count, &reader, f);
    while (rc == 0) {
        enum kafka_reader_state state;
        struct kafka_read record;
        rc = kafka_reader_next(reader, POLL_MS, &state, &record, f);
        if (rc == RC_RETRY && clock_mono_ms() - heard_ms < SILENCE_MS)
            rc = 0;
        if (rc != 0 || state == KAFKA_READ_DONE)
            break;
        if (state == KAFKA_READ_WAIT && clock_mono_ms() - heard_ms > SILENCE_MS)
            rc = fault_set(f, RC_RETRY, "Kafka sent nothing for %d s", SILENCE_MS / 1000);
        if (state != KAFKA_READ_RECORD)
            continue;
        heard_ms = clock_mono_ms();
        rc = fn(&record, headers, kafka_reader_headers(reader, headers, KAFKA_MAX_HEADERS), arg, f);
        show(what, ++done, s->total, &next_ms);
    }
    next_ms = 0;
    show(what, s->total, s->total, &next_ms);
    kafka_reader_close(reader);
    return rc;
}

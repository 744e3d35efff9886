/* log_sink.c - follows the streams {E}:log and appends them to files. */
#include "queue-core/log_sink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/log_file.h"
#include "queue-core/queue_service.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/redis.h"

enum {
    CALL_MS = 5000,
    LIST_MS = 1000,
    TAKE_MS = 500,            /* between two tries for the folder */
    CHUNK_BYTES = 512 * 1024, /* log_file.h reads its tail in windows larger than that */
    REPLY_BYTES = 64 << 20,
    QUIET_MS = 2 * 86400 * 1000 /* the log of an event ends a day after it was last in use */
};

const struct config_item LOG_SINK_SETTINGS[] = {
    {"QUEUE_LOG_DIR", CONFIG_STRING, NULL, 0, 0, NULL,
     "Folder for the admission log as JSON lines; one process of those sharing it writes. Absent: "
     "none.",
     CONFIG_OPTIONAL},
    {"QUEUE_LOG_FILE_MB", CONFIG_INT, "64", 1, 65536, NULL, "Size of one of its files; MB.", 0},
    {"QUEUE_LOG_FILES", CONFIG_INT, "16", 2, 100000, NULL,
     "How many of its files are kept; the oldest is removed.", 0},
    {NULL, 0, NULL, 0, 0, NULL, NULL, 0},
};

const struct metric_def LOG_SINK_METRICS[] = {
    {"urr_queue_log_written_total", METRIC_COUNTER, "Entries of the admission log put into files.",
     NULL, NULL, 0},
    {"urr_queue_log_gaps_total", METRIC_COUNTER,
     "Times that entries were gone from the stream before they could be put into a file.", NULL,
     NULL, 0},
    {"urr_queue_log_writer", METRIC_GAUGE, "1 in the process that writes the admission log.", NULL,
     NULL, 0},
    {NULL, METRIC_COUNTER, NULL, NULL, NULL, 0},
};

struct followed {
    struct followed *next;
    struct log_sink *sink;
    char event[ROOM_EVENT_MAX + 1];
    bool reading;
    bool more; /* the last answer was full */
    bool lost; /* the file's last entry is not in the stream any more */
};

struct log_sink {
    struct queue_service *s;
    struct loop_timer *tick;
    struct log_file *file;
    struct followed *events;
    uint32_t count, calls;
    int64_t listed_ms, tried_ms;
    bool failing; /* said so once */
    struct metric *written, *gaps, *writer;
};

static struct log_sink *sink_of(struct queue_service *s)
{
    return *queue_part_state(s, &LOG_SINK_PART);
}

/* Makes room for a new event: one of which nothing was heard for QUIET_MS goes. */
static bool forget_quiet(struct log_sink *k)
{
    int64_t bound = clock_wall_ms() - QUIET_MS;
    for (struct followed **link = &k->events; *link; link = &(*link)->next) {
        struct followed *e = *link;
        const char *last = k->file ? log_file_position(k->file, e->event) : NULL;
        if (e->reading || (last && strtoll(last, NULL, 10) > bound))
            continue;
        *link = e->next;
        free(e);
        k->count--;
        return true;
    }
    return false;
}

static void follow(struct log_sink *k, const char *event)
{
    struct followed *e = k->events;
    if (!room_event_ok(event))
        return;
    while (e && strcmp(e->event, event) != 0)
        e = e->next;
    if (e || (k->count >= LOG_SINK_EVENTS && !forget_quiet(k)))
        return;
    e = calloc(1, sizeof *e);
    if (!e)
        return;
    (void)snprintf(e->event, sizeof e->event, "%s", event);
    e->sink = k;
    e->next = k->events;
    k->events = e;
    k->count++;
}

static void follow_each(const char *event, void *arg)
{
    follow(arg, event);
}

/* A failure is said once, and once that it is over. */
static void tell(struct log_sink *k, int rc, const char *reason)
{
    if (rc != 0 && !k->failing)
        LOG_ERROR("the admission log is not written", LOG_STR("reason", reason));
    if (rc == 0 && k->failing)
        LOG_INFO("the admission log is written again");
    k->failing = rc != 0;
}

/* Entries to lines ---------------------------------------------------------------------------- */

static bool is_number(const char *name, const char *value)
{
    static const char *const NUMBERS[] = {"s", "a", "th", "at"};
    size_t digits = strspn(value, "0123456789");
    if (digits == 0 || digits > 16 || value[digits] != '\0' || (value[0] == '0' && digits > 1))
        return false;
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        if (strcmp(name, NUMBERS[i]) == 0)
            return true;
    return false;
}

static void print_entry(const char *event, const char *id, const struct redisReply *fields,
                        struct buf *out)
{
    struct json_out j;
    json_begin(&j, out);
    json_object(&j, NULL);
    json_put_str(&j, "event", event);
    json_put_str(&j, "id", id);
    for (size_t i = 0; i + 1 < redis_reply_count(fields); i += 2) {
        const char *name = redis_reply_str(redis_reply_at(fields, i), NULL);
        const char *value = redis_reply_str(redis_reply_at(fields, i + 1), NULL);
        if (!name || !value || !value[0])
            continue;
        if (is_number(name, value))
            json_put_int(&j, name, strtoll(value, NULL, 10));
        else
            json_put_str(&j, name, value);
    }
    json_end(&j);
    (void)buf_putc(out, '\n');
}

static void print_gap(const char *event, const char *id, struct buf *out)
{
    (void)buf_printf(out, "{\"event\":\"%s\",\"id\":\"%s\",\"k\":\"gap\"}\n", event, id);
}

/* Appends entries [from, to) in chunks; the file's position moves with each. */
static int append(struct log_sink *k, const char *event, const struct redisReply *reply,
                  size_t from, struct buf *lines, struct fault *f)
{
    size_t count = redis_reply_count(reply), in_chunk = 0;
    int rc = 0;
    for (size_t i = from; rc == 0 && i < count; i++) {
        const struct redisReply *entry = redis_reply_at(reply, i);
        const char *id = redis_reply_str(redis_reply_at(entry, 0), NULL);
        if (!id)
            return fault_set(f, RC_REJECT, "a stream answered in an unknown form");
        print_entry(event, id, redis_reply_at(entry, 1), lines);
        in_chunk++;
        if (lines->len < CHUNK_BYTES && i + 1 < count)
            continue;
        if (lines->failed)
            return fault_set(f, RC_RETRY, "no memory for the admission log");
        rc = log_file_append(k->file, event, id, lines->data, lines->len, f);
        if (rc == 0)
            metric_add(k->written, in_chunk);
        in_chunk = 0;
        buf_reset(lines);
    }
    return rc;
}

/* Reading starts at the last entry written, inclusive: while it is there nothing can be missing
 * behind it. */
static int take_entries(struct followed *e, const struct redisReply *reply, struct fault *f)
{
    struct log_sink *k = e->sink;
    size_t count = redis_reply_count(reply);
    const char *last = log_file_position(k->file, e->event);
    const char *first = redis_reply_str(redis_reply_at(redis_reply_at(reply, 0), 0), NULL);
    struct buf lines;
    int rc = 0;
    e->more = count >= LOG_SINK_READ;
    if (last && !e->lost && (!first || strcmp(first, last) != 0)) {
        e->lost = true; /* the next read begins behind it */
        e->more = true;
        return 0;
    }
    if (count == 0)
        return 0;
    buf_init(&lines, REPLY_BYTES);
    if (last && e->lost) {
        print_gap(e->event, last, &lines);
        metric_add(k->gaps, 1);
    }
    rc = append(k, e->event, reply, last && !e->lost ? 1 : 0, &lines, f);
    e->lost = e->lost && rc != 0;
    buf_done(&lines);
    return rc;
}

static void start_reading(struct log_sink *k);

static void on_entries(const struct redis_result *res, void *arg)
{
    struct followed *e = arg;
    struct log_sink *k = e->sink;
    struct fault f = {0};
    e->reading = false;
    k->calls--;
    e->more = false;
    if (res->rc != 0 || !k->file)
        return; /* Redis is away: /readyz says so */
    tell(k, take_entries(e, res->reply, &f), f.text);
    if (e->more && !k->failing)
        start_reading(k);
}

static void read_event(struct followed *e)
{
    struct log_sink *k = e->sink;
    char key[ROOM_EVENT_MAX + 8], from[LOG_FILE_ID_MAX + 2];
    const char *last = log_file_position(k->file, e->event);
    struct fault f;
    (void)snprintf(key, sizeof key, "{%s}:log", e->event);
    (void)snprintf(from, sizeof from, "%s%s", last && e->lost ? "(" : "", last ? last : "-");
    e->reading =
        redis_command(k->s->redis, key,
                      REDIS_ARGS(REDIS_STR("XRANGE"), REDIS_STR(key), REDIS_STR(from),
                                 REDIS_STR("+"), REDIS_STR("COUNT"), REDIS_INT(LOG_SINK_READ)),
                      CALL_MS, on_entries, e, &f) == 0;
    k->calls += e->reading;
}

static void start_reading(struct log_sink *k)
{
    for (struct followed *e = k->events; e && k->calls < LOG_SINK_CALLS; e = e->next)
        if (!e->reading && e->more)
            read_event(e);
}

/* Which events ------------------------------------------------------------------------------- */

static void on_list(const struct redis_result *res, void *arg)
{
    for (size_t i = 0; res->rc == 0 && i < redis_reply_count(res->reply); i++) {
        const char *event = redis_reply_str(redis_reply_at(res->reply, i), NULL);
        if (event)
            follow(arg, event);
    }
}

static void list(struct log_sink *k, const char *set)
{
    struct fault f;
    (void)redis_command(k->s->redis, set, REDIS_ARGS(REDIS_STR("SMEMBERS"), REDIS_STR(set)),
                        CALL_MS, on_list, k, &f);
}

/* Settings of an event that nobody visits are entries too. */
static void on_changed(const char *data, size_t len, void *arg)
{
    char event[ROOM_EVENT_MAX + 1];
    if (!data || len > ROOM_EVENT_MAX)
        return;
    memcpy(event, data, len);
    event[len] = '\0';
    follow(arg, event);
}

/* Writing or waiting -------------------------------------------------------------------------- */

static void try_to_take(struct log_sink *k)
{
    const struct config *c = k->s->config;
    struct fault f;
    int rc = log_file_open(config_str(c, "QUEUE_LOG_DIR"), config_int(c, "QUEUE_LOG_FILE_MB") << 20,
                           (unsigned)config_int(c, "QUEUE_LOG_FILES"), &k->file, &f);
    if (rc != RC_RETRY) /* another one writes: all is well */
        tell(k, rc, f.text);
    if (rc != 0)
        return;
    metric_set(k->writer, 1);
    log_file_each(k->file, follow_each, k);
}

static void on_tick(void *arg)
{
    struct log_sink *k = arg;
    int64_t now_ms = loop_now_ms(k->s->loop);
    if (!k->file && now_ms - k->tried_ms >= TAKE_MS) {
        k->tried_ms = now_ms;
        try_to_take(k);
    }
    if (!k->file)
        return;
    if (now_ms - k->listed_ms >= LIST_MS) {
        k->listed_ms = now_ms;
        list(k, "queue:active-events");
        list(k, "queue:vwr-events");
    }
    for (struct followed *e = k->events; e; e = e->next)
        e->more = true;
    start_reading(k);
}

static int log_sink_open(struct queue_service *s, struct fault *f)
{
    if (!s->first || !config_str(s->config, "QUEUE_LOG_DIR"))
        return 0;
    struct log_sink *k = calloc(1, sizeof *k);
    if (!k)
        return fault_set(f, RC_FATAL, "no memory for the admission log");
    *queue_part_state(s, &LOG_SINK_PART) = k;
    k->s = s;
    k->tried_ms = -TAKE_MS;
    k->written = metrics_series(&LOG_SINK_METRICS[0], NULL);
    k->gaps = metrics_series(&LOG_SINK_METRICS[1], NULL);
    k->writer = metrics_series(&LOG_SINK_METRICS[2], NULL);
    int rc = queue_service_listen(s, QUEUE_CHANNEL_CHANGED, on_changed, k, f);
    if (rc == 0)
        rc = loop_timer_new(s->loop, on_tick, k, &k->tick, f);
    if (rc == 0)
        loop_timer_start(k->tick, 0, LOG_SINK_TICK_MS);
    return rc;
}

static void log_sink_close(struct queue_service *s)
{
    struct log_sink *k = sink_of(s);
    if (!k)
        return;
    loop_timer_free(k->tick);
    log_file_close(k->file);
    while (k->events) {
        struct followed *e = k->events;
        k->events = e->next;
        free(e);
    }
    free(k);
    *queue_part_state(s, &LOG_SINK_PART) = NULL;
}

const struct queue_part LOG_SINK_PART = {"log sink", log_sink_open, log_sink_close};

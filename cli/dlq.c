/* dlq.c - reads dead letters and what is known about them. */
#include "cli/dlq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/log_scan.h"
#include "cli/stage.h"
#include "consumers/engine/dead_letter.h"
#include "events/topics.h"
#include "runtime/base64.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/pg.h"
#include "runtime/utf8.h"

enum { ARENA_BYTES = 512 << 20, ID_LEN = 300, MAX_TOPICS = 16 };

const char *const DLQ_STATES[] = {"open", "redriven", "discarded", NULL};

/* Columns of dlq_marks.sql. */
enum { TOPIC, PARTITION, OFFSET, STATE, MARKED_BY, MARKED_AT };

static const char *text_of(struct arena *arena, const struct kafka_header *h)
{
    return h->value ? arena_strndup(arena, h->value, h->len) : NULL;
}

static int64_t number_of(struct arena *arena, const struct kafka_header *h)
{
    const char *text = text_of(arena, h);
    return text ? strtoll(text, NULL, 10) : -1;
}

static void take_header(struct arena *arena, struct dlq_letter *l, const struct kafka_header *h)
{
    if (strcmp(h->name, DEAD_LETTER_REASON) == 0)
        l->reason = text_of(arena, h);
    else if (strcmp(h->name, DEAD_LETTER_DETAIL) == 0)
        l->detail = text_of(arena, h);
    else if (strcmp(h->name, DEAD_LETTER_GROUP) == 0)
        l->group = text_of(arena, h);
    else if (strcmp(h->name, DEAD_LETTER_TOPIC) == 0)
        l->source_topic = text_of(arena, h);
    else if (strcmp(h->name, DEAD_LETTER_PARTITION) == 0)
        l->source_partition = (int32_t)number_of(arena, h);
    else if (strcmp(h->name, DEAD_LETTER_OFFSET) == 0)
        l->source_offset = number_of(arena, h);
    else if (strcmp(h->name, DEAD_LETTER_CUT) == 0)
        l->cut = true;
}

static bool equal(const char *wanted, const char *found)
{
    return !wanted || (found && strcmp(wanted, found) == 0);
}

void dlq_id(const struct dlq_letter *l, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%d/%lld", l->topic, (int)l->partition, (long long)l->offset);
}

static bool wanted(const struct dlq_filter *filter, const struct dlq_letter *l)
{
    char id[ID_LEN];
    bool named = filter->id_count == 0;
    dlq_id(l, id, sizeof id);
    for (size_t i = 0; i < filter->id_count; i++)
        named = named || strcmp(filter->ids[i], id) == 0;
    return named && equal(filter->reason, l->reason) && equal(filter->topic, l->source_topic) &&
           equal(filter->group, l->group) &&
           (!filter->since_ms || l->timestamp_ms >= filter->since_ms) &&
           (!filter->until_ms || l->timestamp_ms < filter->until_ms);
}

/* Repeated by the relay: the first one stands for all, unless a later one was asked for by name. */
static bool known(const struct dlq *d, const struct dlq_letter *l)
{
    if (!l->group || !l->source_topic)
        return false;
    for (size_t i = d->count; i > 0 && i + 4096 > d->count; i--) {
        const struct dlq_letter *other = &d->letters[i - 1];
        if (other->source_offset == l->source_offset &&
            other->source_partition == l->source_partition && other->group &&
            strcmp(other->group, l->group) == 0 && other->source_topic &&
            strcmp(other->source_topic, l->source_topic) == 0)
            return true;
    }
    return false;
}

static const void *copy(struct arena *arena, const void *data, size_t len, bool *failed)
{
    const void *kept = data ? arena_strndup(arena, data, len) : NULL;
    *failed = *failed || (data && !kept);
    return kept;
}

static int keep(struct dlq *d, const struct dlq_letter *l, struct fault *f)
{
    if (d->count == DLQ_MAX_LETTERS)
        return fault_set(f, RC_REJECT, "more than %d letters: narrow it down (--reason, --since …)",
                         DLQ_MAX_LETTERS);
    if (d->count == d->room) {
        size_t room = d->room ? d->room * 2 : 64;
        struct dlq_letter *more = realloc(d->letters, room * sizeof *more);
        if (!more)
            return fault_set(f, RC_FATAL, "no memory for %zu letters", room);
        d->letters = more;
        d->room = room;
    }
    d->letters[d->count++] = *l;
    return 0;
}

static int on_record(const struct kafka_read *r, const struct kafka_header *headers,
                     size_t header_count, void *arg, struct fault *f)
{
    struct dlq *d = arg;
    struct dlq_letter l = {.topic = r->topic,
                           .partition = r->partition,
                           .offset = r->offset,
                           .timestamp_ms = r->timestamp_ms,
                           .source_partition = -1,
                           .source_offset = -1,
                           .attempts = dead_letter_attempts(headers, header_count)};
    for (size_t i = 0; i < header_count; i++)
        take_header(&d->arena, &l, &headers[i]);
    if (!wanted(d->filter, &l) || known(d, &l))
        return 0;
    bool failed = false;
    l.topic = copy(&d->arena, r->topic, strlen(r->topic), &failed);
    l.key = copy(&d->arena, r->key, r->key_len, &failed);
    l.key_len = r->key_len;
    l.value = copy(&d->arena, r->value, r->value_len, &failed);
    l.value_len = r->value_len;
    l.headers = arena_alloc(&d->arena, (header_count + 1) * sizeof *l.headers);
    for (size_t i = 0; l.headers && i < header_count; i++) {
        l.headers[i].name = copy(&d->arena, headers[i].name, strlen(headers[i].name), &failed);
        l.headers[i].value = copy(&d->arena, headers[i].value, headers[i].len, &failed);
        l.headers[i].len = headers[i].len;
    }
    l.header_count = header_count;
    if (failed || !l.headers)
        return fault_set(f, RC_REJECT, "these letters are more than %d MB: narrow it down",
                         ARENA_BYTES >> 20);
    return keep(d, &l, f);
}

static int by_source(const void *a, const void *b)
{
    const struct dlq_letter *const *x = a, *const *y = b;
    return ((*x)->source_offset > (*y)->source_offset) -
           ((*x)->source_offset < (*y)->source_offset);
}

static void apply_mark(struct dlq *d, struct dlq_letter *const *sorted, const char *group,
                       const struct pg_result *rows, int row)
{
    int64_t offset = pg_result_int(rows, row, OFFSET);
    size_t lo = 0, hi = d->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (sorted[mid]->source_offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < d->count && sorted[lo]->source_offset == offset; lo++) {
        struct dlq_letter *l = sorted[lo];
        if (l->source_partition != pg_result_int(rows, row, PARTITION) || !equal(group, l->group) ||
            !equal(pg_result_text(rows, row, TOPIC), l->source_topic))
            continue;
        bool given_up = strcmp(pg_result_text(rows, row, STATE), DLQ_STATES[DLQ_DISCARDED]) == 0;
        l->state = given_up ? DLQ_DISCARDED : DLQ_REDRIVEN;
        l->marked_by = arena_strdup(&d->arena, pg_result_text(rows, row, MARKED_BY));
        l->marked_at = arena_strdup(&d->arena, pg_result_text(rows, row, MARKED_AT));
    }
}

static int read_marks(struct dlq *d, struct stage *stage, enum stage_database which,
                      const char *group)
{
    struct pg *pg = NULL;
    struct pg_result *rows = NULL;
    struct fault f = {0};
    int code = stage_pg(stage, which, &pg);
    if (code != CLI_OK)
        return code;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, group);
    int rc = pg_exec(pg, stage_sql("dlq_marks.sql"), &p, &rows, &f);
    if (rc != 0)
        return stage_fail(stage, rc, &f);
    struct dlq_letter **sorted = calloc(d->count, sizeof(struct dlq_letter *));
    for (size_t i = 0; sorted && i < d->count; i++)
        sorted[i] = &d->letters[i];
    if (sorted)
        qsort(sorted, d->count, sizeof(struct dlq_letter *), by_source);
    for (int i = 0; sorted && i < pg_result_rows(rows); i++)
        apply_mark(d, sorted, group, rows, i);
    bool failed = sorted == NULL;
    free(sorted);
    pg_result_free(rows);
    return failed ? cli_fail(stage->cli, CLI_FAILED, "no memory") : CLI_OK;
}

static int read_states(struct dlq *d, struct stage *stage)
{
    const char *groups[STAGE_DATABASES] = {0};
    for (size_t i = 0; i < d->count; i++) {
        enum stage_database which = stage_of_group(stage, d->letters[i].group);
        if (which != STAGE_DATABASES && stage_has(stage, which))
            groups[which] = d->letters[i].group;
    }
    for (int i = 0; i < STAGE_DATABASES; i++) {
        int code = groups[i] ? read_marks(d, stage, (enum stage_database)i, groups[i]) : CLI_OK;
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static void drop_handled(struct dlq *d)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->count; i++)
        if (d->letters[i].state == DLQ_OPEN)
            d->letters[kept++] = d->letters[i];
    d->count = kept;
}

int dlq_read(struct dlq *d, struct stage *stage, const struct dlq_filter *filter)
{
    static struct log_scan scan;
    static char names[MAX_TOPICS][TOPIC_NAME_MAX + 1];
    struct kafka_admin *admin = NULL;
    struct fault f = {0};
    *d = (struct dlq){.filter = filter};
    arena_init(&d->arena, ARENA_BYTES);
    scan = (struct log_scan){0};
    int code = stage_kafka(stage, &admin);
    if (code != CLI_OK)
        return code;
    int rc = 0;
    for (size_t i = 0; i < MAX_TOPICS && TOPICS[i].name && rc == 0; i++)
        if (equal(filter->topic, TOPICS[i].name) && topic_dlq(TOPICS[i].name, names[i]))
            rc = log_scan_add(&scan, stage, names[i], 0, &f);
    if (rc == 0)
        rc = log_scan_run(&scan, stage, "reading dead letters", on_record, d, &f);
    if (rc != 0)
        return stage_fail(stage, rc, &f);
    code = read_states(d, stage);
    if (code == CLI_OK && !filter->all && filter->id_count == 0)
        drop_handled(d);
    return code;
}

void dlq_done(struct dlq *d)
{
    free(d->letters);
    arena_done(&d->arena);
    *d = (struct dlq){0};
}

const char *dlq_obstacle(const struct dlq_letter *l, const struct stage *stage)
{
    enum stage_database which = stage_of_group(stage, l->group);
    if (l->state == DLQ_REDRIVEN)
        return "redriven already";
    if (l->attempts >= DLQ_MAX_ATTEMPTS)
        return "tried 5 times: mend the cause and publish it anew";
    if (l->cut)
        return "its value was cut: publish it anew";
    if (!l->value)
        return "it has no value";
    if (!l->source_topic || l->source_offset < 0 || l->source_partition < 0)
        return "its headers do not name a source";
    if (which == STAGE_DATABASES)
        return "its group is not one of ours";
    return stage_has(stage, which) ? NULL : "the database of its group is not set";
}

/* Text where it is text, else {"base64url":"…"}: bytes come back as they were. */
static void put_bytes(struct json_out *j, const char *key, const void *data, size_t len)
{
    if (!data) {
        json_put_null(j, key);
        return;
    }
    if (utf8_valid(data, len) && !memchr(data, 0, len)) {
        json_put_strn(j, key, data, len);
        return;
    }
    char *text = malloc(BASE64_URL_LEN(len) + 1);
    json_object(j, key);
    if (text)
        base64_url_encode(data, len, text);
    json_put_str(j, "base64url", text);
    json_end(j);
    free(text);
}

void dlq_json(struct json_out *j, const struct dlq_letter *l, bool whole)
{
    char id[ID_LEN], time[CLOCK_ISO_LEN + 1];
    dlq_id(l, id, sizeof id);
    json_object(j, NULL);
    json_put_str(j, "id", id);
    json_put_str(j, "state", DLQ_STATES[l->state]);
    json_put_str(j, "reason", l->reason);
    json_put_str(j, "detail", l->detail);
    json_put_str(j, "group", l->group);
    json_put_int(j, "attempts", l->attempts);
    json_put_str(j, "topic", l->source_topic);
    json_put_int(j, "partition", l->source_partition);
    json_put_int(j, "offset", l->source_offset);
    clock_format_iso(l->timestamp_ms > 0 ? l->timestamp_ms : 0, time);
    json_put_str(j, "time", time);
    put_bytes(j, "key", l->key, l->key_len);
    if (l->marked_by) {
        json_put_str(j, "markedBy", l->marked_by);
        json_put_str(j, "markedAt", l->marked_at);
    }
    if (whole) {
        json_array(j, "headers");
        for (size_t i = 0; i < l->header_count; i++) {
            json_object(j, NULL);
            json_put_str(j, "name", l->headers[i].name);
            put_bytes(j, "value", l->headers[i].value, l->headers[i].len);
            json_end(j);
        }
        json_end(j);
        put_bytes(j, "value", l->value, l->value_len);
    }
    json_end(j);
}

/* group_view.c - offset rows first, then the log: a lag is never shown below its truth. */
#include "cli/group_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/kafka_admin.h"
#include "runtime/pg.h"

static struct group_place *add(struct group_view *v, const char *topic, int32_t partition)
{
    if (v->count == GROUP_VIEW_MAX)
        return NULL;
    struct group_place *p = &v->places[v->count++];
    *p = (struct group_place){
        .partition = partition, .committed = KAFKA_OFFSET_NONE, .low = -1, .high = -1};
    (void)snprintf(p->topic, sizeof p->topic, "%s", topic);
    return p;
}

static bool has(const struct group_view *v, const char *topic, int32_t partition)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->places[i].partition == partition && strcmp(v->places[i].topic, topic) == 0)
            return true;
    return false;
}

static int64_t time_or_0(const struct pg_result *rows, int row, int column)
{
    return pg_result_null(rows, row, column) ? 0 : pg_result_time_ms(rows, row, column);
}

static int read_rows(struct pg *pg, const char *group, const char *topic, struct group_view *v,
                     struct fault *f)
{
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, group);
    int rc = pg_exec(pg, cli_stmt("group_offsets.sql"), &p, &rows, f);
    for (int i = 0; rc == 0 && i < pg_result_rows(rows); i++) {
        if (topic && strcmp(topic, pg_result_text(rows, i, 0)) != 0)
            continue;
        struct group_place *place =
            add(v, pg_result_text(rows, i, 0), (int32_t)pg_result_int(rows, i, 1));
        if (!place)
            break;
        place->has_row = true;
        place->next_offset = pg_result_int(rows, i, 2);
        place->generation = pg_result_int(rows, i, 3);
        place->last_timestamp_ms = pg_result_int(rows, i, 4);
        place->caught_up_ms = time_or_0(rows, i, 5);
        place->updated_ms = time_or_0(rows, i, 6);
        v->db_now_ms = pg_result_time_ms(rows, i, 7);
    }
    pg_result_free(rows);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct group_place *x = a, *y = b;
    int order = strcmp(x->topic, y->topic);
    return order ? order : (x->partition > y->partition) - (x->partition < y->partition);
}

/* Partitions that no row speaks of yet. */
static int add_missing(struct kafka_admin *kafka, const char *topic, struct group_view *v,
                       struct fault *f)
{
    int32_t count = 0;
    int rc = kafka_admin_partitions(kafka, topic, CLI_KAFKA_MS, &count, f);
    for (int32_t n = 0; rc == 0 && n < count; n++)
        if (!has(v, topic, n))
            (void)add(v, topic, n);
    return rc;
}

static int ask_log(struct kafka_admin *kafka, const char *group, struct group_view *v,
                   struct fault *f)
{
    struct kafka_place *committed = calloc(v->count ? v->count : 1, sizeof *committed);
    if (!committed)
        return fault_set(f, RC_FATAL, "no memory");
    int rc = 0;
    for (size_t i = 0; i < v->count && rc == 0; i++) {
        struct group_place *p = &v->places[i];
        committed[i] = (struct kafka_place){p->topic, p->partition, KAFKA_OFFSET_NONE};
        rc = kafka_admin_watermarks(kafka, p->topic, p->partition, CLI_KAFKA_MS, &p->low, &p->high,
                                    f);
        if (rc == RC_REJECT) /* the topic, or the partition, is not there */
            rc = 0;
    }
    if (rc == 0 && v->count)
        rc = kafka_admin_group_offsets(kafka, group, committed, v->count, CLI_KAFKA_MS, f);
    for (size_t i = 0; i < v->count && rc == 0; i++)
        v->places[i].committed = committed[i].offset;
    free(committed);
    return rc;
}

int group_view_look(const struct cli *cli, struct pg *pg, struct kafka_admin *kafka,
                    const struct cli_group *group, const char *topic, struct group_view *out)
{
    struct fault f = {0};
    *out = (struct group_view){.places = calloc(GROUP_VIEW_MAX, sizeof *out->places),
                               .db_now_ms = clock_wall_ms(),
                               .at_ms = clock_mono_ms()};
    int rc = out->places ? read_rows(pg, group->name, topic, out, &f)
                         : fault_set(&f, RC_FATAL, "no memory");
    if (rc != 0)
        return cli_fail(cli, cli_code(rc), "%s_db: %s", group->database, f.text);
    for (size_t i = 0; rc == 0 && group->topics[i]; i++)
        if (!topic || strcmp(topic, group->topics[i]) == 0)
            rc = add_missing(kafka, group->topics[i], out, &f);
    qsort(out->places, out->count, sizeof *out->places, by_place);
    if (rc == 0)
        rc = ask_log(kafka, group->name, out, &f);
    return rc == 0 ? CLI_OK : cli_fail(cli, cli_code(rc), "Kafka: %s", f.text);
}

void group_view_done(struct group_view *v)
{
    free(v->places);
    *v = (struct group_view){0};
}

int64_t group_place_lag(const struct group_place *p)
{
    if (p->high < 0 || !p->has_row)
        return -1;
    return p->high > p->next_offset ? p->high - p->next_offset : 0;
}

double group_place_lag_seconds(const struct group_place *p, int64_t db_now_ms)
{
    int64_t lag = group_place_lag(p);
    int64_t since = p->caught_up_ms > p->last_timestamp_ms ? p->caught_up_ms : p->last_timestamp_ms;
    if (lag <= 0)
        return lag < 0 ? -1 : 0;
    if (since <= 0)
        return -1;
    return db_now_ms > since ? (double)(db_now_ms - since) / 1000.0 : 0;
}

/* caught_up.c - how far behind the log's end each partition is, and when it last was not behind.
 *
 * The database's clock is read first, the ends are asked for afterwards: whatever was in the log at
 * that time lies below those ends. A partition counts as caught up when everything delivered is
 * applied and either its next offset or the last end it ran into has reached that end: records of
 * transactional publishers leave control records behind, which are never delivered but count in the
 * end. */
#include <string.h>

#include "consumers/engine/engine_internal.h"
#include "runtime/clock.h"
#include "runtime/fault.h"

void caught_up_ask(struct engine *e)
{
    struct fault f;
    kafka_consumer_ends_ask(e->kafka, e->db_now_ms,
                            &f); /* one under way already: the next second */
}

static bool reached(const struct partition *p, int64_t end)
{
    if (p->state != PARTITION_RUNNING || p->delivered > p->next_offset)
        return false;
    return p->next_offset >= end || p->eof >= end;
}

static void show_lag(struct partition *p, int64_t end, bool caught_up)
{
    int64_t lag = end - p->next_offset;
    double age = 0;
    if (!caught_up && p->applied_time_ms > 0)
        age = (double)(clock_wall_ms() - p->applied_time_ms) / 1000.0;
    metric_set(p->metrics.lag_messages, caught_up || lag < 0 ? 0 : (double)lag);
    metric_set(p->metrics.lag_seconds, age > 0 ? age : 0);
}

static int store(struct engine *e, int64_t at_ms, struct pg_array a[4], struct fault *f)
{
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, e->offset_group);
    pg_params_time_ms(&p, at_ms);
    for (int i = 0; i < 4; i++)
        pg_params_array(&p, &a[i]);
    return pg_exec(e->pg, engine_sql(ENGINE_SQL_CAUGHT_UP), &p, NULL, f);
}

int caught_up_take(struct engine *e, struct fault *f)
{
    struct kafka_start ends[ENGINE_MAX_PARTITIONS];
    size_t count = 0;
    int64_t at_ms = 0;
    if (!kafka_consumer_ends_take(e->kafka, &at_ms, ends, ENGINE_MAX_PARTITIONS, &count))
        return 0;
    struct pg_array a[4];
    static const enum pg_type types[4] = {PG_TEXT, PG_INT4, PG_INT8, PG_INT8};
    for (int i = 0; i < 4; i++)
        pg_array_init(&a[i], types[i], 1 << 20);
    for (size_t i = 0; i < count; i++) {
        struct partition *p = engine_partition(e, ends[i].topic, ends[i].partition);
        if (!p)
            continue;
        bool caught_up = reached(p, ends[i].offset);
        show_lag(p, ends[i].offset, caught_up);
        if (!caught_up)
            continue;
        pg_array_text(&a[0], p->topic);
        pg_array_int4(&a[1], p->number);
        pg_array_int8(&a[2], p->next_offset);
        pg_array_int8(&a[3], p->generation);
    }
    int rc = a[0].count ? store(e, at_ms, a, f) : 0;
    for (int i = 0; i < 4; i++)
        pg_array_done(&a[i]);
    return rc;
}

/* relay_delivery.c - what became of the rows: delivered ones are deleted, refused ones singled out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producers/relay_state.h"
#include "runtime/fault.h"
#include "runtime/kafka_producer.h"
#include "runtime/log.h"
#include "runtime/metrics.h"

static void forget_row(struct relay *r, struct relay_row *row)
{
    struct relay_row *last = r->on_way[--r->on_way_count];
    r->on_way[row->place] = last;
    last->place = row->place;
    r->bytes_on_way -= row->bytes;
    relay_batch_release(row->batch);
    free(row);
}

static void suspect(struct relay *r, int64_t id)
{
    if (r->suspect_count < RELAY_MAX_SUSPECTS)
        r->suspects[r->suspect_count++] = id;
}

bool relay_is_suspect(const struct relay *r, int64_t id)
{
    for (size_t i = 0; i < r->suspect_count; i++)
        if (r->suspects[i] == id)
            return true;
    return false;
}

static void clear_suspect(struct relay *r, int64_t id)
{
    for (size_t i = 0; i < r->suspect_count; i++)
        if (r->suspects[i] == id)
            r->suspects[i--] = r->suspects[--r->suspect_count];
}

void relay_on_delivery(void *arg, const struct kafka_delivery *d)
{
    struct relay *r = arg;
    struct relay_row *row = d->tag;
    if (d->outcome == KAFKA_DELIVERED) {
        r->delivered[r->delivered_count++] = row->id;
        clear_suspect(r, row->id);
    } else {
        r->trouble = true;
        if (d->outcome == KAFKA_REFUSED && row->id == r->alone_id) {
            r->refused_id = row->id;
            (void)snprintf(r->refused_reason, sizeof r->refused_reason, "%s", d->reason);
        } else if (d->outcome == KAFKA_REFUSED) {
            suspect(r, row->id);
        }
    }
    if (row->id == r->alone_id)
        r->alone_id = 0;
    forget_row(r, row);
}

void relay_begin_again(struct relay *r)
{
    kafka_producer_purge(r->producer);
    r->gaps.next = 0;
    r->gaps.count = 0;
    r->reopen = false;
    r->alone_id = 0;
    r->trouble = false;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* As runs of consecutive ids: one walk along the index each, and nothing in them but what was
 * delivered. */
static void delivered_runs(struct relay *r)
{
    pg_array_reset(&r->firsts);
    pg_array_reset(&r->lasts);
    qsort(r->delivered, r->delivered_count, sizeof *r->delivered, ascending);
    for (size_t i = 0; i < r->delivered_count; i++) {
        int64_t id = r->delivered[i];
        if (i == 0 || r->delivered[i - 1] != id - 1)
            (void)pg_array_int8(&r->firsts, id);
        if (i + 1 == r->delivered_count || r->delivered[i + 1] != id + 1)
            (void)pg_array_int8(&r->lasts, id);
    }
}

int relay_delete_delivered(struct relay *r, struct fault *f)
{
    if (r->delivered_count == 0)
        return 0;
    delivered_runs(r);
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, &r->firsts);
    pg_params_array(&p, &r->lasts);
    int rc = relay_run(r, "delete.sql", &p, NULL, f);
    if (rc == 0) {
        metric_add(r->sent, r->delivered_count);
        r->delivered_count = 0;
    }
    return rc;
}

int relay_move_refused(struct relay *r, int64_t id, const char *reason, struct fault *f)
{
    struct pg_params p;
    struct pg_result *moved;
    pg_params_init(&p);
    pg_params_int8(&p, id);
    pg_params_text(&p, reason);
    int rc = relay_run(r, "fail.sql", &p, &moved, f);
    if (rc)
        return rc;
    LOG_ERROR("outbox row refused by Kafka, moved to outbox_failed with its key's later rows",
              LOG_STR("database", r->name), LOG_INT("outbox_id", id), LOG_STR("reason", reason),
              LOG_INT("rows", pg_result_affected(moved)));
    metric_add(r->moved, (uint64_t)pg_result_affected(moved));
    pg_result_free(moved);
    clear_suspect(r, id);
    r->has_failed = true;
    r->look_ms = 0;
    return 0;
}

int relay_settle_trouble(struct relay *r, struct fault *f)
{
    metric_add(r->restarts, 1);
    relay_begin_again(r);
    int rc = relay_delete_delivered(r, f);
    if (rc == 0 && r->refused_id) {
        rc = relay_move_refused(r, r->refused_id, r->refused_reason, f);
        if (rc == 0)
            r->refused_id = 0;
    }
    return rc;
}

/* relay_row.c - outbox rows as Kafka records. */
#include "producers/relay_row.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/pg.h"

enum { ARRAY_HEAD = 20 }; /* dimensions, flags, type, length, lower bound: 4 bytes each */

struct elements {
    const char *at, *end;
    size_t count;
};

static struct elements array_of(const struct pg_result *rows, int row, int column)
{
    size_t len = 0;
    const char *data = pg_result_bytes(rows, row, column, &len);
    struct elements e = {.at = data, .end = data ? data + len : data};
    if (data && len >= ARRAY_HEAD && pg_get_int4(data) == 1) {
        e.count = (size_t)pg_get_int4(data + 12);
        e.at = data + ARRAY_HEAD;
    }
    return e;
}

/* NULL for an SQL NULL. False past the end. */
static bool next_element(struct elements *e, const char **out, size_t *out_len)
{
    if (e->end - e->at < 4)
        return false;
    int32_t len = pg_get_int4(e->at);
    e->at += 4;
    if (len > e->end - e->at)
        return false;
    *out = len < 0 ? NULL : e->at;
    *out_len = len < 0 ? 0 : (size_t)len;
    e->at += *out_len;
    return true;
}

size_t relay_row_headers(const struct pg_result *rows, int row, int names_column, int values_column,
                         struct kafka_header *out, size_t max, char *text, size_t text_size)
{
    struct elements names = array_of(rows, row, names_column);
    struct elements values = array_of(rows, row, values_column);
    if (names.count > max)
        return SIZE_MAX;
    size_t used = 0;
    for (size_t i = 0; i < names.count; i++) {
        const char *name, *value;
        size_t name_len, value_len;
        if (!next_element(&names, &name, &name_len) || !next_element(&values, &value, &value_len) ||
            name_len + 1 > text_size - used)
            return SIZE_MAX;
        memcpy(text + used, name ? name : "", name_len);
        text[used + name_len] = '\0';
        out[i] = (struct kafka_header){.name = text + used, .value = value, .len = value_len};
        used += name_len + 1;
    }
    return names.count;
}

void relay_batch_release(struct relay_batch *b)
{
    if (--b->users > 0)
        return;
    pg_result_free(b->rows);
    free(b);
}

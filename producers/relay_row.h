/* relay_row.h - rows of the outbox on their way to Kafka, and their headers. */
#ifndef RELAY_ROW_H
#define RELAY_ROW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kafka.h"

struct pg_result;

/* One read; freed with its last row, because Kafka borrows the values from it. */
struct relay_batch {
    struct pg_result *rows;
    size_t users;
};

struct relay_row {
    int64_t id;
    struct relay_batch *batch;
    size_t bytes; /* of its value */
    size_t place; /* in the relay's table of rows on their way */
};

/* Column `column` of that row, a one-dimensional text[] or bytea[] in wire form, element by element
 * into out (at most max). Names are copied into `text`, which ends each with a NUL. Returns how
 * many elements there are, or SIZE_MAX when they don't fit. */
size_t relay_row_headers(const struct pg_result *rows, int row, int names_column, int values_column,
                         struct kafka_header *out, size_t max, char *text, size_t text_size);

void relay_batch_release(struct relay_batch *b);

#endif

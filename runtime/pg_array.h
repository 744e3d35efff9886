/* pg_array.h - one-dimensional arrays in PostgreSQL's binary form, built element by element.
 *
 * A batch fills one array per column, row by row, and hands all to one statement:
 *   SELECT … FROM unnest($1::text[], $2::bigint[]) AS t(key, amount) */
#ifndef PG_ARRAY_H
#define PG_ARRAY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/buf.h"

enum pg_type { /* element types */
               PG_BOOL,
               PG_BYTEA,
               PG_INT8,
               PG_INT4,
               PG_TEXT, /* also for varchar columns: the server casts */
               PG_UUID,
               PG_TIMESTAMPTZ,
               PG_FLOAT8,
               PG_JSONB
};

/* Caller's memory. `bytes.failed` is sticky: a statement that gets a failed array is refused
 * (RC_REJECT), so a caller may check once. */
struct pg_array {
    struct buf bytes;
    enum pg_type type;
    int32_t count;
    bool has_null;
};

void pg_array_init(struct pg_array *a, enum pg_type type, size_t max_bytes);
void pg_array_done(struct pg_array *a);
void pg_array_reset(struct pg_array *a); /* no elements; keeps the memory */

/* Append one element: 0, or RC_REJECT (full, another type, not a UUID), which marks the array as
 * failed. A NULL pointer is SQL NULL. */
int pg_array_null(struct pg_array *a);
int pg_array_text(struct pg_array *a, const char *text); /* PG_TEXT, PG_JSONB */
int pg_array_textn(struct pg_array *a, const char *text, size_t len);
int pg_array_bytes(struct pg_array *a, const void *data, size_t len);
int pg_array_int8(struct pg_array *a, int64_t value);
int pg_array_int4(struct pg_array *a, int32_t value);
int pg_array_bool(struct pg_array *a, bool value);
int pg_array_uuid(struct pg_array *a, const char *text);   /* 8-4-4-4-12 hexadecimal digits */
int pg_array_time_ms(struct pg_array *a, int64_t wall_ms); /* PG_TIMESTAMPTZ, since 1970 */
int pg_array_float8(struct pg_array *a, double value);

/* The wire form; the pointer lives until the next change. */
const void *pg_array_wire(struct pg_array *a, size_t *out_len);

/* Oids of the types themselves and of their arrays. */
unsigned pg_type_oid(enum pg_type type);
unsigned pg_type_array_oid(enum pg_type type);

/* Scalars in network order, shared with pg_params and pg_result. */
void pg_put_int8(char out[8], int64_t value);
int64_t pg_get_int8(const char in[8]);
void pg_put_int4(char out[4], int32_t value);
int32_t pg_get_int4(const char in[4]);
int64_t pg_time_from_ms(int64_t wall_ms); /* microseconds since 2000, saturating */
int64_t pg_time_to_ms(int64_t pg_us);
int pg_uuid_parse(const char *text, unsigned char out[16]); /* 0 or RC_REJECT */

#endif

/* pg_result.h - rows of a statement, read by type.
 *
 * Results travel in binary form. Reading a column as another type than the statement returns, or
 * outside the rows, is a programming error and aborts with a message: cast in the SQL (numeric and
 * date have no reader: use ::bigint, ::float8 or ::text). */
#ifndef PG_RESULT_H
#define PG_RESULT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_result; /* libpq's PGresult */

void pg_result_free(struct pg_result *r); /* accepts NULL */
int pg_result_rows(const struct pg_result *r);
int pg_result_columns(const struct pg_result *r);
int pg_result_column(const struct pg_result *r, const char *name); /* -1: none of that name */
int64_t pg_result_affected(const struct pg_result *r); /* rows inserted, updated, deleted, copied */

/* SQL NULL reads as 0, false, NULL. Pointers live as long as the result. */
bool pg_result_null(const struct pg_result *r, int row, int column);
int64_t pg_result_int(const struct pg_result *r, int row, int column); /* int2, int4, int8 */
bool pg_result_bool(const struct pg_result *r, int row, int column);
double pg_result_real(const struct pg_result *r, int row, int column); /* float4, float8 */
/* text, varchar, char, name, json, jsonb, enums */
const char *pg_result_text(const struct pg_result *r, int row, int column);
/* bytea, and the raw bytes of any other type */
const void *pg_result_bytes(const struct pg_result *r, int row, int column, size_t *out_len);
int64_t pg_result_time_ms(const struct pg_result *r, int row,
                          int column); /* timestamptz, since 1970 */
enum { PG_UUID_LEN = 36 };
/* Lower case with a NUL; "" for SQL NULL. */
void pg_result_uuid(const struct pg_result *r, int row, int column, char out[PG_UUID_LEN + 1]);

#endif

/* pg_params.h - the parameters $1, $2 … of one statement.
 *
 * Numbers, booleans and times are copied; texts, bytes and arrays are borrowed until the statement
 * has been queued or executed. A text parameter's type is left to the server ($1 = uuid column
 * works); the others carry theirs. */
#ifndef PG_PARAMS_H
#define PG_PARAMS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_array;

enum { PG_MAX_PARAMS = 64 };

struct pg_param {
    unsigned oid;
    int format;       /* 0 text, 1 binary */
    const char *data; /* NULL: SQL NULL, unless `small` */
    size_t len;
    bool small; /* the bytes are in `bytes` */
    char bytes[16];
};

/* Caller's memory, no resources: needs no done. */
struct pg_params {
    struct pg_param item[PG_MAX_PARAMS];
    int count;
    bool failed; /* sticky; the statement is refused then: too many, a bad UUID, a failed array */
};

void pg_params_init(struct pg_params *p);
void pg_params_null(struct pg_params *p);
void pg_params_text(struct pg_params *p, const char *text); /* NULL: SQL NULL */
/* Need not end with a NUL byte; typed as text. */
void pg_params_textn(struct pg_params *p, const char *text, size_t len);
void pg_params_bytes(struct pg_params *p, const void *data, size_t len); /* bytea */
void pg_params_int8(struct pg_params *p, int64_t value);
void pg_params_int4(struct pg_params *p, int32_t value);
void pg_params_bool(struct pg_params *p, bool value);
void pg_params_time_ms(struct pg_params *p, int64_t wall_ms); /* timestamptz */
void pg_params_uuid(struct pg_params *p, const char *text);   /* NULL: SQL NULL */
void pg_params_array(struct pg_params *p,
                     struct pg_array *a); /* no change to it until it is sent */

/* A copy with its own texts, bytes and arrays, in one block; NULL: no memory. */
struct pg_params *pg_params_dup(const struct pg_params *p);
void pg_params_free(struct pg_params *copy); /* of pg_params_dup() only; accepts NULL */

/* The form libpq takes. The arrays have PG_MAX_PARAMS places. */
struct pg_wire {
    unsigned oids[PG_MAX_PARAMS];
    const char *values[PG_MAX_PARAMS];
    int lengths[PG_MAX_PARAMS];
    int formats[PG_MAX_PARAMS];
};
void pg_params_wire(const struct pg_params *p, struct pg_wire *out);

#endif

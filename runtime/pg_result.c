/* pg_result.c - decodes binary columns. */
#include "runtime/pg_result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "runtime/pg_array.h"

enum {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_FLOAT4 = 700,
    OID_FLOAT8 = 701,
    OID_TIMESTAMP = 1114,
    OID_TIMESTAMPTZ = 1184,
    OID_NUMERIC = 1700,
    OID_DATE = 1082,
    OID_UUID = 2950,
    OID_JSONB = 3802
};

__attribute__((noreturn)) static void misread(const struct pg_result *r, int row, int column,
                                              const char *as)
{
    const char *name = column >= 0 && column < PQnfields(r) ? PQfname(r, column) : "?";
    unsigned oid = column >= 0 && column < PQnfields(r) ? PQftype(r, column) : 0;
    (void)fprintf(stderr, "pg_result: column %d (%s, type oid %u) of row %d of %d read as %s\n",
                  column, name, oid, row, PQntuples(r), as);
    abort();
}

/* The type's oid after checking that the cell exists. */
static unsigned cell_type(const struct pg_result *r, int row, int column, const char *as)
{
    if (row < 0 || row >= PQntuples(r) || column < 0 || column >= PQnfields(r))
        misread(r, row, column, as);
    return PQftype(r, column);
}

void pg_result_free(struct pg_result *r)
{
    PQclear(r);
}

int pg_result_rows(const struct pg_result *r)
{
    return PQntuples(r);
}

int pg_result_columns(const struct pg_result *r)
{
    return PQnfields(r);
}

int pg_result_column(const struct pg_result *r, const char *name)
{
    return PQfnumber(r, name);
}

int64_t pg_result_affected(const struct pg_result *r)
{
    return strtoll(PQcmdTuples((PGresult *)r), NULL, 10); /* reads only, libpq forgot the const */
}

bool pg_result_null(const struct pg_result *r, int row, int column)
{
    (void)cell_type(r, row, column, "anything");
    return PQgetisnull(r, row, column) == 1;
}

int64_t pg_result_int(const struct pg_result *r, int row, int column)
{
    unsigned type = cell_type(r, row, column, "an integer");
    if (PQgetisnull(r, row, column))
        return 0;
    const char *data = PQgetvalue(r, row, column);
    if (type == OID_INT8)
        return pg_get_int8(data);
    if (type == OID_INT4)
        return pg_get_int4(data);
    if (type == OID_INT2)
        return (int16_t)((unsigned)(unsigned char)data[0] << 8 | (unsigned char)data[1]);
    misread(r, row, column, "an integer");
}

bool pg_result_bool(const struct pg_result *r, int row, int column)
{
    if (cell_type(r, row, column, "a boolean") != OID_BOOL)
        misread(r, row, column, "a boolean");
    return !PQgetisnull(r, row, column) && PQgetvalue(r, row, column)[0] != 0;
}

double pg_result_real(const struct pg_result *r, int row, int column)
{
    unsigned type = cell_type(r, row, column, "a real number");
    if (type != OID_FLOAT8 && type != OID_FLOAT4)
        misread(r, row, column, "a real number");
    if (PQgetisnull(r, row, column))
        return 0;
    const char *data = PQgetvalue(r, row, column);
    if (type == OID_FLOAT4) {
        int32_t bits = pg_get_int4(data);
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    int64_t bits = pg_get_int8(data);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Types whose binary form is not their text. Enums have oids of their own and are text. */
static bool is_binary(unsigned type)
{
    static const unsigned BINARY[] = {OID_BOOL, OID_BYTEA,     OID_INT8,        OID_INT2,
                                      OID_INT4, OID_FLOAT4,    OID_FLOAT8,      OID_NUMERIC,
                                      OID_DATE, OID_TIMESTAMP, OID_TIMESTAMPTZ, OID_UUID};
    for (size_t i = 0; i < sizeof BINARY / sizeof BINARY[0]; i++)
        if (type == BINARY[i])
            return true;
    return false;
}

const char *pg_result_text(const struct pg_result *r, int row, int column)
{
    unsigned type = cell_type(r, row, column, "text");
    if (PQfformat(r, column) == 1 && is_binary(type))
        misread(r, row, column, "text");
    if (PQgetisnull(r, row, column))
        return NULL;
    const char *data = PQgetvalue(r, row, column); /* libpq puts a NUL after each cell */
    return type == OID_JSONB && PQfformat(r, column) == 1 ? data + 1 : data;
}

const void *pg_result_bytes(const struct pg_result *r, int row, int column, size_t *out_len)
{
    (void)cell_type(r, row, column, "bytes");
    bool null = PQgetisnull(r, row, column) == 1;
    *out_len = null ? 0 : (size_t)PQgetlength(r, row, column);
    return null ? NULL : PQgetvalue(r, row, column);
}

int64_t pg_result_time_ms(const struct pg_result *r, int row, int column)
{
    if (cell_type(r, row, column, "a time") != OID_TIMESTAMPTZ)
        misread(r, row, column, "a time");
    if (PQgetisnull(r, row, column))
        return 0;
    return pg_time_to_ms(pg_get_int8(PQgetvalue(r, row, column)));
}

void pg_result_uuid(const struct pg_result *r, int row, int column, char out[PG_UUID_LEN + 1])
{
    static const char HEX[] = "0123456789abcdef";
    if (cell_type(r, row, column, "a UUID") != OID_UUID)
        misread(r, row, column, "a UUID");
    out[0] = '\0';
    if (PQgetisnull(r, row, column))
        return;
    const char *data = PQgetvalue(r, row, column);
    char *at = out;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = HEX[(unsigned char)data[i] >> 4];
        *at++ = HEX[(unsigned char)data[i] & 15];
    }
    *at = '\0';
}

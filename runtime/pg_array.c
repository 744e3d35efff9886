/* pg_array.c - the binary array form: dimensions, flags, element type, then length and bytes each.
 */
#include "runtime/pg_array.h"

#include <string.h>

#include "runtime/fault.h"

/* ndim, has-null flag, element type, size, lower bound; an empty array ends after the third. */
enum { HEADER = 20, EMPTY_HEADER = 12 };

static const int64_t EPOCH_2000_MS = INT64_C(946684800000);

static const struct {
    unsigned oid, array_oid;
} OIDS[] = {
    [PG_BOOL] = {16, 1000},          [PG_BYTEA] = {17, 1001},   [PG_INT8] = {20, 1016},
    [PG_INT4] = {23, 1007},          [PG_TEXT] = {25, 1009},    [PG_UUID] = {2950, 2951},
    [PG_TIMESTAMPTZ] = {1184, 1185}, [PG_FLOAT8] = {701, 1022}, [PG_JSONB] = {3802, 3807},
};

unsigned pg_type_oid(enum pg_type type)
{
    return OIDS[type].oid;
}

unsigned pg_type_array_oid(enum pg_type type)
{
    return OIDS[type].array_oid;
}

void pg_put_int4(char out[4], int32_t value)
{
    uint32_t v = (uint32_t)value;
    for (int i = 3; i >= 0; i--, v >>= 8)
        out[i] = (char)(v & 0xff);
}

void pg_put_int8(char out[8], int64_t value)
{
    uint64_t v = (uint64_t)value;
    for (int i = 7; i >= 0; i--, v >>= 8)
        out[i] = (char)(v & 0xff);
}

int32_t pg_get_int4(const char in[4])
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v = v << 8 | (unsigned char)in[i];
    return (int32_t)v;
}

int64_t pg_get_int8(const char in[8])
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | (unsigned char)in[i];
    return (int64_t)v;
}

int64_t pg_time_from_ms(int64_t wall_ms)
{
    int64_t ms, us;
    if (__builtin_sub_overflow(wall_ms, EPOCH_2000_MS, &ms) ||
        __builtin_mul_overflow(ms, 1000, &us))
        return wall_ms < 0 ? INT64_MIN : INT64_MAX; /* -infinity, infinity */
    return us;
}

int64_t pg_time_to_ms(int64_t pg_us)
{
    if (pg_us == INT64_MIN || pg_us == INT64_MAX)
        return pg_us;
    int64_t ms = pg_us / 1000 - (pg_us % 1000 < 0 ? 1 : 0); /* downwards, also before 2000 */
    return ms + EPOCH_2000_MS;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int pg_uuid_parse(const char *text, unsigned char out[16])
{
    if (strnlen(text, 37) != 36)
        return RC_REJECT;
    unsigned char bytes[16];
    size_t at = 0;
    for (size_t i = 0; i < 36;) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text[i++] != '-')
                return RC_REJECT;
            continue;
        }
        int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0)
            return RC_REJECT;
        bytes[at++] = (unsigned char)(high << 4 | low);
        i += 2;
    }
    memcpy(out, bytes, sizeof bytes);
    return 0;
}

void pg_array_init(struct pg_array *a, enum pg_type type, size_t max_bytes)
{
    *a = (struct pg_array){.type = type};
    buf_init(&a->bytes, max_bytes);
    pg_array_reset(a);
}

void pg_array_done(struct pg_array *a)
{
    buf_done(&a->bytes);
}

void pg_array_reset(struct pg_array *a)
{
    static const char zeros[HEADER];
    buf_reset(&a->bytes);
    (void)buf_append(&a->bytes, zeros, sizeof zeros);
    a->count = 0;
    a->has_null = false;
}

static int refuse(struct pg_array *a)
{
    a->bytes.failed = true;
    return RC_REJECT;
}

/* `prefix` is put before the data: jsonb's version byte. Nothing is appended unless all fits. */
static int append(struct pg_array *a, const char *prefix, size_t prefix_len, const void *data,
                  size_t len)
{
    if (len > INT32_MAX - 16 || buf_reserve(&a->bytes, 4 + prefix_len + len) != 0)
        return refuse(a);
    char size[4];
    pg_put_int4(size, (int32_t)(prefix_len + len));
    (void)buf_append(&a->bytes, size, sizeof size);
    if (prefix_len > 0)
        (void)buf_append(&a->bytes, prefix, prefix_len);
    if (len > 0)
        (void)buf_append(&a->bytes, data, len);
    a->count++;
    return 0;
}

int pg_array_null(struct pg_array *a)
{
    char size[4];
    pg_put_int4(size, -1);
    if (buf_append(&a->bytes, size, sizeof size) != 0)
        return RC_REJECT;
    a->has_null = true;
    a->count++;
    return 0;
}

int pg_array_textn(struct pg_array *a, const char *text, size_t len)
{
    if (!text)
        return pg_array_null(a);
    if (a->type == PG_JSONB)
        return append(a, "\1", 1, text, len);
    return a->type == PG_TEXT ? append(a, NULL, 0, text, len) : refuse(a);
}

int pg_array_text(struct pg_array *a, const char *text)
{
    return pg_array_textn(a, text, text ? strlen(text) : 0);
}

int pg_array_bytes(struct pg_array *a, const void *data, size_t len)
{
    if (!data)
        return pg_array_null(a);
    return a->type == PG_BYTEA ? append(a, NULL, 0, data, len) : refuse(a);
}

static int append_8(struct pg_array *a, enum pg_type type, int64_t value)
{
    char wire[8];
    pg_put_int8(wire, value);
    return a->type == type ? append(a, NULL, 0, wire, sizeof wire) : refuse(a);
}

int pg_array_int8(struct pg_array *a, int64_t value)
{
    return append_8(a, PG_INT8, value);
}

int pg_array_int4(struct pg_array *a, int32_t value)
{
    char wire[4];
    pg_put_int4(wire, value);
    return a->type == PG_INT4 ? append(a, NULL, 0, wire, sizeof wire) : refuse(a);
}

int pg_array_bool(struct pg_array *a, bool value)
{
    return a->type == PG_BOOL ? append(a, NULL, 0, value ? "\1" : "\0", 1) : refuse(a);
}

int pg_array_uuid(struct pg_array *a, const char *text)
{
    if (!text)
        return pg_array_null(a);
    unsigned char wire[16];
    if (a->type != PG_UUID || pg_uuid_parse(text, wire) != 0)
        return refuse(a);
    return append(a, NULL, 0, wire, sizeof wire);
}

int pg_array_time_ms(struct pg_array *a, int64_t wall_ms)
{
    return append_8(a, PG_TIMESTAMPTZ, pg_time_from_ms(wall_ms));
}

int pg_array_float8(struct pg_array *a, double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return append_8(a, PG_FLOAT8, bits);
}

const void *pg_array_wire(struct pg_array *a, size_t *out_len)
{
    char *wire = a->bytes.data;
    if (!wire || a->bytes.len < HEADER) { /* not even the header fitted */
        a->bytes.failed = true;
        *out_len = 0;
        return "";
    }
    pg_put_int4(wire, a->count > 0 ? 1 : 0);
    pg_put_int4(wire + 4, a->has_null ? 1 : 0);
    pg_put_int4(wire + 8, (int32_t)OIDS[a->type].oid);
    pg_put_int4(wire + 12, a->count);
    pg_put_int4(wire + 16, 1);
    *out_len = a->count > 0 ? a->bytes.len : EMPTY_HEADER;
    return wire;
}

/* pg_params.c - collects parameters and lays them out for libpq. */
#include "runtime/pg_params.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pg_array.h"

void pg_params_init(struct pg_params *p)
{
    p->count = 0; /* the items are written before they are read */
    p->failed = false;
}

static struct pg_param *add(struct pg_params *p)
{
    static _Thread_local struct pg_param spill; /* swallows what is beyond the limit */
    if (p->count == PG_MAX_PARAMS) {
        p->failed = true;
        return &spill;
    }
    struct pg_param *item = &p->item[p->count++];
    *item = (struct pg_param){.format = 0};
    return item;
}

static void add_small(struct pg_params *p, enum pg_type type, const void *bytes, size_t len)
{
    struct pg_param *item = add(p);
    item->oid = pg_type_oid(type);
    item->format = 1;
    item->small = true;
    item->len = len;
    memcpy(item->bytes, bytes, len);
}

static void add_borrowed(struct pg_params *p, unsigned oid, const void *data, size_t len)
{
    if (len > INT_MAX)
        p->failed = true;
    struct pg_param *item = add(p);
    item->oid = oid;
    item->format = 1;
    item->data = data;
    item->len = len;
}

void pg_params_null(struct pg_params *p)
{
    (void)add(p);
}

void pg_params_text(struct pg_params *p, const char *text)
{
    struct pg_param *item = add(p);
    item->data = text;
    item->len = text ? strlen(text) : 0;
}

void pg_params_textn(struct pg_params *p, const char *text, size_t len)
{
    add_borrowed(p, pg_type_oid(PG_TEXT), text, len);
}

void pg_params_bytes(struct pg_params *p, const void *data, size_t len)
{
    add_borrowed(p, pg_type_oid(PG_BYTEA), data, len);
}

void pg_params_int8(struct pg_params *p, int64_t value)
{
    char wire[8];
    pg_put_int8(wire, value);
    add_small(p, PG_INT8, wire, sizeof wire);
}

void pg_params_int4(struct pg_params *p, int32_t value)
{
    char wire[4];
    pg_put_int4(wire, value);
    add_small(p, PG_INT4, wire, sizeof wire);
}

void pg_params_bool(struct pg_params *p, bool value)
{
    add_small(p, PG_BOOL, value ? "\1" : "\0", 1);
}

void pg_params_time_ms(struct pg_params *p, int64_t wall_ms)
{
    char wire[8];
    pg_put_int8(wire, pg_time_from_ms(wall_ms));
    add_small(p, PG_TIMESTAMPTZ, wire, sizeof wire);
}

void pg_params_uuid(struct pg_params *p, const char *text)
{
    unsigned char wire[16] = {0};
    if (!text) {
        add_borrowed(p, pg_type_oid(PG_UUID), NULL, 0);
        return;
    }
    if (pg_uuid_parse(text, wire) != 0)
        p->failed = true;
    add_small(p, PG_UUID, wire, sizeof wire);
}

void pg_params_array(struct pg_params *p, struct pg_array *a)
{
    size_t len;
    const void *wire = pg_array_wire(a, &len);
    if (a->bytes.failed)
        p->failed = true;
    add_borrowed(p, pg_type_array_oid(a->type), wire, len);
}

struct pg_params *pg_params_dup(const struct pg_params *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->count; i++)
        bytes += p->item[i].data ? p->item[i].len + 1 : 0; /* texts end with a NUL byte */
    struct pg_params *copy = malloc(sizeof *copy + bytes);
    if (!copy)
        return NULL;
    char *at = (char *)(copy + 1);
    copy->count = p->count;
    copy->failed = p->failed;
    for (int i = 0; i < p->count; i++) {
        const struct pg_param *item = &p->item[i];
        copy->item[i] = *item;
        if (!item->data)
            continue;
        memcpy(at, item->data, item->len);
        at[item->len] = '\0';
        copy->item[i].data = at;
        at += item->len + 1;
    }
    return copy;
}

void pg_params_free(struct pg_params *copy)
{
    free(copy);
}

void pg_params_wire(const struct pg_params *p, struct pg_wire *out)
{
    for (int i = 0; i < p->count; i++) {
        const struct pg_param *item = &p->item[i];
        out->oids[i] = item->oid;
        out->values[i] = item->small ? item->bytes : item->data;
        out->lengths[i] = (int)item->len;
        out->formats[i] = item->format;
    }
}

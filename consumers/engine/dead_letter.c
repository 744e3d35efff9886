/* dead_letter.c - key, value, headers and time stay as they were; ours say why and where from. */
#include "consumers/engine/dead_letter.h"

#include <stdio.h>
#include <string.h>

#include "consumers/engine/batch.h"
#include "consumers/engine/engine_sql.h"
#include "events/topics.h"
#include "runtime/kafka.h"
#include "runtime/utf8.h"

enum { MAX_BYTES = 24 << 20, MAX_NAME = 255, MAX_ATTEMPTS = 1000000 };

void dead_letters_init(struct dead_letters *d)
{
    pg_array_init(&d->number, PG_INT4, 1 << 20);
    pg_array_init(&d->topic, PG_TEXT, 1 << 20);
    pg_array_init(&d->key, PG_BYTEA, MAX_BYTES);
    pg_array_init(&d->value, PG_BYTEA, MAX_BYTES);
    pg_array_init(&d->timestamp, PG_INT8, 1 << 20);
    pg_array_init(&d->header_number, PG_INT4, 4 << 20);
    pg_array_init(&d->header_name, PG_TEXT, MAX_BYTES);
    pg_array_init(&d->header_value, PG_BYTEA, MAX_BYTES);
}

void dead_letters_done(struct dead_letters *d)
{
    pg_array_done(&d->number);
    pg_array_done(&d->topic);
    pg_array_done(&d->key);
    pg_array_done(&d->value);
    pg_array_done(&d->timestamp);
    pg_array_done(&d->header_number);
    pg_array_done(&d->header_name);
    pg_array_done(&d->header_value);
}

size_t dead_letters_count(const struct dead_letters *d)
{
    return (size_t)d->number.count;
}

int dead_letter_attempts(const struct kafka_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(headers[i].name, DEAD_LETTER_ATTEMPTS) != 0)
            continue;
        int attempts = 0;
        const char *digits = headers[i].value;
        for (size_t k = 0; k < headers[i].len && attempts < MAX_ATTEMPTS; k++) {
            if (digits[k] < '0' || digits[k] > '9')
                return 0;
            attempts = attempts * 10 + (digits[k] - '0');
        }
        return attempts;
    }
    return 0;
}

static void put_header(struct dead_letters *d, const char *name, const void *value, size_t len)
{
    pg_array_int4(&d->header_number, d->number.count);
    pg_array_text(&d->header_name, name);
    if (value)
        pg_array_bytes(&d->header_value, value, len);
    else
        pg_array_null(&d->header_value);
}

/* The database keeps names as text; a publisher's name may be any bytes. */
static void put_foreign(struct dead_letters *d, const struct kafka_header *h)
{
    char name[MAX_NAME + 1];
    size_t len = strnlen(h->name, MAX_NAME);
    memcpy(name, h->name, len);
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t step = utf8_next(name + i, len - i, &code);
        if (step == 0)
            name[i] = '?';
        i += step ? step : 1;
    }
    name[len] = '\0';
    put_header(d, name, h->value, h->len);
}

static void put_text(struct dead_letters *d, const char *name, const char *text)
{
    put_header(d, name, text, strlen(text));
}

static void put_number(struct dead_letters *d, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_text(d, name, text);
}

static void add_headers(struct dead_letters *d, const struct batch_item *item, const char *group,
                        const char *reason, const char *detail)
{
    struct kafka_header headers[KAFKA_MAX_HEADERS];
    size_t count = kafka_message_headers(&item->message, headers, KAFKA_MAX_HEADERS);
    for (size_t i = 0; i < count; i++)
        if (strncmp(headers[i].name, DEAD_LETTER_PREFIX, strlen(DEAD_LETTER_PREFIX)) != 0)
            put_foreign(d, &headers[i]);
    const struct engine_record *r = &item->record;
    put_text(d, DEAD_LETTER_REASON, reason);
    put_text(d, DEAD_LETTER_DETAIL, detail);
    put_text(d, DEAD_LETTER_TOPIC, r->topic);
    put_number(d, DEAD_LETTER_PARTITION, r->partition);
    put_number(d, DEAD_LETTER_OFFSET, r->offset);
    put_text(d, DEAD_LETTER_GROUP, group);
    put_number(d, DEAD_LETTER_ATTEMPTS, dead_letter_attempts(headers, count) + 1);
    if (r->value_len > DEAD_LETTER_MAX_VALUE)
        put_number(d, DEAD_LETTER_CUT, (int64_t)r->value_len);
}

static void put_bytes(struct pg_array *a, const void *data, size_t len)
{
    if (data)
        pg_array_bytes(a, data, len);
    else
        pg_array_null(a);
}

void dead_letters_add(struct dead_letters *d, const struct batch_item *item, const char *group,
                      const char *reason, const char *detail)
{
    const struct engine_record *r = &item->record;
    char topic[TOPIC_NAME_MAX + 1] = "";
    topic_dlq(r->topic, topic);
    add_headers(d, item, group, reason, detail);
    size_t len = r->value_len > DEAD_LETTER_MAX_VALUE ? DEAD_LETTER_MAX_VALUE : r->value_len;
    pg_array_int4(&d->number, d->number.count);
    pg_array_text(&d->topic, topic);
    put_bytes(&d->key, r->key, r->key_len);
    put_bytes(&d->value, r->value, len);
    if (r->timestamp_ms >= 0)
        pg_array_int8(&d->timestamp, r->timestamp_ms);
    else
        pg_array_null(&d->timestamp);
}

int dead_letters_queue(struct dead_letters *d, struct pg *pg, struct fault *f)
{
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, &d->number);
    pg_params_array(&p, &d->topic);
    pg_params_array(&p, &d->key);
    pg_params_array(&p, &d->value);
    pg_params_array(&p, &d->timestamp);
    pg_params_array(&p, &d->header_number);
    pg_params_array(&p, &d->header_name);
    pg_params_array(&p, &d->header_value);
    return pg_queue(pg, engine_sql(ENGINE_SQL_APPEND_DEAD), &p, f);
}

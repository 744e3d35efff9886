/* json_out.c - the writing half of json.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/json.h"
#include "runtime/utf8.h"

/* One character that cannot stand in a string as it is. */
static void put_escape(struct buf *b, uint32_t code)
{
    static const char SHORT[] = "\"\\\b\f\n\r\t", NAMES[] = "\"\\bfnrt";
    const char *at = code ? strchr(SHORT, (int)code) : NULL;
    if (at)
        (void)buf_printf(b, "\\%c", NAMES[at - SHORT]);
    else
        (void)buf_printf(b, "\\u%04" PRIx32, code);
}

/* Runs of plain characters are copied in one piece; a byte that is no UTF-8 becomes U+FFFD. */
static void put_string(struct buf *b, const char *text, size_t len)
{
    (void)buf_putc(b, '"');
    size_t from = 0, i = 0;
    while (i < len) {
        unsigned char c = (unsigned char)text[i];
        uint32_t code = c;
        size_t n = c < 0x80 ? 1 : utf8_next(text + i, len - i, &code);
        if (n > 0 && c >= 0x20 && c != '"' && c != '\\') {
            i += n;
            continue;
        }
        (void)buf_append(b, text + from, i - from);
        if (n == 0)
            (void)buf_puts(b, "\xef\xbf\xbd");
        else
            put_escape(b, code);
        from = ++i;
    }
    (void)buf_append(b, text + from, len - from);
    (void)buf_putc(b, '"');
}

/* The comma and the key that come before a value. */
static void before_value(struct json_out *j, const char *key)
{
    if (j->depth > 0) {
        if (!j->first[j->depth - 1])
            (void)buf_putc(j->buf, ',');
        j->first[j->depth - 1] = false;
    }
    if (key) {
        put_string(j->buf, key, strlen(key));
        (void)buf_putc(j->buf, ':');
    }
}

static void open_level(struct json_out *j, const char *key, char open, char close)
{
    before_value(j, key);
    (void)buf_putc(j->buf, open);
    if (j->depth == JSON_MAX_DEPTH) {
        j->buf->failed = true;
        return;
    }
    j->first[j->depth] = true;
    j->close[j->depth] = close;
    j->depth++;
}

void json_begin(struct json_out *j, struct buf *b)
{
    j->buf = b;
    j->depth = 0;
}

void json_object(struct json_out *j, const char *key)
{
    open_level(j, key, '{', '}');
}

void json_array(struct json_out *j, const char *key)
{
    open_level(j, key, '[', ']');
}

void json_end(struct json_out *j)
{
    if (j->depth == 0) {
        j->buf->failed = true;
        return;
    }
    (void)buf_putc(j->buf, j->close[--j->depth]);
}

void json_put_strn(struct json_out *j, const char *key, const char *value, size_t len)
{
    before_value(j, key);
    put_string(j->buf, value, len);
}

void json_put_str(struct json_out *j, const char *key, const char *value)
{
    if (value)
        json_put_strn(j, key, value, strlen(value));
    else
        json_put_null(j, key);
}

void json_put_int(struct json_out *j, const char *key, int64_t value)
{
    before_value(j, key);
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do
        digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        digits[--at] = '-';
    (void)buf_append(j->buf, digits + at, sizeof digits - at);
}

void json_put_real(struct json_out *j, const char *key, double value)
{
    if (!isfinite(value)) {
        json_put_null(j, key);
        return;
    }
    char text[40];
    (void)snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        (void)snprintf(text, sizeof text, "%.17g", value);
    json_put_raw(j, key, text, strlen(text));
}

void json_put_bool(struct json_out *j, const char *key, bool value)
{
    json_put_raw(j, key, value ? "true" : "false", value ? 4 : 5);
}

void json_put_null(struct json_out *j, const char *key)
{
    json_put_raw(j, key, "null", 4);
}

void json_put_raw(struct json_out *j, const char *key, const char *json, size_t len)
{
    before_value(j, key);
    (void)buf_append(j->buf, json, len);
}

/* http_query.c - "a=1&b=x%20y" into names and values. */
#include "runtime/http_query.h"

#include <string.h>

#include "runtime/fault.h"
#include "runtime/http_path.h"
#include "runtime/utf8.h"

/* Decodes a C string in place. */
static int decode(char *text)
{
    size_t len = strlen(text), out = 0;
    for (size_t in = 0; in < len; in++) {
        char c = text[in];
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            int value = http_path_escape(text + in); /* the NUL stops it at the end */
            if (value <= 0)
                return RC_REJECT;
            c = (char)value;
            in += 2;
        }
        text[out++] = c;
    }
    text[out] = '\0';
    return utf8_valid(text, out) ? 0 : RC_REJECT;
}

int http_query_decode(char *text, struct http_pair *pairs, size_t max, size_t *out_count)
{
    size_t count = 0;
    while (text && *text) {
        char *next = strchr(text, '&');
        if (next)
            *next++ = '\0';
        if (*text) {
            char *value = strchr(text, '=');
            if (value)
                *value++ = '\0';
            else
                value = text + strlen(text);
            if (count == max || decode(text) != 0 || decode(value) != 0)
                return RC_REJECT;
            pairs[count++] = (struct http_pair){text, value};
        }
        text = next;
    }
    *out_count = count;
    return 0;
}

const char *http_query_find(const struct http_pair *pairs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].name, name) == 0)
            return pairs[i].value;
    return NULL;
}

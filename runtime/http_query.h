/* http_query.h - "a=1&b=x%20y" into names and values. */
#ifndef HTTP_QUERY_H
#define HTTP_QUERY_H
#include <stddef.h>

struct http_pair {
    const char *name;
    const char *value;
};

/* Decodes text (a C string) in place, once; '+' is a blank; a name without '=' has the value "".
 * Returns 0, or RC_REJECT with *out_count untouched: a broken escape, a NUL, bytes that are not
 * UTF-8, more than `max` pairs. The pairs point into text. */
int http_query_decode(char *text, struct http_pair *pairs, size_t max, size_t *out_count);

/* The value of the first pair of that name, or NULL. */
const char *http_query_find(const struct http_pair *pairs, size_t count, const char *name);

#endif

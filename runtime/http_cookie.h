/* http_cookie.h - the Cookie header into names and values (RFC 6265, without guessing). */
#ifndef HTTP_COOKIE_H
#define HTTP_COOKIE_H
#include <stddef.h>

#include "runtime/http_query.h"

/* Splits text (a C string, e.g. `a=1; b="2"`) in place and returns the number of pairs, at most
 * `max`. Values are not decoded; one pair of quotes around a value is taken off. What is not a
 * well-formed pair (no '=', a name that is no token, a byte a value may not hold) is left out. */
size_t http_cookie_split(char *text, struct http_pair *pairs, size_t max);

#endif

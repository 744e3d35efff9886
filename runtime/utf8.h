/* utf8.h - well-formed UTF-8, as RFC 3629 has it: no overlong forms, no surrogates. */
#ifndef UTF8_H
#define UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length (1-4) of the sequence at p, of which `left` bytes may be read, and its code point; 0
 * when it is not well-formed or left is 0, with *out untouched. */
size_t utf8_next(const char *p, size_t left, uint32_t *out);

bool utf8_valid(const char *text, size_t len);

/* The longest prefix of at most `max` bytes that does not cut a sequence in two. */
size_t utf8_prefix(const char *text, size_t len, size_t max);

#endif

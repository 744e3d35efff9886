/* utf8.c - checks UTF-8 one sequence at a time. */
#include "runtime/utf8.h"

/* What the first byte promises: how many bytes follow, and the smallest code point that needs them.
 */
static size_t followers(unsigned char first, uint32_t *out_bits, uint32_t *out_least)
{
    if (first >= 0xc2 && first <= 0xdf) {
        *out_bits = first & 0x1fU;
        *out_least = 0x80;
        return 1;
    }
    if (first >= 0xe0 && first <= 0xef) {
        *out_bits = first & 0x0fU;
        *out_least = 0x800;
        return 2;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        *out_bits = first & 0x07U;
        *out_least = 0x10000;
        return 3;
    }
    return 0;
}

size_t utf8_next(const char *p, size_t left, uint32_t *out)
{
    if (left == 0)
        return 0;
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80) {
        *out = u[0];
        return 1;
    }
    uint32_t code = 0, least = 0;
    size_t more = followers(u[0], &code, &least);
    if (more == 0 || more >= left)
        return 0;
    for (size_t i = 1; i <= more; i++) {
        if ((u[i] & 0xc0U) != 0x80U)
            return 0;
        code = code << 6 | (u[i] & 0x3fU);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *out = code;
    return more + 1;
}

bool utf8_valid(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t n = utf8_next(text + i, len - i, &code);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

size_t utf8_prefix(const char *text, size_t len, size_t max)
{
    if (len <= max)
        return len;
    size_t end = max;
    while (end > 0 && ((unsigned char)text[end] & 0xc0U) == 0x80U)
        end--;
    return end;
}

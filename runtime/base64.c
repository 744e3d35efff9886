/* base64.c - Base64 by arithmetic, three bytes at a time. */
#include "runtime/base64.h"

#include <stdbool.h>
#include <stdint.h>

#include "runtime/fault.h"

static int digit(char c, bool url)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (url ? '-' : '+'))
        return 62;
    return c == (url ? '_' : '/') ? 63 : -1;
}

static int decode(const char *text, size_t len, bool url, unsigned char *out, size_t cap,
                  size_t *out_len)
{
    size_t bytes = len / 4 * 3 + (len % 4 ? len % 4 - 1 : 0);
    if (len % 4 == 1 || bytes > cap)
        return RC_REJECT;
    uint32_t bits = 0;
    unsigned have = 0;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int d = digit(text[i], url);
        if (d < 0)
            return RC_REJECT;
        bits = bits << 6 | (uint32_t)d;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[n++] = (unsigned char)(bits >> have);
            bits &= (1U << have) - 1;
        }
    }
    if (url && bits != 0)
        return RC_REJECT;
    *out_len = n;
    return 0;
}

int base64_decode(const char *text, size_t len, void *out, size_t cap, size_t *out_len)
{
    if (len > 0 && len % 4 == 0 && text[len - 1] == '=') {
        len--;
        if (text[len - 1] == '=')
            len--;
    }
    return decode(text, len, false, out, cap, out_len);
}

int base64_url_decode(const char *text, size_t len, void *out, size_t cap, size_t *out_len)
{
    return decode(text, len, true, out, cap, out_len);
}

void base64_url_encode(const void *data, size_t len, char *out)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const unsigned char *in = data;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | in[i];
        have += 8;
        while (have >= 6) {
            have -= 6;
            *out++ = DIGITS[bits >> have & 63];
        }
        bits &= (1U << have) - 1;
    }
    if (have > 0)
        *out++ = DIGITS[bits << (6 - have) & 63];
    *out = '\0';
}

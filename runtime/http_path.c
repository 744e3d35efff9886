/* http_path.c - a request target's path, decoded once. */
#include "runtime/http_path.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/utf8.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int http_path_escape(const char *p)
{
    int high = p[0] == '%' ? hex(p[1]) : -1;
    int low = high >= 0 ? hex(p[2]) : -1;
    return low >= 0 ? high * 16 + low : -1;
}

static bool refused(unsigned char c)
{
    return c < 0x20 || c == 0x7f || c == '\\' || c == ';' || c == '#' || c == '?';
}

/* No empty, "." or ".." segment; one trailing slash is fine. */
static bool segments_ok(const char *path, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (path[i] != '/')
            continue;
        const char *s = path + i + 1;
        size_t n = 0;
        while (i + 1 + n < len && s[n] != '/')
            n++;
        if (n == 0 && i + 1 < len)
            return false;
        if ((n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
            return false;
    }
    return true;
}

size_t http_path_decode(char *path, size_t len)
{
    if (len == 0 || path[0] != '/')
        return 0;
    size_t out = 0;
    bool high = false;
    for (size_t in = 0; in < len; in++) {
        unsigned char c = (unsigned char)path[in];
        if (c == '%') {
            int value = len - in < 3 ? -1 : http_path_escape(path + in);
            if (value < 0 || value == '/')
                return 0;
            c = (unsigned char)value;
            in += 2;
            if (c == '%' && len - in > 2 && hex(path[in + 1]) >= 0 && hex(path[in + 2]) >= 0)
                return 0; /* encoded twice */
        }
        if (refused(c))
            return 0;
        high = high || c >= 0x80;
        path[out++] = (char)c;
    }
    path[out] = '\0';
    if (!segments_ok(path, out) || (high && !utf8_valid(path, out)))
        return 0;
    return out;
}

/* redis_url.c - reads a Redis URL without ever repeating its password. */
#include "runtime/redis_url.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "runtime/fault.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    int lower = tolower((unsigned char)c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Decodes [from, end) into out of `size` bytes. A NUL, a bad escape or too much text: false. */
static bool decode(const char *from, const char *end, char *out, size_t size)
{
    size_t n = 0;
    while (from < end) {
        int c = (unsigned char)*from++;
        if (c == '%') {
            if (end - from < 2 || hex(from[0]) < 0 || hex(from[1]) < 0)
                return false;
            c = hex(from[0]) * 16 + hex(from[1]);
            from += 2;
        }
        if (c == 0 || n + 1 >= size)
            return false;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return true;
}

/* The first c in [from, end), or end. */
static const char *find(const char *from, const char *end, char c)
{
    while (from < end && *from != c)
        from++;
    return from;
}

/* Digits only, at most `max`; an empty text keeps the value. */
static bool number(const char *from, const char *end, uint32_t max, uint16_t *value)
{
    uint32_t n = 0;
    if (from == end)
        return true;
    for (; from < end; from++) {
        if (*from < '0' || *from > '9')
            return false;
        n = n * 10 + (uint32_t)(*from - '0');
        if (n > max)
            return false;
    }
    *value = (uint16_t)n;
    return true;
}

static bool credentials(const char *from, const char *at, struct redis_url *u)
{
    const char *colon = find(from, at, ':');
    if (colon == at) /* redis://password@host would be ambiguous: a user alone cannot log in */
        return false;
    return decode(from, colon, u->user, sizeof u->user) &&
           decode(colon + 1, at, u->password, sizeof u->password);
}

/* host, host:port or [v6]:port */
static bool address(const char *from, const char *end, struct redis_url *u)
{
    const char *host_end;
    if (from < end && *from == '[') {
        from++;
        host_end = find(from, end, ']');
        if (host_end == end || (host_end + 1 < end && host_end[1] != ':'))
            return false;
    } else {
        host_end = find(from, end, ':');
    }
    const char *port = host_end;
    if (port < end && *port == ']')
        port++;
    if (port < end)
        port++;
    return host_end > from && decode(from, host_end, u->host, sizeof u->host) &&
           number(port, end, 65535, &u->port) && u->port != 0;
}

int redis_url_parse(const char *text, struct redis_url *out, struct fault *f)
{
    static const char scheme[] = "redis://";
    if (strncasecmp(text, "rediss://", 9) == 0)
        return fault_set(f, RC_REJECT,
                         "rediss:// is not supported: hiredis 0.14 has no TLS; use redis:// on a "
                         "private network or through a TLS tunnel");
    if (strncasecmp(text, scheme, sizeof scheme - 1) != 0)
        return fault_set(f, RC_REJECT, "a Redis URL begins with redis://");
    struct redis_url u = {.port = 6379};
    const char *from = text + sizeof scheme - 1;
    const char *end = from + strcspn(from, "/?#");
    const char *at = end;
    while (at > from && *at != '@')
        at--;
    bool login = *at == '@';
    if (login && !credentials(from, at, &u))
        return fault_set(f, RC_REJECT,
                         "the Redis URL's credentials are not [user]:password, percent-encoded");
    if (!address(login ? at + 1 : from, end, &u))
        return fault_set(f, RC_REJECT, "the Redis URL's address is not host[:port]");
    const char *db = *end == '/' ? end + 1 : end;
    if (!number(db, db + strlen(db), 9999, &u.db))
        return fault_set(f, RC_REJECT, "the Redis URL ends with something else than /database");
    *out = u;
    return 0;
}

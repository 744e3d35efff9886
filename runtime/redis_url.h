/* redis_url.h - redis://[[user]:password@]host[:port][/db]. */
#ifndef REDIS_URL_H
#define REDIS_URL_H
#include <stdint.h>

struct fault;

struct redis_url {
    char host[256]; /* without the brackets of an IPv6 address */
    uint16_t port;  /* 6379 unless given */
    uint16_t db;    /* 0 unless given */
    char user[128]; /* "" unless given */
    char password[512];
};

/* User and password are percent-decoded. RC_REJECT with *out untouched; the text never holds any
 * part of the URL but its scheme. rediss:// is refused: hiredis 0.14 has no TLS. */
int redis_url_parse(const char *text, struct redis_url *out, struct fault *f);

#endif

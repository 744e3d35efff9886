/* redis_ask.c - hiredis' blocking calls, with plain words for what fails. */
#include "cli/redis_ask.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>

#include "runtime/fault.h"
#include "runtime/redis_url.h"

enum { PATIENCE_S = 5 };

redisReply *redis_ask(redisContext *c, struct fault *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(c, format, args);
    va_end(args);
    if (!reply) {
        (void)fault_set(f, RC_RETRY, "Redis: %s", c->errstr);
        return NULL;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        (void)fault_set(f, RC_REJECT, "Redis: %s", reply->str);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

static int sign_in(redisContext *c, const struct redis_url *url, struct fault *f)
{
    redisReply *reply = NULL;
    if (url->password[0]) {
        reply = url->user[0] ? redis_ask(c, f, "AUTH %s %s", url->user, url->password)
                             : redis_ask(c, f, "AUTH %s", url->password);
        if (!reply)
            return f->rc;
        freeReplyObject(reply);
    }
    reply = redis_ask(c, f, "SELECT %d", (int)url->db);
    if (!reply)
        return f->rc;
    freeReplyObject(reply);
    return 0;
}

int redis_ask_open(const char *text, redisContext **out, struct fault *f)
{
    struct redis_url url;
    int rc = redis_url_parse(text, &url, f);
    if (rc != 0)
        return rc;
    struct timeval patience = {PATIENCE_S, 0};
    redisContext *c = redisConnectWithTimeout(url.host, url.port, patience);
    if (!c || c->err) {
        rc = fault_set(f, RC_RETRY, "Redis at %.100s:%u: %s", url.host, (unsigned)url.port,
                       c ? c->errstr : "no memory");
    } else {
        (void)redisSetTimeout(c, patience);
        rc = sign_in(c, &url, f);
    }
    if (rc != 0) {
        if (c)
            redisFree(c);
        return rc;
    }
    *out = c;
    return 0;
}

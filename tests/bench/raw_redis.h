/* raw_redis.h - Redis without runtime/redis: the limit that the benchmarks are held against. */
#ifndef RAW_REDIS_H
#define RAW_REDIS_H
#include <stdbool.h>
#include <stdio.h>

#include <hiredis/hiredis.h>

#include "runtime/fault.h"
#include "runtime/redis_url.h"

/* NULL: no server there. */
static inline redisContext *raw_connection(const char *text)
{
    struct redis_url url;
    struct fault f = {0};
    if (redis_url_parse(text, &url, &f) != 0)
        return NULL;
    redisContext *c = redisConnect(url.host, url.port);
    if (c && c->err) {
        redisFree(c);
        return NULL;
    }
    return c;
}

/* False: the connection is gone, or an answer was an error, which is printed. */
static inline bool take_replies(redisContext *c, int n)
{
    for (int i = 0; i < n; i++) {
        void *reply = NULL;
        if (redisGetReply(c, &reply) != REDIS_OK)
            return false;
        const redisReply *r = reply;
        bool good = r->type != REDIS_REPLY_ERROR;
        if (!good)
            (void)fprintf(stderr, "%s\n", r->str);
        freeReplyObject(reply);
        if (!good)
            return false;
    }
    return true;
}

#endif

/* redis_reply.c - reading what Redis answered. */
#include <errno.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "runtime/redis.h"

bool redis_reply_int(const struct redisReply *reply, int64_t *out)
{
    if (!reply)
        return false;
    if (reply->type == REDIS_REPLY_INTEGER) {
        *out = reply->integer;
        return true;
    }
    if (reply->type != REDIS_REPLY_STRING || reply->len == 0)
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(reply->str, &end, 10);
    if (errno || end != reply->str + reply->len || reply->str[0] == ' ')
        return false;
    *out = value;
    return true;
}

const char *redis_reply_str(const struct redisReply *reply, size_t *out_len)
{
    if (!reply || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS))
        return NULL;
    if (out_len)
        *out_len = reply->len;
    return reply->str;
}

bool redis_reply_is_nil(const struct redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_NIL;
}

size_t redis_reply_count(const struct redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
}

const struct redisReply *redis_reply_at(const struct redisReply *reply, size_t i)
{
    return i < redis_reply_count(reply) ? reply->element[i] : NULL;
}

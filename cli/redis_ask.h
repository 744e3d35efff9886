/* redis_ask.h - Redis for a tool: one command, one answer, with a time-out. */
#ifndef REDIS_ASK_H
#define REDIS_ASK_H
#include <hiredis/hiredis.h>

struct fault;

/* Connects, signs in, selects the database. RC_RETRY: not reachable now; RC_REJECT: a bad URL or
 * password. Free with redisFree(). */
int redis_ask_open(const char *url, redisContext **out, struct fault *f);

/* NULL: the connection is lost, or Redis answered with an error; *f says why. Free with
 * freeReplyObject(). */
redisReply *redis_ask(redisContext *c, struct fault *f, const char *format, ...);

#endif

/* room_bench.c - a waiting room's Redis without the daemon: filled, and asked through a raw pipe.
 *
 *   room_bench fill URL EVENT MEMBERS         so many wait; who was there before is gone
 *   room_bench pipe URL EVENT MEMBERS SECONDS the limit: poll.lua through one pipelined connection
 *
 * The members are bench-0, bench-1 …; the event must exist (urrctl queue register). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "raw_redis.h"
#include "room_scripts.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/redis.h"
#include "runtime/redis_url.h"

enum { OUTSTANDING = 256, BATCH = 1000, STRIDE = 7919, LATER_MS = 3600000 };
#define TWO33 (INT64_C(1) << 33)

static int die(const char *what)
{
    (void)fprintf(stderr, "room_bench: %s\n", what);
    return 1;
}

/* The answer's text, to be freed; NULL: none. */
static char *ask(redisContext *c, const char *command, const char *event)
{
    redisReply *r = redisCommand(c, command, event);
    char *text = r && r->str ? strdup(r->str) : NULL;
    freeReplyObject(r);
    return text;
}

/* As visit.lua leaves a member: queue, seen (later, so that the clean-up leaves them), pos-owner.
 */
static int fill(redisContext *c, const char *event, int64_t members)
{
    char *epoch_text = ask(c, "HGET {%s}:state epoch", event);
    if (!epoch_text)
        return die("there is no such event");
    int64_t epoch = strtoll(epoch_text, NULL, 10), seen = clock_wall_ms() + LATER_MS;
    bool good = true;
    free(epoch_text);
    for (const char *const *key =
             (const char *const[]){"queue", "seen", "pos-owner", "active", "active-seen",
                                   "active-place", "unclaimed", NULL};
         *key; key++)
        (void)redisAppendCommand(c, "DEL {%s}:%s", event, *key);
    good = take_replies(c, 7);
    for (int64_t i = 0; good && i < members;) {
        int sent = 0;
        for (; sent < 3 * BATCH && i < members; sent += 3, i++) {
            int64_t score = epoch * TWO33 + i + 1;
            (void)redisAppendCommand(c, "ZADD {%s}:queue %" PRId64 " bench-%" PRId64, event, score,
                                     i);
            (void)redisAppendCommand(c, "ZADD {%s}:seen %" PRId64 " bench-%" PRId64, event, seen,
                                     i);
            (void)redisAppendCommand(c, "HSET {%s}:pos-owner %" PRId64 " qbench-%" PRId64, event,
                                     score, i);
        }
        good = take_replies(c, sent);
    }
    (void)redisAppendCommand(c, "SET {%s}:seq %" PRId64, event, members);
    (void)redisAppendCommand(c, "SADD queue:active-events %s", event);
    return good && take_replies(c, 2) ? 0 : die("cannot fill the queue");
}

static int pipe_limit(redisContext *c, const char *event, int64_t members, int seconds)
{
    struct redis_script script;
    struct fault f = {0};
    char *run_id = ask(c, "HGET {%s}:state runId", event);
    if (!run_id || redis_script_load(&script, room_scripts, "poll.lua", &f) != 0)
        return die("cannot start the raw pipe");
    (void)redisAppendCommand(c, "SCRIPT LOAD %b", script.source, script.len);
    bool good = take_replies(c, 1);
    int64_t next = 0, done = 0, start_us = clock_mono_us(), now_us = start_us;
    /* Half a window is taken while the other half is under way: the server never waits. */
    for (int waiting = 0; good && now_us - start_us < seconds * INT64_C(1000000);
         now_us = clock_mono_us()) {
        for (; waiting < OUTSTANDING; waiting++, next += STRIDE)
            (void)redisAppendCommand(
                c,
                "EVALSHA %s 6 {%s}:state {%s}:active {%s}:queue {%s}:seen {%s}:active-seen "
                "{%s}:unclaimed %s 0 0 bench-%" PRId64 " 0",
                script.sha1, event, event, event, event, event, event, run_id, next % members);
        good = take_replies(c, OUTSTANDING / 2);
        waiting -= OUTSTANDING / 2;
        done += OUTSTANDING / 2;
    }
    free(run_id);
    if (!good)
        return die("the raw pipe broke");
    (void)printf("%.0f\n", (double)done * 1e6 / (double)(now_us - start_us));
    return 0;
}

int main(int argc, char **argv)
{
    int64_t members = argc > 4 ? strtoll(argv[4], NULL, 10) : 0;
    bool fills = argc == 5 && strcmp(argv[1], "fill") == 0;
    bool pipes = argc == 6 && strcmp(argv[1], "pipe") == 0;
    if ((!fills && !pipes) || members <= 0)
        return die("usage: fill URL EVENT MEMBERS | pipe URL EVENT MEMBERS SECONDS");
    redisContext *c = raw_connection(argv[2]);
    if (!c)
        return die("cannot connect to Redis");
    int code = fills ? fill(c, argv[3], members) : pipe_limit(c, argv[3], members, atoi(argv[5]));
    redisFree(c);
    return code;
}

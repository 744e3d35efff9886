/* redis_bench.c - the two sides of the `redis` benchmark; tests/bench/redis runs them.
 *
 *   redis_bench fill URL MEMBERS           puts that many members into the queue
 *   redis_bench pipe URL MEMBERS SECONDS   the limit: the script through one raw pipelined
 * connection redis_bench serve URL MEMBERS PORT     GET /poll → the script → JSON, until it is
 * killed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "raw_redis.h"
#include "bench_scripts.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/json.h"
#include "runtime/loop.h"
#include "runtime/redis.h"
#include "runtime/redis_url.h"

enum { OUTSTANDING = 256, FILL_BATCH = 1000, POLL_TIMEOUT_MS = 3000 };

static const char QUEUE[] = "{bench}:queue";
static const char SEEN[] = "{bench}:seen";

struct poller {
    struct redis *redis;
    struct redis_script script;
    uint64_t members;
    uint64_t next;
};

static int die(const char *what)
{
    (void)fprintf(stderr, "redis_bench: %s\n", what);
    return 1;
}

/* Strides through the members by a number prime to any count in use: every poll hits another one.
 */
static uint64_t next_member(uint64_t *next, uint64_t members)
{
    *next += 7919;
    return *next % members;
}

static int fill(const char *url, uint64_t members)
{
    redisContext *c = raw_connection(url);
    bool good = c != NULL;
    for (uint64_t i = 0; good && i < members;) {
        int batch = 0;
        for (; batch < FILL_BATCH && i < members; batch++, i++)
            (void)redisAppendCommand(c, "ZADD %s %" PRIu64 " user-%08" PRIu64, QUEUE, i, i);
        good = take_replies(c, batch);
    }
    if (c)
        redisFree(c);
    return good ? 0 : die("cannot fill the queue");
}

static int pipe_limit(const char *url, uint64_t members, int seconds)
{
    struct redis_script script;
    struct fault f = {0};
    redisContext *c = raw_connection(url);
    if (!c || redis_script_load(&script, bench_scripts, "poll.lua", &f) != 0)
        return die("cannot start the raw pipe");
    (void)redisAppendCommand(c, "SCRIPT LOAD %b", script.source, script.len);
    bool good = take_replies(c, 1);
    uint64_t next = 0;
    int64_t done = 0;
    int64_t start_us = clock_mono_us();
    int64_t now_us = start_us;
    /* Half a window is taken while the other half is under way, so that the server never waits. */
    for (int waiting = 0; good && now_us - start_us < seconds * INT64_C(1000000);
         now_us = clock_mono_us()) {
        for (; waiting < OUTSTANDING; waiting++)
            (void)redisAppendCommand(c, "EVALSHA %s 2 %s %s user-%08" PRIu64 " %" PRId64,
                                     script.sha1, QUEUE, SEEN, next_member(&next, members),
                                     now_us / 1000);
        good = take_replies(c, OUTSTANDING / 2);
        waiting -= OUTSTANDING / 2;
        done += OUTSTANDING / 2;
    }
    redisFree(c);
    if (!good)
        return die("the raw pipe broke");
    (void)printf("%.0f\n", (double)done * 1e6 / (double)(now_us - start_us));
    return 0;
}

static void on_polled(const struct redis_result *res, void *arg)
{
    struct http_request *req = arg;
    int64_t rank = 0;
    int64_t length = 0;
    if (res->rc != 0 || !redis_reply_int(redis_reply_at(res->reply, 0), &rank) ||
        !redis_reply_int(redis_reply_at(res->reply, 1), &length)) {
        http_error(req, 503, "REDIS_AWAY", res->text);
        return;
    }
    struct buf body;
    struct json_out j;
    buf_init(&body, 256);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_int(&j, "position", rank + 1);
    json_put_int(&j, "length", length);
    json_end(&j);
    http_respond_json(req, 200, &body);
    buf_done(&body);
}

static void on_poll(struct http_request *req, void *arg)
{
    struct poller *p = arg;
    struct fault f = {0};
    char member[32];
    (void)snprintf(member, sizeof member, "user-%08" PRIu64, next_member(&p->next, p->members));
    int rc = redis_eval(p->redis, &p->script, QUEUE, REDIS_KEYS(REDIS_STR(QUEUE), REDIS_STR(SEEN)),
                        REDIS_ARGS(REDIS_STR(member), REDIS_INT(clock_wall_ms())), POLL_TIMEOUT_MS,
                        on_polled, req, &f);
    if (rc)
        http_error(req, 503, "REDIS_AWAY", f.text);
}

static const struct http_route ROUTES[] = {{HTTP_GET, "/poll", on_poll, NULL},
                                           {HTTP_GET, NULL, NULL, NULL}};
static const struct http_route *const TABLES[] = {ROUTES, NULL};

static int serve(const char *url, uint64_t members, uint16_t port)
{
    struct fault f = {0};
    struct loop *l = NULL;
    struct http_server *server = NULL;
    struct poller p = {.members = members};
    const struct redis_options redis_options = {.url = url};
    const struct http_server_options http_options = {
        .address = "127.0.0.1", .port = port, .routes = TABLES, .arg = &p};
    if (redis_script_load(&p.script, bench_scripts, "poll.lua", &f) != 0 || loop_new(&l, &f) != 0 ||
        redis_open(l, &redis_options, &p.redis, &f) != 0 ||
        http_server_open(l, &http_options, &server, &f) != 0 || loop_run(l, &f) != 0)
        return die(f.text);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t members = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    int last = argc > 4 ? atoi(argv[4]) : 0;
    if (argc == 4 && members && strcmp(argv[1], "fill") == 0)
        return fill(argv[2], members);
    if (argc == 5 && members && last > 0 && strcmp(argv[1], "pipe") == 0)
        return pipe_limit(argv[2], members, last);
    if (argc == 5 && members && last > 0 && last < 65536 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], members, (uint16_t)last);
    return die("usage: fill URL MEMBERS | pipe URL MEMBERS SECONDS | serve URL MEMBERS PORT");
}

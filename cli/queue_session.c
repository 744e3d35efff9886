/* queue_session.c - a loop that runs until the one answer is there. */
#include "cli/queue_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/redis.h"

enum { COMMAND_MS = 10000, CONNECT_MS = 5000 };

const struct config_item QUEUE_SESSION_SETTINGS[] = {
    {"REDIS_URL", CONFIG_URL, "redis://127.0.0.1:6379/0", 0, 0, "redis",
     "The Redis that keeps the waiting rooms.", 0},
    {"QUEUE_THRESHOLD", CONFIG_INT, "1000", 0, 10000000, NULL,
     "How many may be inside an event that does not say so itself, as the daemons have it.", 0},
    {"QUEUE_RESTORE_SECONDS", CONFIG_INT, "30", 1, 3600, NULL,
     "Restore time after a loss, as the daemons have it; s.", 0},
    {NULL, CONFIG_STRING, NULL, 0, 0, NULL, NULL, 0},
};
static const struct config_item *const TABLES[] = {QUEUE_SESSION_SETTINGS, NULL};

struct queue_session {
    const struct cli *cli;
    struct config *config;
    struct loop *loop;
    struct redis *redis;
    struct room *room;
    bool done;
    int rc;
    char text[192];
    queue_reply_fn fn;
    void *arg;
    struct room_view view;
    char closed_reason[ROOM_TEXT_MAX + 1], title[ROOM_TEXT_MAX + 1], artist[ROOM_TEXT_MAX + 1];
};

int queue_session_open(const struct cli *cli, struct queue_session **out)
{
    struct queue_session *s = calloc(1, sizeof *s);
    struct fault f = {0};
    if (!s)
        return cli_fail(cli, CLI_FAILED, "no memory");
    s->cli = cli;
    int code = cli_settings(cli, TABLES, &s->config);
    if (code != CLI_OK) {
        queue_session_close(s);
        return code;
    }
    struct room_rules rules = ROOM_RULES;
    rules.threshold = config_int(s->config, "QUEUE_THRESHOLD");
    rules.restore_ms = config_int(s->config, "QUEUE_RESTORE_SECONDS") * 1000;
    rules.call_timeout_ms = CONNECT_MS;
    const struct redis_options options = {.url = config_str(s->config, "REDIS_URL")};
    if (loop_new(&s->loop, &f) != 0 || redis_open(s->loop, &options, &s->redis, &f) != 0 ||
        room_new(s->redis, &rules, &s->room, &f) != 0) {
        queue_session_close(s);
        return cli_fail(cli, CLI_FAILED, "%s", f.text);
    }
    *out = s;
    return CLI_OK;
}

void queue_session_close(struct queue_session *s)
{
    if (!s)
        return;
    redis_close(s->redis);
    room_free(s->room);
    loop_free(s->loop);
    config_free(s->config);
    free(s);
}

struct room *queue_session_room(struct queue_session *s)
{
    return s->room;
}

void queue_session_done(struct queue_session *s, int rc, const char *text)
{
    s->done = true;
    s->rc = rc;
    (void)snprintf(s->text, sizeof s->text, "%s", text ? text : "");
    loop_stop(s->loop);
}

int queue_session_wait(struct queue_session *s, int rc, const char *text)
{
    struct fault f = {0};
    if (rc)
        return cli_fail(s->cli, rc == RC_REJECT ? CLI_USAGE : cli_code(rc), "%s", text);
    s->done = false;
    while (!s->done)
        if (loop_run(s->loop, &f) != 0)
            return cli_fail(s->cli, CLI_FAILED, "%s", f.text);
    return s->rc ? cli_fail(s->cli, cli_code(s->rc), "Redis: %s", s->text) : CLI_OK;
}

static void on_command(const struct redis_result *res, void *arg)
{
    struct queue_session *s = arg;
    if (res->rc == 0)
        s->fn(res->reply, s->arg);
    queue_session_done(s, res->rc, res->text);
}

int queue_session_command(struct queue_session *s, const struct redis_arg *args, queue_reply_fn fn,
                          void *arg)
{
    struct fault f = {0};
    s->fn = fn;
    s->arg = arg;
    int rc = redis_command(s->redis, NULL, args, COMMAND_MS, on_command, s, &f);
    return queue_session_wait(s, rc, f.text);
}

static const char *keep(char *into, const char *text)
{
    (void)snprintf(into, ROOM_TEXT_MAX + 1, "%s", text ? text : "");
    return into;
}

static void on_view(const struct room_view *v, void *arg)
{
    struct queue_session *s = arg;
    s->view = *v;
    s->view.closed_reason = keep(s->closed_reason, v->closed_reason);
    s->view.title = keep(s->title, v->title);
    s->view.artist = keep(s->artist, v->artist);
    queue_session_done(s, v->rc, v->text);
}

int queue_session_look(struct queue_session *s, const char *event, struct room_view *out)
{
    struct fault f = {0};
    int rc = room_look(s->room, event, on_view, s, &f);
    int code = queue_session_wait(s, rc, f.text);
    if (code == CLI_OK)
        *out = s->view;
    return code;
}

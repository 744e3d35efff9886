/* cmd_queue.c - urrctl queue: looks into the waiting rooms. What changes something is in
 * queue_change.c, the audit in queue_audit.c. */
#include "cli/cmd_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/queue_session.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/config.h"
#include "runtime/json.h"
#include "runtime/redis.h"

enum { MAX_EVENTS = 10000, MAX_JSON = 8 << 20, SCAN_COUNT = 1000 };

static const struct config_item *const TABLES[] = {QUEUE_SESSION_SETTINGS, NULL};

/* Events ----------------------------------------------------------------------------------------
 */

struct events {
    char (*names)[ROOM_EVENT_MAX + 1];
    size_t count;
    char cursor[24];
    bool full;
};

/* "{E}:state" → E; false for any other key. */
static bool event_of_key(const char *key, size_t len, char out[ROOM_EVENT_MAX + 1])
{
    static const char TAIL[] = "}:state";
    size_t tail = sizeof TAIL - 1;
    if (len < tail + 2 || len - tail - 1 > ROOM_EVENT_MAX || key[0] != '{' ||
        memcmp(key + len - tail, TAIL, tail) != 0)
        return false;
    memcpy(out, key + 1, len - tail - 1);
    out[len - tail - 1] = '\0';
    return room_event_ok(out);
}

static void on_scan(const struct redisReply *reply, void *arg)
{
    struct events *e = arg;
    const char *cursor = redis_reply_str(redis_reply_at(reply, 0), NULL);
    const struct redisReply *keys = redis_reply_at(reply, 1);
    (void)snprintf(e->cursor, sizeof e->cursor, "%s", cursor ? cursor : "0");
    for (size_t i = 0; i < redis_reply_count(keys); i++) {
        size_t len = 0;
        const char *key = redis_reply_str(redis_reply_at(keys, i), &len);
        e->full = e->count == MAX_EVENTS;
        if (key && !e->full && event_of_key(key, len, e->names[e->count]))
            e->count++;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int list_events(struct queue_session *s, struct events *e)
{
    int code = CLI_OK;
    (void)snprintf(e->cursor, sizeof e->cursor, "0");
    do {
        code = queue_session_command(s,
                                     REDIS_ARGS(REDIS_STR("SCAN"), REDIS_STR(e->cursor),
                                                REDIS_STR("MATCH"), REDIS_STR("{*}:state"),
                                                REDIS_STR("COUNT"), REDIS_INT(SCAN_COUNT)),
                                     on_scan, e);
    } while (code == CLI_OK && strcmp(e->cursor, "0") != 0 && !e->full);
    qsort(e->names, e->count, sizeof e->names[0], by_name);
    size_t kept = 0; /* SCAN may name one twice */
    for (size_t i = 0; i < e->count; i++)
        if (kept == 0 || strcmp(e->names[kept - 1], e->names[i]) != 0)
            memmove(e->names[kept++], e->names[i], sizeof e->names[0]);
    e->count = kept;
    return code;
}

static const char *state_word(const struct room_view *v)
{
    return v->closed_reason[0] ? "closed"
           : v->restoring      ? "restoring"
           : v->paused         ? "paused"
                               : "open";
}

static void put_view(struct json_out *j, const char *event, const struct room_view *v)
{
    json_object(j, NULL);
    json_put_str(j, "eventId", event);
    json_put_str(j, "title", v->title[0] ? v->title : "Unknown");
    json_put_str(j, "artist", v->artist);
    json_put_str(j, "state", state_word(v));
    if (v->closed_reason[0])
        json_put_str(j, "closedReason", v->closed_reason);
    if (v->opens_at_ms > 0)
        json_put_int(j, "opensAtMs", v->opens_at_ms);
    json_put_bool(j, "registered", v->registered);
    json_put_int(j, "queueSize", v->queue_size);
    json_put_int(j, "parked", v->parked);
    json_put_int(j, "currentUsers", v->active);
    json_put_int(j, "threshold", v->threshold);
    json_put_int(j, "admittedLastMinute", v->admitted_last_minute);
    json_put_bool(j, "roomActive", v->room_active);
    json_put_int(j, "serving", v->serving);
    json_put_int(j, "lastNumber", v->last_number);
    json_put_int(j, "epoch", v->epoch);
    json_end(j);
}

static int show_events(struct queue_session *s, const struct cli *cli, struct events *e)
{
    struct buf out;
    struct json_out j;
    int code = list_events(s, e);
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_array(&j, NULL);
    if (code == CLI_OK && !cli->json)
        (void)printf("%-24s %-9s %9s %9s %9s %9s %8s %6s\n", "event", "state", "waiting", "parked",
                     "inside", "of", "per min", "tier 1");
    for (size_t i = 0; code == CLI_OK && i < e->count; i++) {
        struct room_view v;
        code = queue_session_look(s, e->names[i], &v);
        if (code != CLI_OK)
            break;
        put_view(&j, e->names[i], &v);
        if (!cli->json)
            (void)printf("%-24s %-9s %9" PRId64 " %9" PRId64 " %9" PRId64 " %9" PRId64 " %8" PRId64
                         " %6s\n",
                         e->names[i], state_word(&v), v.queue_size, v.parked, v.active, v.threshold,
                         v.admitted_last_minute, v.room_active ? "on" : "off");
    }
    json_end(&j);
    if (code == CLI_OK && cli->json)
        (void)puts(buf_text(&out));
    if (code == CLI_OK && e->full)
        (void)fprintf(stderr, "urrctl: more than %d events; the first ones are shown\n",
                      MAX_EVENTS);
    buf_done(&out);
    return code;
}

static int cmd_events(struct queue_session *s, const struct cli *cli, int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return cli_fail(cli, CLI_USAGE, "queue events takes no arguments");
    struct events e = {.names = calloc(MAX_EVENTS, ROOM_EVENT_MAX + 1)};
    int code = e.names ? show_events(s, cli, &e) : cli_fail(cli, CLI_FAILED, "no memory");
    free(e.names);
    return code;
}

/* Show ------------------------------------------------------------------------------------------
 */

static void print_view(const char *event, const struct room_view *v)
{
    char at[CLOCK_ISO_LEN + 1];
    (void)printf("event       %s\n", event);
    (void)printf("title       %s%s%s\n", v->title[0] ? v->title : "Unknown",
                 v->artist[0] ? ", " : "", v->artist);
    (void)printf("state       %s%s%s\n", state_word(v), v->closed_reason[0] ? ": " : "",
                 v->closed_reason);
    if (v->opens_at_ms > 0) {
        clock_format_iso(v->opens_at_ms, at);
        (void)printf("opens at    %s\n", at);
    }
    (void)printf("waiting     %" PRId64 " (and %" PRId64 " parked)\n", v->queue_size, v->parked);
    (void)printf("inside      %" PRId64 " of %" PRId64 "\n", v->active, v->threshold);
    (void)printf("admitted    %" PRId64 " in the last minute\n", v->admitted_last_minute);
    if (v->queue_size > 0 && v->admitted_last_minute > 0)
        (void)printf("drained in  about %" PRId64 " min\n",
                     v->queue_size / v->admitted_last_minute + 1);
    (void)printf("tier 1      %s, serving %" PRId64 " of %" PRId64 "\n",
                 v->room_active ? "on" : "off", v->serving, v->last_number);
    (void)printf("epoch       %" PRId64 "%s\n", v->epoch, v->restoring ? " (restoring)" : "");
}

int queue_show(struct queue_session *s, const struct cli *cli, const char *event)
{
    struct room_view v;
    int code = queue_session_look(s, event, &v);
    if (code != CLI_OK)
        return code;
    if (!cli->json) {
        print_view(event, &v);
        return CLI_OK;
    }
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    put_view(&j, event, &v);
    (void)puts(buf_text(&out));
    buf_done(&out);
    return CLI_OK;
}

static void on_exists(const struct redisReply *reply, void *arg)
{
    (void)redis_reply_int(reply, arg);
}

int queue_known(struct queue_session *s, const struct cli *cli, const char *event)
{
    if (!room_event_ok(event))
        return cli_fail(cli, CLI_USAGE, "queue: an event's id is 1 to %d of A-Z a-z 0-9 _ -",
                        ROOM_EVENT_MAX);
    char key[ROOM_EVENT_MAX + 16];
    int64_t found = 0;
    (void)snprintf(key, sizeof key, "{%s}:state", event);
    int code = queue_session_command(s, REDIS_ARGS(REDIS_STR("EXISTS"), REDIS_STR(key)), on_exists,
                                     &found);
    if (code != CLI_OK || found)
        return code;
    return cli_fail(cli, CLI_REFUSED, "queue: Redis knows no event %s; urrctl queue register %s",
                    event, event);
}

static int cmd_show(struct queue_session *s, const struct cli *cli, int argc, char **argv)
{
    if (argc != 2)
        return cli_fail(cli, CLI_USAGE, "queue show takes one event");
    int code = queue_known(s, cli, argv[1]); /* a look would make it known */
    return code == CLI_OK ? queue_show(s, cli, argv[1]) : code;
}

static const struct {
    const char *name;
    int (*run)(struct queue_session *s, const struct cli *cli, int argc, char **argv);
} SUBS[] = {
    {"events", cmd_events},     {"show", cmd_show},          {"audit", queue_audit},
    {"register", queue_change}, {"threshold", queue_change}, {"pause", queue_change},
    {"resume", queue_change},   {"close", queue_change},     {"open", queue_change},
    {"set", queue_change},      {"room", queue_change},      {"clear", queue_change},
};

static int run(const struct cli *cli, int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof SUBS / sizeof SUBS[0]; i++) {
        if (strcmp(argv[1], SUBS[i].name) != 0)
            continue;
        struct queue_session *s = NULL;
        int code = queue_session_open(cli, &s);
        if (code == CLI_OK)
            code = SUBS[i].run(s, cli, argc - 1, argv + 1);
        queue_session_close(s);
        return code;
    }
    return cli_fail(
        cli, CLI_USAGE,
        "queue: expected events, show, register, threshold, pause, resume, close, open, "
        "set, room, clear or audit");
}

const struct cli_command CMD_QUEUE = {
    "queue", "steer the waiting rooms, and check that they are fair",
    "urrctl queue events\n"
    "urrctl queue show EVENT\n"
    "urrctl queue register EVENT [--title T] [--artist A] [--opens-at TIME] [--threshold N]\n"
    "urrctl queue threshold EVENT N|default\n"
    "urrctl queue pause|resume EVENT\n"
    "urrctl queue close EVENT [--reason TEXT]      told at once to everybody who waits\n"
    "urrctl queue open EVENT                       takes a close back\n"
    "urrctl queue set EVENT NAME=VALUE…            batch, interval, activeTtl, idle … (ms)\n"
    "urrctl queue room EVENT on|off|advance [N]    Tier 1\n"
    "urrctl queue clear EVENT                      sends everybody away, for good\n"
    "urrctl queue audit EVENT [--file FILE] [--no-compare]\n\n"
    "What changes something shows it first: --dry-run stops there, a terminal is asked, --yes\n"
    "answers. The audit replays the admission log (of Redis, or the daemon's file) and compares\n"
    "it with who is there: exit code 3 when anybody was overtaken, too many were let in, or\n"
    "somebody was lost.\n\nExamples:\n"
    "  urrctl queue register concert-1 --title \"One Night\" --threshold 500 --yes\n"
    "  urrctl queue threshold concert-1 800 --dry-run\n"
    "  urrctl queue audit concert-1 --json\n\nExample:\n  urrctl queue events\n",
    run, TABLES};

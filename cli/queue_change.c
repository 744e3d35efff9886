/* queue_change.c - urrctl queue: the commands that change an event. Each is shown first, and done
 * by the same script that the daemons' admin API uses; who did it is in the admission log. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/change.h"
#include "cli/cli.h"
#include "cli/cmd_queue.h"
#include "cli/queue_session.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"

enum { MAX_JSON = 1 << 20, ADVANCE = 500, MAX_VALUES = 16, VALUE_MAX = 300 };

struct change {
    const char *name; /* the sub-command */
    const char *event;
    struct room_setting settings[ROOM_SETTINGS_MAX + 1];
    size_t setting_count;
    char values[MAX_VALUES][VALUE_MAX]; /* of settings made here */
    size_t value_count;
    bool room, clear;
    enum room_action action;
    int64_t count; /* advance: how many; clear: so many were sent away */
    bool dry_run, yes;
};

struct pending { /* what a callback needs */
    struct queue_session *session;
    struct change *change;
    bool more;
    int64_t moved;
};

/* The command line ------------------------------------------------------------------------------
 */

static bool put(struct change *c, const char *name, const char *value)
{
    if (c->setting_count == ROOM_SETTINGS_MAX)
        return false;
    c->settings[c->setting_count++] = (struct room_setting){name, value};
    return true;
}

/* "name=value" cut in two, in the change's own memory. */
static bool put_pair(struct change *c, const char *pair)
{
    const char *equals = strchr(pair, '=');
    if (!equals || equals == pair || strlen(pair) >= VALUE_MAX || c->value_count == MAX_VALUES)
        return false;
    char *copy = c->values[c->value_count++];
    memcpy(copy, pair, strlen(pair) + 1);
    copy[equals - pair] = '\0';
    return put(c, copy, copy + (equals - pair) + 1);
}

static bool put_opening(struct change *c, const char *text)
{
    int64_t at_ms = 0;
    if (clock_parse_iso(text, strlen(text), &at_ms) != 0 || c->value_count == MAX_VALUES)
        return false;
    char *copy = c->values[c->value_count++];
    (void)snprintf(copy, VALUE_MAX, "%" PRId64, at_ms);
    return put(c, "opensAt", copy);
}

/* An option with its value; false: not one of this command, or no good. */
static bool take_option(struct change *c, const char *option, const char *value)
{
    if (!value)
        return false;
    if (strcmp(c->name, "close") == 0 && strcmp(option, "--reason") == 0) {
        c->settings[1].value = value;
        return true;
    }
    if (strcmp(c->name, "register") != 0)
        return false;
    if (strcmp(option, "--title") == 0)
        return put(c, "title", value);
    if (strcmp(option, "--artist") == 0)
        return put(c, "artist", value);
    if (strcmp(option, "--threshold") == 0)
        return put(c, "threshold", value);
    return strcmp(option, "--opens-at") == 0 && put_opening(c, value);
}

/* The words after the event; returns how many were taken, -1: no good. */
static int take_words(struct change *c, int count, char **words)
{
    int64_t number = count > 1 ? strtoll(words[1], NULL, 10) : ADVANCE;
    if (strcmp(c->name, "threshold") == 0)
        return count == 1 && put(c, "threshold", strcmp(words[0], "default") == 0 ? "" : words[0])
                   ? 1
                   : -1;
    if (strcmp(c->name, "set") == 0) {
        for (int i = 0; i < count; i++)
            if (!put_pair(c, words[i]))
                return -1;
        return count > 0 ? count : -1;
    }
    if (strcmp(c->name, "room") != 0)
        return count == 0 ? 0 : -1;
    bool advance = count > 0 && strcmp(words[0], "advance") == 0;
    c->room = true;
    c->count = number;
    if (advance && count <= 2 && number > 0)
        c->action = ROOM_ADVANCE;
    else if (count == 1 && strcmp(words[0], "on") == 0)
        c->action = ROOM_ACTIVATE;
    else if (count == 1 && strcmp(words[0], "off") == 0)
        c->action = ROOM_DEACTIVATE;
    else
        return -1;
    return count;
}

static void put_fixed(struct change *c)
{
    if (strcmp(c->name, "register") == 0)
        (void)put(c, "registered", "1");
    if (strcmp(c->name, "pause") == 0 || strcmp(c->name, "resume") == 0)
        (void)put(c, "paused", strcmp(c->name, "pause") == 0 ? "1" : "");
    if (strcmp(c->name, "close") == 0 || strcmp(c->name, "open") == 0) {
        bool close = strcmp(c->name, "close") == 0;
        (void)put(c, "closed", close ? "1" : "");
        (void)put(c, "closedReason", close ? "Sold out" : "");
    }
    c->clear = strcmp(c->name, "clear") == 0;
}

static int read_change(const struct cli *cli, int argc, char **argv, struct change *c)
{
    char *words[MAX_VALUES];
    int count = 0;
    bool good = true;
    c->name = argv[0];
    put_fixed(c);
    for (int i = 1; good && i < argc; i++) {
        if (strcmp(argv[i], "--dry-run") == 0)
            c->dry_run = true;
        else if (strcmp(argv[i], "--yes") == 0)
            c->yes = true;
        else if (strncmp(argv[i], "--", 2) == 0) {
            good = take_option(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            i++;
        } else if (!c->event)
            c->event = argv[i];
        else if (count < MAX_VALUES)
            words[count++] = argv[i];
        else
            good = false;
    }
    if (good && c->event && take_words(c, count, words) >= 0)
        return CLI_OK;
    return cli_fail(cli, CLI_USAGE, "queue %s: see urrctl queue --help", c->name);
}

/* Showing and asking ----------------------------------------------------------------------------
 */

static int check_settings(const struct cli *cli, const struct change *c)
{
    struct fault f = {0};
    for (size_t i = 0; i < c->setting_count; i++)
        if (!room_setting_ok(&c->settings[i], &f))
            return cli_fail(cli, CLI_USAGE, "queue %s: %s", c->name, f.text);
    return CLI_OK;
}

static const char *const ACTIONS[] = {
    [ROOM_ACTIVATE] = "turn on", [ROOM_DEACTIVATE] = "turn off", [ROOM_ADVANCE] = "advance"};

static void show_plan(const struct change *c, const struct room_view *now)
{
    (void)printf("%s: %" PRId64 " waiting, %" PRId64 " parked, %" PRId64 " inside of %" PRId64 "\n",
                 c->event, now->queue_size, now->parked, now->active, now->threshold);
    for (size_t i = 0; i < c->setting_count; i++) {
        const struct room_setting *s = &c->settings[i];
        if (strcmp(s->name, "threshold") == 0)
            (void)printf("  threshold: %" PRId64 " -> %s\n", now->threshold,
                         s->value[0] ? s->value : "default");
        else
            (void)printf("  %s: -> %s\n", s->name, s->value[0] ? s->value : "default");
    }
    if (c->room && c->action == ROOM_ADVANCE)
        (void)printf("  tier 1: serving %" PRId64 " -> up to %" PRId64 "\n", now->serving,
                     now->serving + c->count);
    else if (c->room)
        (void)printf("  tier 1: %s (is %s)\n", ACTIONS[c->action], now->room_active ? "on" : "off");
    if (c->clear)
        (void)printf("  everybody is sent away for good: their places do not come back\n");
}

static int confirm(const struct cli *cli, const struct change *c)
{
    char command[32];
    (void)snprintf(command, sizeof command, "queue %s", c->name);
    const struct cli_change change = {.command = command, .target = c->event, .yes = c->yes};
    return cli_confirm(cli, &change, "Go on?");
}

/* Doing -----------------------------------------------------------------------------------------
 */

/* Who does it, as the log may hold it. */
static const char *actor(void)
{
    static char who[ROOM_USER_MAX + 1];
    (void)snprintf(who, sizeof who, "urrctl:%.100s", cli_operator());
    return room_user_ok(who) ? who : "urrctl";
}

static void on_configured(const struct room_view *v, void *arg)
{
    struct pending *p = arg;
    queue_session_done(p->session, v->rc, v->text);
}

static void on_operated(const struct room_tier1 *t, void *arg)
{
    struct pending *p = arg;
    p->moved = t->moved;
    queue_session_done(p->session, t->rc, t->text);
}

static void on_cleared(const struct room_pass *pass, void *arg)
{
    struct pending *p = arg;
    p->more = pass->rc == 0 && pass->more;
    p->moved += pass->moved;
    queue_session_done(p->session, pass->rc, pass->text);
}

static int act(struct queue_session *s, struct change *c, struct pending *p)
{
    struct room *room = queue_session_room(s);
    struct fault f = {0};
    int code = CLI_OK;
    if (c->room) {
        int rc = room_operate(room, c->event, c->action, actor(),
                              c->action == ROOM_ADVANCE ? c->count : 0, on_operated, p, &f);
        return queue_session_wait(s, rc, f.text);
    }
    if (!c->clear) {
        int rc = room_configure(room, c->event, actor(), c->settings, on_configured, p, &f);
        return queue_session_wait(s, rc, f.text);
    }
    do {
        int rc = room_clear(room, c->event, actor(), on_cleared, p, &f);
        code = queue_session_wait(s, rc, f.text);
    } while (code == CLI_OK && p->more);
    return code;
}

int queue_change(struct queue_session *s, const struct cli *cli, int argc, char **argv)
{
    struct change c = {0};
    struct pending p = {.session = s, .change = &c};
    struct room_view now;
    int code = read_change(cli, argc, argv, &c);
    if (code == CLI_OK)
        code = check_settings(cli, &c);
    if (code == CLI_OK && strcmp(c.name, "register") != 0)
        code = queue_known(s, cli, c.event);
    if (code != CLI_OK)
        return code;
    bool fresh = strcmp(c.name, "register") == 0; /* a look at it would already make it */
    if (!fresh && (code = queue_session_look(s, c.event, &now)) != CLI_OK)
        return code;
    if (!cli->json && !fresh)
        show_plan(&c, &now);
    else if (!cli->json)
        show_plan(&c, &(struct room_view){0});
    if (c.dry_run) {
        (void)(cli->json ? printf("{\"eventId\":\"%s\",\"dryRun\":true}\n", c.event)
                         : printf("dry run: nothing was changed\n"));
        return CLI_OK;
    }
    if ((code = confirm(cli, &c)) != CLI_OK || (code = act(s, &c, &p)) != CLI_OK)
        return code;
    if (!cli->json && c.clear)
        (void)printf("%" PRId64 " sent away\n", p.moved);
    return queue_show(s, cli, c.event);
}

/* cmd_replay.c - urrctl replay: a range of a topic once more through a group's own handlers, while
 * the group runs. What was applied stays as it is; what never was takes effect now. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/change.h"
#include "cli/cli.h"
#include "cli/group_view.h"
#include "cli/progress.h"
#include "cli/replay.h"
#include "cli/servers.h"
#include "consumers/stats/stats_consumer.h"
#include "consumers/ticket/ticket_consumer.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/kafka.h"
#include "runtime/kafka_admin.h"
#include "runtime/pg.h"

enum { MAX_JSON = 1 << 20, MAX_RATE = 1000000 };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

struct job {
    const struct cli *cli;
    struct cli_change change;
    char target[CLI_GROUP_NAME + GROUP_VIEW_TOPIC + 2];
    /* The wish. */
    const char *group_name, *topic;
    const char *from_time, *to_time, *from_offset, *to_offset, *partition, *rate_text;
    int64_t from, to, only, rate; /* only: the partition, -1: all */
    bool resume, abandon, dead_letters;
    /* The servers. */
    struct config *config;
    struct cli_group group;
    struct pg *pg, *lock; /* the lock lives as long as its connection */
    struct kafka_admin *kafka;
    struct group_view view;
    struct ticket_consumer *ticket;
    struct stats_consumer *stats;
    const struct engine_spec *spec;
    /* The work. */
    struct replay replay;
    bool resumed, cut; /* cut: the range ended behind the group's own place */
    struct cli_progress progress;
    int64_t already;
};

static int fail(const struct job *j, int rc, const struct fault *f)
{
    return cli_fail(j->cli, cli_code(rc), "replay: %s", f->text);
}

static int read_wish(struct job *j, int argc, char **argv)
{
    const struct cli *cli = j->cli;
    const struct cli_option options[] = {{"--topic", &j->topic, NULL},
                                         {"--from-time", &j->from_time, NULL},
                                         {"--to-time", &j->to_time, NULL},
                                         {"--from-offset", &j->from_offset, NULL},
                                         {"--to-offset", &j->to_offset, NULL},
                                         {"--partition", &j->partition, NULL},
                                         {"--rate", &j->rate_text, NULL},
                                         {"--resume", NULL, &j->resume},
                                         {"--abandon", NULL, &j->abandon},
                                         {"--dead-letters", NULL, &j->dead_letters},
                                         {"--dry-run", NULL, &j->change.dry_run},
                                         {"--yes", NULL, &j->change.yes},
                                         {NULL, NULL, NULL}};
    int code = cli_args(cli, "replay", "GROUP", argc, argv, options, &j->group_name, 1, 1, NULL);
    if (code != CLI_OK)
        return code;
    bool times = j->from_time || j->to_time, offsets = j->from_offset || j->to_offset;
    bool range = times || offsets || j->partition;
    if ((j->resume || j->abandon) ? range || (j->resume && j->abandon) : times == offsets)
        return cli_fail(cli, CLI_USAGE,
                        "replay: expected either --from-time/--to-time or "
                        "--from-offset/--to-offset, or --resume or --abandon alone");
    if (times && !j->from_time)
        return cli_fail(cli, CLI_USAGE, "replay: --to-time needs --from-time");
    if (offsets && (!j->from_offset || !j->partition))
        return cli_fail(cli, CLI_USAGE, "replay: offsets need --from-offset and --partition");
    j->only = -1;
    j->to = -1;
    if (j->from_time)
        code = cli_time(cli, "--from-time", j->from_time, &j->from);
    if (code == CLI_OK && j->to_time)
        code = cli_time(cli, "--to-time", j->to_time, &j->to);
    if (code == CLI_OK && j->from_offset)
        code = cli_number(cli, "--from-offset", j->from_offset, 0, INT64_MAX, &j->from);
    if (code == CLI_OK && j->to_offset)
        code = cli_number(cli, "--to-offset", j->to_offset, 0, INT64_MAX, &j->to);
    if (code == CLI_OK && j->partition)
        code = cli_number(cli, "--partition", j->partition, 0, INT32_MAX, &j->only);
    if (code == CLI_OK && j->rate_text)
        code = cli_number(cli, "--rate", j->rate_text, 1, MAX_RATE, &j->rate);
    return code;
}

/* The handlers urrctl was built with. */
static int find_handlers(struct job *j)
{
    struct fault f = {0};
    int rc = 0;
    if (!j->group.configured)
        return cli_fail(j->cli, CLI_REFUSED, "replay: the handlers of %s are not in urrctl",
                        j->group.name);
    if (strcmp(j->group.database, "ticket") == 0) {
        rc = ticket_consumer_new(j->config, &j->ticket, &f);
        j->spec = rc == 0 ? ticket_consumer_spec(j->ticket) : NULL;
    } else {
        rc = stats_consumer_new(j->config, &j->stats, &f);
        j->spec = rc == 0 ? stats_consumer_spec(j->stats) : NULL;
    }
    return rc == 0 ? CLI_OK : fail(j, rc, &f);
}

static int choose_topic(struct job *j)
{
    if (!j->topic && !j->group.topics[1])
        j->topic = j->group.topics[0];
    if (!j->topic)
        return cli_fail(j->cli, CLI_USAGE, "replay: %s reads several topics: say --topic",
                        j->group.name);
    for (size_t i = 0; j->group.topics[i]; i++)
        if (strcmp(j->group.topics[i], j->topic) == 0)
            return CLI_OK;
    return cli_fail(j->cli, CLI_USAGE, "replay: group %s does not read topic '%s'", j->group.name,
                    j->topic);
}

/* What the brake stopped must not come in by the side door. */
static int refuse_braked(struct job *j)
{
    struct pg_result *rows = NULL;
    struct fault f = {0};
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, j->group.name);
    int rc = pg_exec(j->pg, cli_stmt("consumer_state.sql"), &p, &rows, &f);
    if (rc != 0)
        return fail(j, rc, &f);
    bool braked = pg_result_rows(rows) == 1 && pg_result_bool(rows, 0, 0) &&
                  strcmp(pg_result_text(rows, 0, 1), "refund_brake") == 0;
    pg_result_free(rows);
    if (braked)
        return cli_fail(j->cli, CLI_REFUSED,
                        "replay: the refund brake holds %s: urrctl refunds list, then urrctl "
                        "refunds resume",
                        j->group.name);
    return CLI_OK;
}

static int open_job(struct job *j)
{
    int code = cli_settings(j->cli, CLI_GROUP_SETTINGS, &j->config);
    if (code == CLI_OK)
        code = cli_group_find(j->cli, j->config, j->group_name, &j->group, &j->pg);
    if (code == CLI_OK)
        code = find_handlers(j);
    if (code == CLI_OK)
        code = choose_topic(j);
    if (code == CLI_OK)
        code = refuse_braked(j);
    if (code == CLI_OK)
        code = cli_kafka(j->cli, j->config, &j->kafka);
    if (code == CLI_OK)
        code = group_view_look(j->cli, j->pg, j->kafka, &j->group, j->topic, &j->view);
    (void)snprintf(j->target, sizeof j->target, "%s %s", j->group.name, j->topic ? j->topic : "");
    j->change.target = j->target;
    return code;
}

static void close_job(struct job *j)
{
    group_view_done(&j->view);
    kafka_admin_close(j->kafka);
    pg_free(j->pg);
    pg_free(j->lock);
    ticket_consumer_free(j->ticket);
    stats_consumer_free(j->stats);
    config_free(j->config);
}

/* One at a time, or both would wait for each other's rows. */
static int take_lock(struct job *j)
{
    struct fault f = {0};
    bool ours = false;
    int code = cli_pg(j->cli, j->config, j->group.database, &j->lock);
    if (code != CLI_OK)
        return code;
    int rc = replay_lock(j->lock, j->group.name, j->topic, &ours, &f);
    if (rc != 0)
        return fail(j, rc, &f);
    return ours ? CLI_OK
                : cli_fail(j->cli, CLI_RETRY,
                           "replay: another operator replays %s right now; nothing was changed",
                           j->target);
}

static int bound(struct job *j, const struct group_place *p, int64_t wanted, bool is_time,
                 int64_t *out)
{
    struct fault f = {0};
    struct kafka_place place = {p->topic, p->partition, wanted};
    if (!is_time) {
        if (wanted < p->low || wanted > p->high)
            return cli_fail(j->cli, CLI_REFUSED,
                            "replay: offset %lld of %s[%d] is outside of the log (%lld to %lld)",
                            (long long)wanted, p->topic, p->partition, (long long)p->low,
                            (long long)p->high);
        *out = wanted;
        return CLI_OK;
    }
    int rc = kafka_admin_offsets_for_times(j->kafka, &place, 1, CLI_KAFKA_MS, &f);
    if (rc != 0)
        return fail(j, rc, &f);
    *out = place.offset < 0 ? p->high : place.offset;
    return CLI_OK;
}

static int plan_ranges(struct job *j, struct replay *r)
{
    *r = (struct replay){.dead_letters = j->dead_letters};
    bool found = false;
    for (size_t i = 0; i < j->view.count && r->count < ENGINE_MAX_PARTITIONS; i++) {
        const struct group_place *p = &j->view.places[i];
        if (p->high < 0 || (j->only >= 0 && p->partition != j->only))
            continue;
        found = true;
        int64_t from = 0, to = p->has_row ? p->next_offset : p->low;
        int code = bound(j, p, j->from, j->from_time != NULL, &from);
        if (code == CLI_OK && j->to >= 0)
            code = bound(j, p, j->to, j->to_time != NULL, &to);
        if (code != CLI_OK)
            return code;
        if (to > p->next_offset) { /* what the group has not reached is the group's */
            to = p->next_offset;
            j->cut = true;
        }
        if (from >= to)
            continue;
        r->from[r->count] = from;
        r->ranges[r->count++] =
            (struct reader_range){.partition = p->partition, .next = from, .to = to};
    }
    if (!found)
        return cli_fail(j->cli, CLI_USAGE, "replay: %s has no partition %lld", j->topic,
                        (long long)j->only);
    if (r->count == 0)
        return cli_fail(j->cli, CLI_REFUSED,
                        "replay: the range is empty: nothing of %s that %s has read lies in it",
                        j->topic, j->group.name);
    return CLI_OK;
}

static bool same_ranges(const struct replay *a, const struct replay *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->ranges[i].partition != b->ranges[i].partition || a->from[i] != b->from[i] ||
            a->ranges[i].to != b->ranges[i].to)
            return false;
    return true;
}

/* A new range, or the rest of an unfinished one. */
static int settle_ranges(struct job *j)
{
    struct replay open, wanted = {0};
    struct fault f = {0};
    int rc = replay_find(j->pg, j->group.name, j->topic, &open, &f);
    if (rc != 0)
        return fail(j, rc, &f);
    if ((j->resume || j->abandon) && !open.id)
        return cli_fail(j->cli, CLI_REFUSED, "replay: no replay of %s is unfinished", j->target);
    int code = j->resume || j->abandon ? CLI_OK : plan_ranges(j, &wanted);
    if (code != CLI_OK)
        return code;
    j->resumed = open.id && (j->resume || j->abandon || same_ranges(&open, &wanted));
    if (open.id && !j->resumed && !j->change.dry_run)
        return cli_fail(
            j->cli, CLI_REFUSED,
            "replay: %s's replay %lld of %s is not finished (%lld of %lld left): finish "
            "it with --resume, or end it with --abandon",
            open.started_by, (long long)open.id, j->target, (long long)replay_left(&open),
            (long long)replay_size(&open));
    j->replay = j->resumed ? open : wanted;
    return CLI_OK;
}

static void show_ranges(const struct job *j)
{
    if (j->cli->json)
        return;
    for (size_t i = 0; i < j->replay.count; i++)
        (void)printf("%s[%d]  %lld to %lld%s\n", j->topic, j->replay.ranges[i].partition,
                     (long long)j->replay.ranges[i].next, (long long)j->replay.ranges[i].to - 1,
                     j->resumed && j->replay.ranges[i].next > j->replay.from[i] ? "  (the rest)"
                                                                                : "");
    if (j->cut)
        (void)puts("(up to where the group stands: what lies ahead it reads itself)");
    (void)fflush(stdout);
}

static void put_counts(struct json_out *o, const struct reader_counts *c)
{
    json_put_int(o, "read", c->read);
    json_put_int(o, "applied", c->applied);
    json_put_int(o, "noop", c->noop);
    json_put_int(o, "duplicate", c->duplicate);
    json_put_int(o, "ignored", c->ignored);
    json_put_int(o, "dead", c->dead);
}

static void show_json(const struct job *j, const struct reader_counts *c, bool finished,
                      bool braked, const char *error)
{
    struct buf out;
    struct json_out o;
    buf_init(&out, MAX_JSON);
    json_begin(&o, &out);
    json_object(&o, NULL);
    json_put_str(&o, "group", j->group.name);
    json_put_str(&o, "topic", j->topic);
    json_put_int(&o, "replay", j->replay.id);
    json_put_bool(&o, "dryRun", j->change.dry_run);
    json_put_bool(&o, "resumed", j->resumed);
    json_put_bool(&o, "finished", finished);
    if (error)
        json_put_str(&o, "error", error);
    json_put_bool(&o, "brakeEngaged", braked);
    put_counts(&o, c);
    json_array(&o, "ranges");
    for (size_t i = 0; i < j->replay.count; i++) {
        json_object(&o, NULL);
        json_put_int(&o, "partition", j->replay.ranges[i].partition);
        json_put_int(&o, "from", j->replay.from[i]);
        json_put_int(&o, "to", j->replay.ranges[i].to);
        json_end(&o);
    }
    json_end(&o);
    json_end(&o);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static void show_text(const struct job *j, const struct reader_counts *c, bool braked)
{
    bool dry = j->change.dry_run;
    (void)printf("%lld records read\n", (long long)c->read);
    (void)printf("%9lld %s\n", (long long)c->applied, dry ? "new: would take effect" : "applied");
    (void)printf("%9lld duplicate: applied before\n", (long long)c->duplicate);
    (void)printf("%9lld nothing to do, by the state of things\n", (long long)c->noop);
    (void)printf("%9lld dead%s\n", (long long)c->dead,
                 j->replay.dead_letters ? "" : " (no second dead letter; see --dead-letters)");
    if (c->ignored)
        (void)printf("%9lld ignored types\n", (long long)c->ignored);
    if (braked)
        (void)puts("the refund brake would stop it: too many refunds at once");
    if (dry)
        (void)puts("dry run: nothing was changed");
}

static void on_progress(void *arg, const struct reader_counts *so_far)
{
    struct job *j = arg;
    cli_progress_at(&j->progress, j->already + so_far->read);
}

static int read_range(struct job *j, struct reader_result *result, struct fault *f)
{
    char offset_group[40];
    (void)snprintf(offset_group, sizeof offset_group, CLI_READER_PREFIX "%lld",
                   (long long)j->replay.id);
    struct reader_options o = {.spec = j->spec,
                               .topic = j->topic,
                               .ranges = j->replay.ranges,
                               .range_count = j->replay.count,
                               .pg = j->pg,
                               .ignored_types = config_str(j->config, "KAFKA_IGNORED_TYPES"),
                               .offset_group = offset_group,
                               .replay_id = j->replay.id,
                               .rehearse = j->change.dry_run,
                               .dead_letters = j->replay.dead_letters,
                               .rate = j->rate,
                               .stop = &stopped,
                               .on_progress = on_progress,
                               .arg = j};
    kafka_client_from_config(j->config, "urrctl-replay", &o.kafka);
    j->already = replay_size(&j->replay) - replay_left(&j->replay);
    cli_progress_start(&j->progress, j->cli, j->change.dry_run ? "dry run" : "replay",
                       replay_size(&j->replay), j->already);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int rc = reader_run(&o, result, f);
    cli_progress_end(&j->progress);
    return rc;
}

static int report(struct job *j, int rc, const struct reader_counts *c, bool braked,
                  const struct fault *f)
{
    if (rc == 0) {
        if (j->cli->json)
            show_json(j, c, true, braked, NULL);
        else
            show_text(j, c, braked);
        return CLI_OK;
    }
    if (j->cli->json) {
        show_json(j, c, false, braked, f->text);
        return cli_code(rc);
    }
    if (j->change.dry_run)
        return fail(j, rc, f);
    return cli_fail(j->cli, cli_code(rc),
                    "replay: %s. %lld events applied in this run, each once; go on with: urrctl "
                    "replay %s --topic %s --resume",
                    f->text, (long long)c->applied, j->group.name, j->topic);
}

static int rehearse(struct job *j)
{
    struct reader_result result;
    struct fault f = {0};
    show_ranges(j);
    int rc = read_range(j, &result, &f);
    return report(j, rc, &result.counts, result.brake_engaged, &f);
}

static int carry_out(struct job *j)
{
    struct reader_result result;
    struct fault f = {0};
    show_ranges(j);
    int code = cli_confirm(j->cli, &j->change, "Replay %lld records of %s through %s?",
                           (long long)replay_left(&j->replay), j->topic, j->group.name);
    if (code != CLI_OK)
        return code;
    int rc = j->resumed ? replay_take(j->pg, &j->change, &j->replay, &f)
                        : replay_start(j->pg, &j->change, j->group.name, j->topic, &j->replay, &f);
    if (rc != 0)
        return fail(j, rc, &f);
    rc = read_range(j, &result, &f);
    if (rc == 0)
        rc = replay_end(j->pg, &j->change, "done", &j->replay, &f);
    return report(j, rc, rc == 0 ? &j->replay.counts : &result.counts, result.brake_engaged, &f);
}

static int abandon(struct job *j)
{
    struct fault f = {0};
    int code = CLI_OK;
    if (!j->change.dry_run) {
        code = cli_confirm(j->cli, &j->change, "End replay %lld with %lld records left?",
                           (long long)j->replay.id, (long long)replay_left(&j->replay));
        int rc = code == CLI_OK ? replay_end(j->pg, &j->change, "abandoned", &j->replay, &f) : 0;
        if (rc != 0)
            code = fail(j, rc, &f);
    }
    if (code == CLI_OK)
        code = report(j, 0, &j->replay.counts, false, &f);
    return code;
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static struct job j;
    j = (struct job){.cli = cli, .change = {.command = "replay"}};
    int code = read_wish(&j, argc, argv);
    if (code == CLI_OK)
        code = open_job(&j);
    if (code == CLI_OK && !j.change.dry_run)
        code = take_lock(&j);
    if (code == CLI_OK)
        code = settle_ranges(&j);
    if (code == CLI_OK)
        code = j.abandon ? abandon(&j) : j.change.dry_run ? rehearse(&j) : carry_out(&j);
    close_job(&j);
    return code;
}

const struct cli_command CMD_REPLAY = {
    "replay", "read a range once more beside the running group",
    "urrctl replay GROUP --topic T --from-time TIME [--to-time TIME] [--partition P]\n"
    "urrctl replay GROUP --topic T --partition P --from-offset N [--to-offset N]\n"
    "urrctl replay GROUP --topic T (--resume | --abandon)\n"
    "      [--rate N] [--dead-letters] [--dry-run] [--yes]\n\n"
    "Applies what the group never applied, and nothing twice; the group goes on meanwhile and its\n"
    "offsets do not move. --to-offset is the first one not read. Interrupted at any point, also "
    "by\n"
    "kill -9, the same command goes on where it stood. --dry-run tells what would be new, "
    "duplicate\n"
    "and dead. --rate limits events per second (else it rests as long as it works).\n\nExample:\n"
    "  urrctl replay ticket-service-group --topic payment-events --from-time 2h --dry-run\n",
    run, CLI_GROUP_SETTINGS};

/* cmd_stats.c - urrctl stats rebuild: the figures made anew from the log, compared, switched. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/change.h"
#include "cli/rebuild.h"
#include "cli/stage.h"
#include "cli/table.h"
#include "consumers/stats/stats_consumer.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/json.h"

enum { MAX_JSON = 64 << 20 };

static const struct config_item *const TABLES[] = {CLI_DATABASE_SETTINGS, STAGE_SETTINGS,
                                                   STATS_SETTINGS, KAFKA_SETTINGS, NULL};

struct request {
    bool dry_run, yes, abort, stay;
};

static void put_figures(struct json_out *j, const struct rebuild *r)
{
    json_put_int(j, "liveGeneration", r->live_generation);
    json_put_int(j, "generation", r->generation);
    json_put_bool(j, "resumed", r->resumed);
    json_put_int(j, "left", rebuild_left(r));
    json_put_int(j, "records", r->records);
    json_put_int(j, "counted", r->fresh);
    json_put_int(j, "refused", r->refused);
    json_put_str(j, "copiedThrough", r->copied_through[0] ? r->copied_through : NULL);
}

static void show(const struct cli *cli, const struct rebuild *r, const struct cli_table *t,
                 const char *state)
{
    struct buf out;
    struct json_out j;
    if (!cli->json)
        return;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_str(&j, "state", state);
    put_figures(&j, r);
    if (t)
        cli_table_json(t, &j, "differences");
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static void say_plan(const struct cli *cli, const struct rebuild *r)
{
    char cut[CLOCK_ISO_LEN + 1];
    if (cli->json)
        return;
    if (r->resumed)
        (void)printf("generation %d (begun by %s) is being built beside the live generation %d: "
                     "%lld records left\n",
                     r->generation, r->started_by, r->live_generation, (long long)rebuild_left(r));
    else
        (void)printf("a new generation is built beside the live generation %d: %lld records\n",
                     r->live_generation, (long long)rebuild_left(r));
    clock_format_iso(r->cut_ms, cut);
    if (r->copied_through[0])
        (void)printf("the log is not whole: days up to %s are copied\n", r->copied_through);
    else if (r->cut_ms)
        (void)printf("the log is not whole: days up to that of %s are copied\n", cut);
}

static struct cli_table *new_table(void)
{
    static const struct cli_column COLUMNS[] = {
        {"DAY", "date", CLI_TEXT},          {"EVENT", "eventId", CLI_TEXT},
        {"FIGURE", "figure", CLI_TEXT},     {"LIVE", "live", CLI_NUMBER},
        {"REBUILT", "rebuilt", CLI_NUMBER}, {NULL, NULL, CLI_TEXT}};
    return cli_table_new(COLUMNS);
}

static int switch_over(const struct cli *cli, struct rebuild *r, const struct request *q,
                       const struct cli_change *change, struct cli_table *t)
{
    if (!cli->json) {
        (void)printf("%lld records read, %lld counted, %lld refused (dead letters)\n",
                     (long long)r->records, (long long)r->fresh, (long long)r->refused);
        cli_table_text(t, "both generations say the same");
    }
    if (q->stay) {
        if (!cli->json)
            (void)puts("not switched (--stay)");
        show(cli, r, t, "built");
        return CLI_OK;
    }
    int code = cli_confirm(cli, change, "Make generation %d the live one (%zu figures change)?",
                           r->generation, cli_table_rows(t));
    if (code == CLI_OK)
        code = rebuild_meet(r, change, NULL);
    if (code == CLI_OK)
        code = rebuild_clean(r);
    if (code == CLI_OK && !cli->json)
        (void)printf("generation %d is live\n", r->generation);
    if (code == CLI_OK)
        show(cli, r, t, "switched");
    return code;
}

static int build(const struct cli *cli, struct rebuild *r, const struct request *q)
{
    struct cli_change change = {.command = "stats rebuild", .target = "stats_db", .yes = q->yes};
    if (!q->yes && !q->stay && (cli->json || !isatty(STDIN_FILENO)))
        return cli_fail(cli, CLI_USAGE,
                        "nobody to ask before the switch: add --yes, or --stay to build only");
    struct cli_table *t = new_table();
    int code = rebuild_claim(r);
    if (code == CLI_OK)
        code = rebuild_clean(r); /* of a run that was killed behind its switch */
    if (code == CLI_OK)
        code = rebuild_begin(r, &change);
    if (code == CLI_OK)
        code = rebuild_fill(r);
    if (code == CLI_OK)
        code = rebuild_meet(r, NULL, t);
    if (code == CLI_OK)
        code = switch_over(cli, r, q, &change, t);
    cli_table_free(t);
    return code;
}

static int give_up(const struct cli *cli, struct rebuild *r, const struct request *q)
{
    struct cli_change change = {.command = "stats rebuild", .target = "stats_db", .yes = q->yes};
    if (!r->resumed)
        return cli_fail(cli, CLI_REFUSED, "no generation is being built: nothing to abort");
    int code = q->dry_run ? CLI_OK : rebuild_claim(r);
    if (code == CLI_OK && !q->dry_run)
        code = cli_confirm(cli, &change, "Throw generation %d away?", r->generation);
    if (code == CLI_OK && !q->dry_run)
        code = rebuild_abort(r, &change);
    if (code == CLI_OK && !q->dry_run)
        code = rebuild_clean(r);
    if (code == CLI_OK && !cli->json)
        (void)printf("%s generation %d\n", q->dry_run ? "would throw away" : "threw away",
                     r->generation);
    if (code == CLI_OK)
        show(cli, r, NULL, q->dry_run ? "planned" : "aborted");
    return code;
}

static int run_rebuild(const struct cli *cli, int argc, char **argv)
{
    static struct rebuild r;
    struct request q = {0};
    struct stage stage = {0};
    const struct cli_option options[] = {{"--dry-run", NULL, &q.dry_run},
                                         {"--yes", NULL, &q.yes},
                                         {"--stay", NULL, &q.stay},
                                         {"--abort", NULL, &q.abort},
                                         {0}};
    int code = cli_args(cli, "stats rebuild", "", argc, argv, options, NULL, 0, 0, NULL);
    if (code == CLI_OK)
        code = stage_open(&stage, cli, TABLES);
    if (code == CLI_OK)
        code = rebuild_look(&r, &stage);
    if (code == CLI_OK && q.abort) {
        code = give_up(cli, &r, &q);
    } else if (code == CLI_OK) {
        say_plan(cli, &r);
        if (q.dry_run)
            show(cli, &r, NULL, "planned");
        else
            code = build(cli, &r, &q);
    }
    stage_close(&stage);
    return code;
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_sub SUBS[] = {{"rebuild", run_rebuild}, {0}};
    return cli_sub(cli, "stats", SUBS, argc, argv);
}

const struct cli_command CMD_STATS = {
    "stats", "rebuild the figures from the log beside the live ones",
    "urrctl stats rebuild [--dry-run] [--stay] [--yes] [--abort]\n\n"
    "Fills the next generation from the log while the live one goes on, shows what differs by day\n"
    "and event, and switches in one transaction after asking. Interrupted, it goes on where it\n"
    "was when run again. --stay builds and compares without switching; --abort throws an "
    "unfinished\n"
    "generation away. Days that are not wholly in the log any more are copied. STATS_TIME_ZONE\n"
    "must be that of urr-stats.\n\nExample:\n"
    "  urrctl stats rebuild --dry-run && urrctl stats rebuild --yes\n",
    run, TABLES};

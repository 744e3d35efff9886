/* cmd_consumer.c - urrctl consumer pause/resume and urrctl gaps list/accept: rows that every
 * instance of a group looks at each second. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/change.h"
#include "cli/cli.h"
#include "cli/servers.h"
#include "cli/table.h"
#include "runtime/fault.h"
#include "runtime/pg.h"

enum { MAX_DETAIL = 200 };

struct subject { /* what every command here needs */
    struct config *config;
    struct cli_group group;
    struct pg *pg;
};

static int open_subject(const struct cli *cli, const char *group, struct subject *s)
{
    int code = cli_settings(cli, CLI_GROUP_SETTINGS, &s->config);
    return code == CLI_OK ? cli_group_find(cli, s->config, group, &s->group, &s->pg) : code;
}

static void close_subject(struct subject *s)
{
    pg_free(s->pg);
    config_free(s->config);
}

static int run_pause(const struct cli *cli, int argc, char **argv)
{
    const char *group = NULL, *reason = "";
    struct cli_change change = {.command = "consumer pause"};
    const struct cli_option options[] = {{"--reason", &reason, NULL},
                                         {"--dry-run", NULL, &change.dry_run},
                                         {"--yes", NULL, &change.yes},
                                         {NULL, NULL, NULL}};
    int code = cli_args(cli, change.command, "GROUP", argc, argv, options, &group, 1, 1, NULL);
    if (code == CLI_OK && strlen(reason) > MAX_DETAIL)
        code = cli_fail(cli, CLI_USAGE, "--reason takes up to %d bytes", MAX_DETAIL);
    struct subject s = {0};
    if (code == CLI_OK)
        code = open_subject(cli, group, &s);
    if (code == CLI_OK) {
        struct pg_params p;
        pg_params_init(&p);
        pg_params_text(&p, group);
        pg_params_text(&p, *reason ? reason : NULL);
        pg_params_text(&p, cli_operator());
        struct cli_step step = {.stmt = cli_stmt("consumer_pause.sql"),
                                .params = &p,
                                .none = "the group is paused already",
                                .none_code = CLI_OK,
                                .question = "All instances stop applying events. Pause it?"};
        change.target = group;
        code = cli_apply(cli, s.pg, &change, &step);
    }
    close_subject(&s);
    return code;
}

/* A group that its brake stopped would run into it again at once. */
static int refuse_braked(const struct cli *cli, struct pg *pg, const char *group)
{
    struct pg_result *rows = NULL;
    struct fault f = {0};
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, group);
    int rc = pg_exec(pg, cli_stmt("consumer_state.sql"), &p, &rows, &f);
    if (rc != 0)
        return cli_fail(cli, cli_code(rc), "consumer resume: %s", f.text);
    int code = CLI_OK;
    if (pg_result_rows(rows) == 1 && pg_result_bool(rows, 0, 0) &&
        strcmp(pg_result_text(rows, 0, 1), "refund_brake") == 0)
        code =
            cli_fail(cli, CLI_REFUSED,
                     "the refund brake stopped %s (%s): look at urrctl refunds list, then urrctl "
                     "refunds resume. Nothing was changed.",
                     group, pg_result_null(rows, 0, 2) ? "" : pg_result_text(rows, 0, 2));
    pg_result_free(rows);
    return code;
}

static int run_resume(const struct cli *cli, int argc, char **argv)
{
    const char *group = NULL;
    struct cli_change change = {.command = "consumer resume"};
    const struct cli_option options[] = {
        {"--dry-run", NULL, &change.dry_run}, {"--yes", NULL, &change.yes}, {NULL, NULL, NULL}};
    int code = cli_args(cli, change.command, "GROUP", argc, argv, options, &group, 1, 1, NULL);
    struct subject s = {0};
    if (code == CLI_OK)
        code = open_subject(cli, group, &s);
    if (code == CLI_OK)
        code = refuse_braked(cli, s.pg, group);
    if (code == CLI_OK) {
        struct pg_params p;
        pg_params_init(&p);
        pg_params_text(&p, group);
        pg_params_text(&p, cli_operator());
        pg_params_null(&p);
        struct cli_step step = {.stmt = cli_stmt("consumer_resume.sql"),
                                .params = &p,
                                .none = "the group is not paused",
                                .none_code = CLI_OK,
                                .question = "Let it go on?"};
        change.target = group;
        code = cli_apply(cli, s.pg, &change, &step);
    }
    close_subject(&s);
    return code;
}

static int run_consumer(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_sub subs[] = {
        {"pause", run_pause}, {"resume", run_resume}, {NULL, NULL}};
    return cli_sub(cli, "consumer", subs, argc, argv);
}

static const struct cli_column GAP_COLUMNS[] = {{"database", "database", CLI_TEXT},
                                                {"id", "id", CLI_NUMBER},
                                                {"group", "group", CLI_TEXT},
                                                {"topic", "topic", CLI_TEXT},
                                                {"partition", "partition", CLI_NUMBER},
                                                {"from", "fromOffset", CLI_NUMBER},
                                                {"to", "toOffset", CLI_NUMBER},
                                                {"records", "records", CLI_NUMBER},
                                                {"found", "foundAt", CLI_TIME},
                                                {"accepted", "acceptedAt", CLI_TIME},
                                                {"by", "acceptedBy", CLI_TEXT},
                                                {"note", "note", CLI_TEXT},
                                                {NULL, NULL, CLI_TEXT}};

static int add_gaps(struct pg *pg, const char *database, const char *group, bool all,
                    struct cli_table *t, struct fault *f)
{
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, group);
    pg_params_bool(&p, all);
    int rc = pg_exec(pg, cli_stmt("gaps_list.sql"), &p, &rows, f);
    for (int i = 0; rc == 0 && i < pg_result_rows(rows); i++) {
        cli_put_text(t, database);
        cli_put_number(t, pg_result_int(rows, i, 0));
        cli_put_text(t, pg_result_text(rows, i, 1));
        cli_put_text(t, pg_result_text(rows, i, 2));
        cli_put_number(t, pg_result_int(rows, i, 3));
        cli_put_number(t, pg_result_int(rows, i, 4));
        cli_put_number(t, pg_result_int(rows, i, 5));
        cli_put_number(t, pg_result_int(rows, i, 5) - pg_result_int(rows, i, 4));
        cli_put_time(t, pg_result_time_ms(rows, i, 6));
        if (pg_result_null(rows, i, 7))
            cli_put_null(t);
        else
            cli_put_time(t, pg_result_time_ms(rows, i, 7));
        cli_put_text(t, pg_result_text(rows, i, 8));
        cli_put_text(t, pg_result_text(rows, i, 9));
    }
    pg_result_free(rows);
    return rc;
}

static int run_gaps_list(const struct cli *cli, int argc, char **argv)
{
    const char *group = NULL;
    bool all = false;
    const struct cli_option options[] = {{"--all", NULL, &all}, {NULL, NULL, NULL}};
    int code = cli_args(cli, "gaps list", "[GROUP]", argc, argv, options, &group, 0, 1, NULL);
    struct config *config = NULL;
    if (code == CLI_OK)
        code = cli_settings(cli, CLI_GROUP_SETTINGS, &config);
    if (code == CLI_OK && group) {
        struct cli_group found;
        code = cli_group_find(cli, config, group, &found, NULL);
    }
    struct cli_table *t = cli_table_new(GAP_COLUMNS);
    static const char *const databases[] = {"ticket", "stats"};
    for (size_t i = 0; i < 2 && code == CLI_OK; i++) {
        struct pg *pg = NULL;
        struct fault f = {0};
        if (!config_str(config, cli_database_setting(databases[i])))
            continue;
        code = cli_pg(cli, config, databases[i], &pg);
        int rc = code == CLI_OK ? add_gaps(pg, databases[i], group, all, t, &f) : 0;
        if (rc != 0)
            code = cli_fail(cli, cli_code(rc), "%s_db: %s", databases[i], f.text);
        pg_free(pg);
    }
    if (code == CLI_OK)
        cli_table_show(cli, t, "gaps", all ? "no gaps" : "no open gaps");
    cli_table_free(t);
    config_free(config);
    return code;
}

static int run_gaps_accept(const struct cli *cli, int argc, char **argv)
{
    const char *words[2] = {NULL, NULL}, *note = NULL;
    bool all = false;
    int64_t id = 0;
    struct cli_change change = {.command = "gaps accept"};
    const struct cli_option options[] = {{"--all", NULL, &all},
                                         {"--note", &note, NULL},
                                         {"--dry-run", NULL, &change.dry_run},
                                         {"--yes", NULL, &change.yes},
                                         {NULL, NULL, NULL}};
    int code = cli_args(cli, change.command, "GROUP ID (or GROUP --all)", argc, argv, options,
                        words, 1, 2, NULL);
    if (code == CLI_OK && (words[1] != NULL) == all)
        code = cli_fail(cli, CLI_USAGE, "gaps accept: expected GROUP ID (or GROUP --all)");
    if (code == CLI_OK && words[1])
        code = cli_number(cli, "ID", words[1], 1, INT64_MAX, &id);
    struct subject s = {0};
    if (code == CLI_OK)
        code = open_subject(cli, words[0], &s);
    if (code == CLI_OK) {
        struct pg_params p;
        pg_params_init(&p);
        pg_params_text(&p, words[0]);
        if (all)
            pg_params_null(&p);
        else
            pg_params_int8(&p, id);
        pg_params_text(&p, cli_operator());
        pg_params_text(&p, note);
        struct cli_step step = {.stmt = cli_stmt("gaps_accept.sql"),
                                .params = &p,
                                .none = "no such open gap: urrctl gaps list shows them",
                                .none_code = CLI_REFUSED,
                                .question =
                                    "These records are lost to the group for good. Accept?"};
        change.target = words[0];
        code = cli_apply(cli, s.pg, &change, &step);
    }
    close_subject(&s);
    return code;
}

static int run_gaps(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_sub subs[] = {
        {"list", run_gaps_list}, {"accept", run_gaps_accept}, {NULL, NULL}};
    return cli_sub(cli, "gaps", subs, argc, argv);
}

const struct cli_command CMD_CONSUMER = {
    "consumer", "pause and resume a consumer group",
    "urrctl consumer pause GROUP [--reason TEXT] [--dry-run] [--yes]\n"
    "urrctl consumer resume GROUP [--dry-run] [--yes]\n\n"
    "Every instance of the group obeys within a second, and stays a member meanwhile. A group "
    "that\n"
    "the refund brake stopped is resumed with urrctl refunds resume.\n\nExample:\n"
    "  urrctl consumer pause ticket-service-group --reason 'database upgrade'\n",
    run_consumer, CLI_GROUP_SETTINGS};

const struct cli_command CMD_GAPS = {
    "gaps", "list and accept records that left the log unread",
    "urrctl gaps list [GROUP] [--all]\n"
    "urrctl gaps accept GROUP (ID | --all) [--note TEXT] [--dry-run] [--yes]\n\n"
    "The ticket consumer stands still at a gap until it is accepted, then goes on behind it "
    "within\n"
    "a second.\n\nExample:\n"
    "  urrctl gaps accept ticket-service-group 1 --note 'restored by hand from the backup'\n",
    run_gaps, CLI_GROUP_SETTINGS};

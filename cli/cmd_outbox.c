/* cmd_outbox.c - urrctl outbox: messages that Kafka refused for good. The relay looks each second.
 */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/change.h"
#include "cli/cli.h"
#include "cli/servers.h"
#include "cli/table.h"
#include "runtime/fault.h"
#include "runtime/pg.h"

enum { MAX_LISTED = 1000 };

static const struct config_item *const TABLES[] = {CLI_DATABASE_SETTINGS, NULL};

static const struct cli_column COLUMNS[] = {{"database", "database", CLI_TEXT},
                                            {"id", "id", CLI_NUMBER},
                                            {"topic", "topic", CLI_TEXT},
                                            {"key", "key", CLI_TEXT},
                                            {"bytes", "bytes", CLI_NUMBER},
                                            {"failed", "failedAt", CLI_TIME},
                                            {"retry", "retryRequested", CLI_BOOL},
                                            {"reason", "reason", CLI_TEXT},
                                            {NULL, NULL, CLI_TEXT}};

static int check_database(const struct cli *cli, const char *name)
{
    return cli_database_setting(name)
               ? CLI_OK
               : cli_fail(cli, CLI_USAGE, "outbox: '%s' is not ticket, payment or stats", name);
}

static int add_rows(struct pg *pg, const char *database, struct cli_table *t, struct fault *f)
{
    struct pg_result *rows = NULL;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, MAX_LISTED);
    int rc = pg_exec(pg, cli_stmt("outbox_list.sql"), &p, &rows, f);
    for (int i = 0; rc == 0 && i < pg_result_rows(rows); i++) {
        cli_put_text(t, database);
        cli_put_number(t, pg_result_int(rows, i, 0));
        cli_put_text(t, pg_result_text(rows, i, 1));
        cli_put_text(t, pg_result_text(rows, i, 2));
        cli_put_number(t, pg_result_int(rows, i, 3));
        cli_put_time(t, pg_result_time_ms(rows, i, 4));
        cli_put_bool(t, pg_result_bool(rows, i, 6));
        cli_put_text(t, pg_result_text(rows, i, 5));
    }
    pg_result_free(rows);
    return rc;
}

static int list(const struct cli *cli, const struct config *config, const char *which,
                struct cli_table *t)
{
    int code = CLI_OK;
    bool any = false;
    for (size_t i = 0; CLI_DATABASES[i] && code == CLI_OK; i++) {
        struct pg *pg = NULL;
        struct fault f = {0};
        const char *name = CLI_DATABASES[i];
        if (which ? strcmp(which, name) != 0 : !config_str(config, cli_database_setting(name)))
            continue;
        any = true;
        code = cli_pg(cli, config, name, &pg);
        int rc = code == CLI_OK ? add_rows(pg, name, t, &f) : 0;
        if (rc != 0)
            code = cli_fail(cli, cli_code(rc), "%s_db: %s", name, f.text);
        pg_free(pg);
    }
    if (code == CLI_OK && !any)
        code =
            cli_fail(cli, CLI_USAGE, "no database is set: TICKET_, PAYMENT_, STATS_DATABASE_URL");
    return code;
}

static int run_list(const struct cli *cli, int argc, char **argv)
{
    const char *which = NULL;
    int code = cli_args(cli, "outbox list", "[DATABASE]", argc, argv, NULL, &which, 0, 1, NULL);
    if (code == CLI_OK && which)
        code = check_database(cli, which);
    struct config *config = NULL;
    struct cli_table *t = cli_table_new(COLUMNS);
    if (code == CLI_OK)
        code = cli_settings(cli, TABLES, &config);
    if (code == CLI_OK)
        code = list(cli, config, which, t);
    if (code == CLI_OK)
        cli_table_show(cli, t, "failed", "nothing was refused");
    cli_table_free(t);
    config_free(config);
    return code;
}

static int change(const struct cli *cli, const struct cli_change *c, const char *database,
                  const int64_t *id, const struct cli_step *what)
{
    struct config *config = NULL;
    struct pg *pg = NULL;
    struct pg_params p;
    pg_params_init(&p);
    if (id)
        pg_params_int8(&p, *id);
    else
        pg_params_null(&p);
    struct cli_step step = *what;
    step.params = &p;
    int code = check_database(cli, database);
    if (code == CLI_OK)
        code = cli_settings(cli, TABLES, &config);
    if (code == CLI_OK)
        code = cli_pg(cli, config, database, &pg);
    if (code == CLI_OK)
        code = cli_apply(cli, pg, c, &step);
    pg_free(pg);
    config_free(config);
    return code;
}

static int run_retry(const struct cli *cli, int argc, char **argv)
{
    const char *words[2] = {NULL, NULL};
    bool all = false;
    int64_t id = 0;
    struct cli_change c = {.command = "outbox retry"};
    const struct cli_option options[] = {{"--all", NULL, &all},
                                         {"--dry-run", NULL, &c.dry_run},
                                         {"--yes", NULL, &c.yes},
                                         {NULL, NULL, NULL}};
    int code = cli_args(cli, c.command, "DATABASE ID (or DATABASE --all)", argc, argv, options,
                        words, 1, 2, NULL);
    if (code == CLI_OK && (words[1] != NULL) == all)
        code = cli_fail(cli, CLI_USAGE, "outbox retry: expected DATABASE ID (or DATABASE --all)");
    if (code == CLI_OK && words[1])
        code = cli_number(cli, "ID", words[1], 1, INT64_MAX, &id);
    struct cli_step step = {.stmt = cli_stmt("outbox_retry.sql"),
                            .none = "no such message, or its retry is asked for already",
                            .none_code = all ? CLI_OK : CLI_REFUSED,
                            .question = "Send them again, each key in its order?"};
    return code == CLI_OK ? change(cli, &c, words[0], all ? NULL : &id, &step) : code;
}

static int run_discard(const struct cli *cli, int argc, char **argv)
{
    const char *words[2] = {NULL, NULL};
    int64_t id = 0;
    struct cli_change c = {.command = "outbox discard"};
    const struct cli_option options[] = {
        {"--dry-run", NULL, &c.dry_run}, {"--yes", NULL, &c.yes}, {NULL, NULL, NULL}};
    int code = cli_args(cli, c.command, "DATABASE ID", argc, argv, options, words, 2, 2, NULL);
    if (code == CLI_OK)
        code = cli_number(cli, "ID", words[1], 1, INT64_MAX, &id);
    struct cli_step step = {.stmt = cli_stmt("outbox_discard.sql"),
                            .none = "no such message: urrctl outbox list shows them",
                            .none_code = CLI_REFUSED,
                            .question = "Nobody will ever get this message (the audit keeps it). "
                                        "Discard it?"};
    return code == CLI_OK ? change(cli, &c, words[0], &id, &step) : code;
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_sub subs[] = {
        {"list", run_list}, {"retry", run_retry}, {"discard", run_discard}, {NULL, NULL}};
    return cli_sub(cli, "outbox", subs, argc, argv);
}

const struct cli_command CMD_OUTBOX = {
    "outbox", "messages that Kafka refused for good",
    "urrctl outbox list [ticket|payment|stats]\n"
    "urrctl outbox retry DATABASE (ID | --all) [--dry-run] [--yes]\n"
    "urrctl outbox discard DATABASE ID [--dry-run] [--yes]\n\n"
    "A refused message waits with the later ones of its key. retry sends the whole key again, in\n"
    "order, within a second; discard gives one message up and keeps it in the audit.\n\nExample:\n"
    "  urrctl outbox list ticket && urrctl outbox retry ticket --all\n",
    run, TABLES};

/* cmd_migrate.c - urrctl migrate: which database takes which sets, and how it is told. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/servers.h"
#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/migrate.h"
#include "runtime/pg.h"
#include "urr_sql.h"

static const struct {
    const char *name, *setting;
    const char *sets[5];
} DATABASES[] = {
    {"ticket", "TICKET_DATABASE_URL", {"operator", "outbox", "engine", "ticket", NULL}},
    {"payment", "PAYMENT_DATABASE_URL", {"operator", "outbox", "payment", NULL}},
    {"stats", "STATS_DATABASE_URL", {"operator", "outbox", "engine", "stats", NULL}},
};
enum { DATABASE_COUNT = sizeof DATABASES / sizeof DATABASES[0], MAX_JSON = 1 << 20 };

static const struct config_item *const TABLES[] = {CLI_DATABASE_SETTINGS, NULL};

struct progress {
    const struct cli *cli;
    struct json_out *json;
    const char *database;
    int old, pending, done;
};

static void on_step(const struct migrate_step *step, void *arg)
{
    static const char *const WORDS[] = {"old", "pending", "applied"};
    struct progress *p = arg;
    int *count = step->state == MIGRATE_OLD       ? &p->old
                 : step->state == MIGRATE_PENDING ? &p->pending
                                                  : &p->done;
    (*count)++;
    if (step->state == MIGRATE_OLD)
        return;
    if (!p->cli->json) {
        (void)printf("%s: %s %s\n", p->database, WORDS[step->state], step->file);
        return;
    }
    json_object(p->json, NULL);
    json_put_str(p->json, "database", p->database);
    json_put_str(p->json, "file", step->file);
    json_put_str(p->json, "state", WORDS[step->state]);
    json_end(p->json);
}

static int migrate_one(const struct config *config, size_t i, bool dry_run, struct progress *p,
                       struct fault *f)
{
    struct pg_session session = migrate_session(config_str(config, DATABASES[i].setting));
    struct migrate_options options = {.table = urr_sql,
                                      .sets = DATABASES[i].sets,
                                      .dry_run = dry_run,
                                      .on_step = on_step,
                                      .arg = p};
    struct pg *c = NULL;
    int rc = pg_new(&session, &c, f);
    if (rc == 0)
        rc = pg_connect(c, f);
    if (rc == 0)
        rc = migrate_run(c, &options, f);
    pg_free(c);
    return rc;
}

static bool chosen(const char *which, size_t i)
{
    return strcmp(which, "all") == 0 || strcmp(which, DATABASES[i].name) == 0;
}

/* Before the first change: half of "all" helps nobody. */
static int check_settings(const struct cli *cli, const struct config *config, const char *which)
{
    for (size_t i = 0; i < DATABASE_COUNT; i++)
        if (chosen(which, i) && !config_str(config, DATABASES[i].setting))
            return cli_fail(cli, CLI_USAGE, "%s is not set: postgresql://user:password@host/%s_db",
                            DATABASES[i].setting, DATABASES[i].name);
    return CLI_OK;
}

static int migrate_chosen(const struct cli *cli, const struct config *config, const char *which,
                          bool dry_run, struct json_out *json)
{
    struct progress p = {.cli = cli, .json = json};
    int code = check_settings(cli, config, which);
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; i < DATABASE_COUNT; i++) {
        if (!chosen(which, i))
            continue;
        struct fault f = {0};
        p.database = DATABASES[i].name;
        int rc = migrate_one(config, i, dry_run, &p, &f);
        if (rc != 0)
            return cli_fail(cli, cli_code(rc), "%s_db: %s", DATABASES[i].name, f.text);
    }
    if (!cli->json)
        (void)printf("%d applied, %d pending, %d already there\n", p.done, p.pending, p.old);
    return CLI_OK;
}

static bool known(const char *which)
{
    bool found = strcmp(which, "all") == 0;
    for (size_t i = 0; i < DATABASE_COUNT; i++)
        found = found || strcmp(which, DATABASES[i].name) == 0;
    return found;
}

static int run(const struct cli *cli, int argc, char **argv)
{
    const char *which = NULL;
    bool dry_run = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--dry-run") == 0 || strcmp(argv[i], "--status") == 0)
            dry_run = true;
        else if (!which && known(argv[i]))
            which = argv[i];
        else
            return cli_fail(cli, CLI_USAGE,
                            "migrate: '%s' is not ticket, payment, stats, all or "
                            "--dry-run",
                            argv[i]);
    }
    struct config *config = NULL;
    int code = cli_settings(cli, TABLES, &config);
    if (code != CLI_OK)
        return code;
    struct buf out;
    struct json_out json;
    buf_init(&out, MAX_JSON);
    json_begin(&json, &out);
    json_array(&json, NULL);
    code = migrate_chosen(cli, config, which ? which : "all", dry_run, &json);
    json_end(&json);
    if (cli->json && code == CLI_OK)
        (void)puts(buf_text(&out));
    buf_done(&out);
    config_free(config);
    return code;
}

const struct cli_command CMD_MIGRATE = {
    "migrate", "bring the databases' schemas up to date",
    "urrctl migrate [ticket|payment|stats|all] [--dry-run]\n\n"
    "Applies what is missing, in order; safe to run twice and by two at once. --dry-run (or\n"
    "--status) shows what is pending.\n\nExample:\n  urrctl migrate ticket --dry-run\n",
    run, TABLES};

/* cmd_reconcile.c - urrctl reconcile: exact differences between the books, and their repair. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/args.h"
#include "cli/change.h"
#include "cli/reconcile.h"
#include "cli/stage.h"
#include "cli/table.h"
#include "runtime/buf.h"
#include "runtime/json.h"

enum { MAX_JSON = 64 << 20 };

static const struct config_item SETTINGS[] = {
    {"REDIS_URL", CONFIG_URL, NULL, 0, 0, "redis", "Redis of the seat locks.", CONFIG_OPTIONAL},
    {0}};
static const struct config_item *const TABLES[] = {CLI_DATABASE_SETTINGS, STAGE_SETTINGS, SETTINGS,
                                                   KAFKA_SETTINGS, NULL};

static struct cli_table *tabulate(const struct reconcile *r)
{
    static const struct cli_column COLUMNS[] = {
        {"CHECK", "check", CLI_TEXT},   {"WHAT", "subject", CLI_TEXT},
        {"WANTED", "wanted", CLI_TEXT}, {"FOUND", "found", CLI_TEXT},
        {"STATE", "state", CLI_TEXT},   {"WAY OUT", "wayOut", CLI_TEXT},
        {NULL, NULL, CLI_TEXT}};
    struct cli_table *t = cli_table_new(COLUMNS);
    for (size_t i = 0; i < r->count; i++) {
        const struct difference *d = &r->list[i];
        cli_put_text(t, d->check);
        cli_put_text(t, d->subject);
        cli_put_text(t, d->wanted);
        cli_put_text(t, d->found);
        cli_put_text(t, d->repaired ? "repaired" : "differs");
        cli_put_text(t, d->repaired ? NULL : d->repair ? "--repair" : d->way);
    }
    return t;
}

static size_t left(const struct reconcile *r)
{
    size_t count = r->dropped;
    for (size_t i = 0; i < r->count; i++)
        count += !r->list[i].repaired;
    return count;
}

static void show(const struct cli *cli, const struct reconcile *r)
{
    struct cli_table *t = tabulate(r);
    if (!cli->json) {
        cli_table_text(t, "the books agree");
        for (size_t i = 0; i < r->skipped_count; i++)
            (void)printf("not checked: %s\n", r->skipped[i]);
        if (r->count)
            (void)printf("%zu differences, %zu left\n", r->count + r->dropped, left(r));
    } else {
        struct buf out;
        struct json_out j;
        buf_init(&out, MAX_JSON);
        json_begin(&j, &out);
        json_object(&j, NULL);
        json_put_int(&j, "found", (int64_t)(r->count + r->dropped));
        json_put_int(&j, "left", (int64_t)left(r));
        cli_table_json(t, &j, "differences");
        json_array(&j, "skipped");
        for (size_t i = 0; i < r->skipped_count; i++)
            json_put_str(&j, NULL, r->skipped[i]);
        json_end(&j);
        json_end(&j);
        (void)puts(buf_text(&out));
        buf_done(&out);
    }
    cli_table_free(t);
}

static int run(const struct cli *cli, int argc, char **argv)
{
    bool repair = false, dry_run = false, yes = false;
    const struct cli_option options[] = {
        {"--repair", NULL, &repair}, {"--dry-run", NULL, &dry_run}, {"--yes", NULL, &yes}, {0}};
    struct stage stage = {0};
    struct cli_change change = {
        .command = "reconcile --repair", .target = "ticket_db", .dry_run = dry_run};
    int code = cli_args(cli, "reconcile", "", argc, argv, options, NULL, 0, 0, NULL);
    struct reconcile *r = calloc(1, sizeof *r);
    if (!r)
        return cli_fail(cli, CLI_FAILED, "no memory");
    change.yes = yes;
    if (code == CLI_OK)
        code = stage_open(&stage, cli, TABLES);
    if (code == CLI_OK)
        code = reconcile_run(r, &stage);
    if (code == CLI_OK && repair && !dry_run && reconcile_repairable(r)) {
        if (!cli->json)
            show(cli, r);
        code = cli_confirm(cli, &change, "Repair %zu of these?", reconcile_repairable(r));
        if (code == CLI_OK)
            code = reconcile_repair(r, &change);
    }
    if (code == CLI_OK) {
        show(cli, r);
        code = left(r) ? CLI_FOUND : CLI_OK;
    }
    reconcile_done(r);
    free(r);
    stage_close(&stage);
    return code;
}

const struct cli_command CMD_RECONCILE = {
    "reconcile", "hold the books against each other, and repair",
    "urrctl reconcile [--repair] [--dry-run] [--yes]\n\n"
    "seats      sold and reserved seats against the items of confirmed and pending reservations\n"
    "tokens     fencing tokens of both\n"
    "items      live items against their reservation's status\n"
    "standing   what is available against what the items hold\n"
    "ledger     each paid reservation's payment\n"
    "payments   the ledger against the payment events that were applied (reads the whole log)\n"
    "stats      figures per event against ticket_db, where STATS_DATABASE_URL is set\n"
    "redis      seat locks against the seats, where REDIS_URL is set\n\n"
    "--repair makes seats, items and standing sums follow the reservations, and drops locks that\n"
    "PostgreSQL does not know; each other difference comes with its way out. Exit code 5: "
    "something\n"
    "differs (still).\n\nExample:\n"
    "  urrctl reconcile && urrctl reconcile --repair\n",
    run, TABLES};

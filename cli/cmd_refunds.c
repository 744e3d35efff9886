/* cmd_refunds.c - urrctl refunds: money that was asked back and is not back, and the brake. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/change.h"
#include "cli/cli.h"
#include "cli/servers.h"
#include "cli/table.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/pg.h"

enum { MAX_LISTED = 1000, MAX_JSON = 16 << 20 };

static const struct cli_column COLUMNS[] = {
    {"payment", "paymentId", CLI_TEXT},  {"type", "paymentType", CLI_TEXT},
    {"subject", "subjectId", CLI_TEXT},  {"user", "userId", CLI_TEXT},
    {"amount", "amount", CLI_NUMBER},    {"reason", "reason", CLI_TEXT},
    {"by", "decidedBy", CLI_TEXT},       {"asked", "requestedAt", CLI_TIME},
    {"age s", "ageSeconds", CLI_NUMBER}, {NULL, NULL, CLI_TEXT}};

static void fill(struct cli_table *t, const struct pg_result *rows)
{
    for (int i = 0; i < pg_result_rows(rows); i++) {
        for (int c = 0; c < 4; c++)
            cli_put_text(t, pg_result_text(rows, i, c));
        cli_put_number(t, pg_result_int(rows, i, 4));
        cli_put_text(t, pg_result_text(rows, i, 5));
        cli_put_text(t, pg_result_text(rows, i, 6));
        cli_put_time(t, pg_result_time_ms(rows, i, 7));
        cli_put_number(t, pg_result_int(rows, i, 8));
    }
}

static void show(const struct cli *cli, const char *group, const struct pg_result *state,
                 const struct cli_table *t)
{
    bool braked = pg_result_rows(state) == 1 && pg_result_bool(state, 0, 0) &&
                  strcmp(pg_result_text(state, 0, 1), "refund_brake") == 0;
    const char *detail = braked ? pg_result_text(state, 0, 2) : NULL;
    if (!cli->json) {
        cli_table_text(t, "no refund waits for its answer");
        if (braked)
            (void)printf("\nthe brake holds %s: %s\nurrctl refunds resume lets it go on once you "
                         "have looked\n",
                         group, detail ? detail : "");
        return;
    }
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_bool(&j, "brakeEngaged", braked);
    json_put_str(&j, "brakeDetail", detail);
    cli_table_json(t, &j, "refunds");
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static int list(const struct cli *cli, struct pg *pg, const char *group, int64_t before_ms)
{
    struct pg_result *rows = NULL, *state = NULL;
    struct fault f = {0};
    struct pg_params p, who;
    pg_params_init(&p);
    pg_params_time_ms(&p, before_ms);
    pg_params_int8(&p, MAX_LISTED);
    pg_params_init(&who);
    pg_params_text(&who, group);
    int rc = pg_exec(pg, cli_stmt("refunds_list.sql"), &p, &rows, &f);
    if (rc == 0)
        rc = pg_exec(pg, cli_stmt("consumer_state.sql"), &who, &state, &f);
    if (rc == 0) {
        struct cli_table *t = cli_table_new(COLUMNS);
        fill(t, rows);
        show(cli, group, state, t);
        cli_table_free(t);
    }
    pg_result_free(rows);
    pg_result_free(state);
    return rc == 0 ? CLI_OK : cli_fail(cli, cli_code(rc), "refunds list: %s", f.text);
}

static int run_list(const struct cli *cli, int argc, char **argv)
{
    const char *older = "now";
    int64_t before_ms = 0;
    const struct cli_option options[] = {{"--older-than", &older, NULL}, {NULL, NULL, NULL}};
    int code = cli_args(cli, "refunds list", "", argc, argv, options, NULL, 0, 0, NULL);
    if (code == CLI_OK)
        code = cli_time(cli, "--older-than", older, &before_ms);
    if (code == CLI_OK && strcmp(older, "now") == 0)
        before_ms += 60000; /* the database's clock may run ahead of ours */
    struct config *config = NULL;
    struct pg *pg = NULL;
    if (code == CLI_OK)
        code = cli_settings(cli, CLI_GROUP_SETTINGS, &config);
    if (code == CLI_OK)
        code = cli_pg(cli, config, "ticket", &pg);
    if (code == CLI_OK)
        code = list(cli, pg, config_str(config, "TICKET_CONSUMER_GROUP"), before_ms);
    pg_free(pg);
    config_free(config);
    return code;
}

/* Opens ticket_db and applies one statement whose parameters are already filled. */
static int change_ticket(const struct cli *cli, const struct cli_change *change,
                         struct cli_step *step, const char *file)
{
    struct config *config = NULL;
    struct pg *pg = NULL;
    int code = cli_settings(cli, CLI_GROUP_SETTINGS, &config);
    if (code == CLI_OK)
        code = cli_pg(cli, config, "ticket", &pg);
    step->stmt = cli_stmt(file);
    if (code == CLI_OK)
        code = cli_apply(cli, pg, change, step);
    pg_free(pg);
    config_free(config);
    return code;
}

static int run_resume(const struct cli *cli, int argc, char **argv)
{
    const char *group = NULL, *text = "15";
    int64_t minutes = 0;
    struct cli_change change = {.command = "refunds resume"};
    const struct cli_option options[] = {{"--minutes", &text, NULL},
                                         {"--dry-run", NULL, &change.dry_run},
                                         {"--yes", NULL, &change.yes},
                                         {NULL, NULL, NULL}};
    int code = cli_args(cli, change.command, "[GROUP]", argc, argv, options, &group, 0, 1, NULL);
    if (code == CLI_OK)
        code = cli_number(cli, "--minutes", text, 1, 1440, &minutes);
    struct config *config = NULL;
    if (code == CLI_OK)
        code = cli_settings(cli, CLI_GROUP_SETTINGS, &config);
    struct cli_group found;
    struct pg *pg = NULL;
    if (code == CLI_OK && !group)
        group = config_str(config, "TICKET_CONSUMER_GROUP");
    if (code == CLI_OK)
        code = cli_group_find(cli, config, group, &found, &pg);
    if (code == CLI_OK) {
        struct pg_params p;
        pg_params_init(&p);
        pg_params_text(&p, group);
        pg_params_text(&p, cli_operator());
        pg_params_int4(&p, (int32_t)minutes);
        struct cli_step step = {.stmt = cli_stmt("consumer_resume.sql"),
                                .params = &p,
                                .none = "the group is not paused: no brake holds it",
                                .none_code = CLI_OK,
                                .question = "The brake lets every refund pass for that long. Have "
                                            "you looked, and are they right?"};
        change.target = group;
        code = cli_apply(cli, pg, &change, &step);
    }
    pg_free(pg);
    config_free(config);
    return code;
}

static int run_retry(const struct cli *cli, int argc, char **argv)
{
    const char *payment = NULL;
    struct cli_change change = {.command = "refunds retry"};
    const struct cli_option options[] = {
        {"--dry-run", NULL, &change.dry_run}, {"--yes", NULL, &change.yes}, {NULL, NULL, NULL}};
    int code = cli_args(cli, change.command, "PAYMENT", argc, argv, options, &payment, 1, 1, NULL);
    if (code != CLI_OK)
        return code;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, payment);
    struct cli_step step = {.params = &p,
                            .none = "no refund of that payment waits for its answer",
                            .none_code = CLI_REFUSED,
                            .question = "Send the request to the payment service once more?"};
    change.target = payment;
    return change_ticket(cli, &change, &step, "refunds_retry.sql");
}

static int run_settle(const struct cli *cli, int argc, char **argv)
{
    const char *payment = NULL, *note = NULL;
    struct cli_change change = {.command = "refunds settle"};
    const struct cli_option options[] = {{"--note", &note, NULL},
                                         {"--dry-run", NULL, &change.dry_run},
                                         {"--yes", NULL, &change.yes},
                                         {NULL, NULL, NULL}};
    int code = cli_args(cli, change.command, "PAYMENT", argc, argv, options, &payment, 1, 1, NULL);
    if (code == CLI_OK && !note)
        code = cli_fail(cli, CLI_USAGE, "refunds settle: --note must say how it was settled");
    if (code != CLI_OK)
        return code;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, payment);
    pg_params_text(&p, note);
    struct cli_step step = {.params = &p,
                            .none = "no refund of that payment waits for its answer, or the "
                                    "payment took effect: its seats wait for PAYMENT_REFUNDED",
                            .none_code = CLI_REFUSED,
                            .question = "Nobody will wait for this refund any more. Settled?"};
    change.target = payment;
    return change_ticket(cli, &change, &step, "refunds_settle.sql");
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_sub subs[] = {{"list", run_list},
                                          {"resume", run_resume},
                                          {"retry", run_retry},
                                          {"settle", run_settle},
                                          {NULL, NULL}};
    return cli_sub(cli, "refunds", subs, argc, argv);
}

const struct cli_command CMD_REFUNDS = {
    "refunds", "refunds that were never answered, and the brake",
    "urrctl refunds list [--older-than 15m]\n"
    "urrctl refunds resume [GROUP] [--minutes 15] [--dry-run] [--yes]\n"
    "urrctl refunds retry PAYMENT [--dry-run] [--yes]\n"
    "urrctl refunds settle PAYMENT --note TEXT [--dry-run] [--yes]\n\n"
    "list shows what was asked back and not answered, and whether the brake holds. resume lets "
    "the\n"
    "group go on and its brake pass everything for some minutes. retry asks the payment service\n"
    "again; settle ends the waiting for a payment that never took effect.\n\nExample:\n"
    "  urrctl refunds list && urrctl refunds resume --minutes 15\n",
    run, CLI_GROUP_SETTINGS};

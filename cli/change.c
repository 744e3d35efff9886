/* change.c - nobody changes anything by accident, or unseen. */
#include "cli/change.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/pg.h"
#include "runtime/utf8.h"

int cli_confirm(const struct cli *cli, const struct cli_change *c, const char *question, ...)
{
    if (c->yes)
        return CLI_OK;
    if (cli->json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return cli_fail(cli, CLI_USAGE,
                        "%s: nobody to ask; look with --dry-run, then add --yes. Nothing was "
                        "changed.",
                        c->command);
    char answer[16] = "";
    va_list args;
    va_start(args, question);
    (void)vfprintf(stderr, question, args);
    va_end(args);
    (void)fputs(" [y/N] ", stderr);
    (void)fflush(stdout);
    if (fgets(answer, sizeof answer, stdin) &&
        (strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0))
        return CLI_OK;
    return cli_fail(cli, CLI_REFUSED, "%s: not confirmed; nothing was changed", c->command);
}

const char *cli_operator(void)
{
    static char who[129];
    if (who[0])
        return who;
    char host[65] = "";
    const char *name = getuid() == 0 ? getenv("SUDO_USER") : NULL;
    const struct passwd *account = getpwuid(getuid());
    if (!name || !*name)
        name = account ? account->pw_name : NULL;
    (void)gethostname(host, sizeof host - 1);
    if (name)
        (void)snprintf(who, sizeof who, "%.63s@%s", name, host);
    else
        (void)snprintf(who, sizeof who, "uid %u@%s", (unsigned)getuid(), host);
    if (!utf8_valid(who, strlen(who)))
        (void)snprintf(who, sizeof who, "uid %u", (unsigned)getuid());
    return who;
}

int cli_audit(struct pg *pg, const struct cli_change *c, const char *before, const char *after,
              struct fault *f)
{
    static const struct pg_stmt AUDIT = {
        "cli_audit", "INSERT INTO operator_audit (who, command, target, before, after) VALUES "
                     "($1, $2, $3, $4::jsonb, $5::jsonb)"};
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, cli_operator());
    pg_params_text(&p, c->command);
    pg_params_text(&p, c->target);
    pg_params_text(&p, before);
    pg_params_text(&p, after);
    return pg_exec(pg, &AUDIT, &p, NULL, f);
}

enum { TARGET, BEFORE, AFTER, MAX_JSON = 64 << 20 };

static void put_json(struct json_out *j, const char *key, const char *json)
{
    if (json)
        json_put_raw(j, key, json, strlen(json));
    else
        json_put_null(j, key);
}

static void show_json(const struct cli_change *c, const struct pg_result *rows, bool changed)
{
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_str(&j, "command", c->command);
    json_put_bool(&j, "dryRun", c->dry_run);
    json_put_bool(&j, "changed", changed);
    json_array(&j, "changes");
    for (int i = 0; i < pg_result_rows(rows); i++) {
        json_object(&j, NULL);
        json_put_str(&j, "target", pg_result_text(rows, i, TARGET));
        put_json(&j, "before", pg_result_text(rows, i, BEFORE));
        put_json(&j, "after", pg_result_text(rows, i, AFTER));
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static void show_text(const struct pg_result *rows)
{
    enum { SHOWN = 20, WIDTH = 400 };
    for (int i = 0; i < pg_result_rows(rows) && i < SHOWN; i++) {
        const char *before = pg_result_text(rows, i, BEFORE),
                   *after = pg_result_text(rows, i, AFTER);
        (void)printf("%s\n  now   %.*s\n  then  %.*s\n", pg_result_text(rows, i, TARGET), WIDTH,
                     before ? before : "(not there)", WIDTH, after ? after : "(gone)");
    }
    if (pg_result_rows(rows) > SHOWN)
        (void)printf("... and %d more\n", pg_result_rows(rows) - SHOWN);
}

static int fail(const struct cli *cli, const struct cli_change *c, int rc, const struct fault *f)
{
    return cli_fail(cli, cli_code(rc), "%s: %s; nothing was changed", c->command, f->text);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool as_shown(const struct pg_result *shown, const struct pg_result *now, bool moving)
{
    if (pg_result_rows(shown) != pg_result_rows(now))
        return false;
    for (int i = 0; i < pg_result_rows(now); i++)
        if (!same_text(pg_result_text(shown, i, TARGET), pg_result_text(now, i, TARGET)) ||
            (!moving &&
             !same_text(pg_result_text(shown, i, BEFORE), pg_result_text(now, i, BEFORE))))
            return false;
    return true;
}

/* Begins a transaction, which the caller ends. */
static int run_step(struct pg *pg, const struct cli_step *step, struct pg_result **out,
                    struct fault *f)
{
    int rc = pg_begin(pg, f);
    return rc ? rc : pg_exec(pg, step->stmt, step->params, out, f);
}

static int audit_rows(struct pg *pg, const struct cli_change *c, const struct pg_result *rows,
                      struct fault *f)
{
    int rc = 0;
    for (int i = 0; i < pg_result_rows(rows) && rc == 0; i++) {
        struct cli_change each = *c;
        each.target = pg_result_text(rows, i, TARGET);
        rc = cli_audit(pg, &each, pg_result_text(rows, i, BEFORE), pg_result_text(rows, i, AFTER),
                       f);
    }
    return rc;
}

/* For good, judged by what was shown. */
static int commit_step(const struct cli *cli, struct pg *pg, const struct cli_change *c,
                       const struct cli_step *step, const struct pg_result *shown)
{
    struct pg_result *rows = NULL;
    struct fault f = {0};
    int code = CLI_OK;
    int rc = run_step(pg, step, &rows, &f);
    bool ours = rc == 0 && as_shown(shown, rows, step->moving);
    if (ours)
        rc = audit_rows(pg, c, rows, &f);
    if (ours && rc == 0)
        rc = pg_commit(pg, &f);
    if (!ours || rc != 0)
        pg_rollback(pg);
    if (rc != 0)
        code = fail(cli, c, rc, &f);
    else if (!ours)
        code = cli_fail(cli, CLI_RETRY,
                        "%s: somebody else has changed it meanwhile: look again; nothing was "
                        "changed",
                        c->command);
    else if (cli->json)
        show_json(c, rows, true);
    else
        (void)puts("done");
    pg_result_free(rows);
    return code;
}

int cli_apply(const struct cli *cli, struct pg *pg, const struct cli_change *c,
              const struct cli_step *step)
{
    struct pg_result *rows = NULL;
    struct fault f = {0};
    int code = CLI_OK;
    int rc = run_step(pg, step, &rows, &f);
    pg_rollback(pg);
    if (rc != 0)
        return fail(cli, c, rc, &f);
    bool any = pg_result_rows(rows) > 0;
    if (!any && step->none_code != CLI_OK)
        code = cli_fail(cli, step->none_code, "%s: %s", c->command, step->none);
    else if (cli->json && (c->dry_run || !any))
        show_json(c, rows, false);
    else if (!cli->json && any)
        show_text(rows);
    else if (!cli->json)
        (void)puts(step->none);
    if (any && c->dry_run && !cli->json)
        (void)puts("dry run: nothing was changed");
    if (any && !c->dry_run) {
        code = cli_confirm(cli, c, "%s", step->question);
        if (code == CLI_OK)
            code = commit_step(cli, pg, c, step, rows);
    }
    pg_result_free(rows);
    return code;
}

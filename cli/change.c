/* change.c - nobody changes anything by accident, or unseen. */
#include "cli/change.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
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

/* change.h - a step that changes something: shown first, confirmed, and kept in the audit.
 *
 *   show what would change; with --dry-run stop there (exit 0)
 *   cli_confirm(): asks on the terminal, or needs --yes
 *   BEGIN; the change, judged again by what is there now; cli_audit(); COMMIT
 *
 * One operator may have looked while another acted: the change itself must compare with what was
 * shown (a generation, a state) and fail where it differs. */
#ifndef CLI_CHANGE_H
#define CLI_CHANGE_H
#include <stdbool.h>

struct cli;
struct fault;
struct pg;
struct pg_params;
struct pg_stmt;

struct cli_change {
    const char *command; /* "offsets set": the words of the audit */
    const char *target;  /* what it is done to; borrowed */
    bool dry_run, yes;   /* options of the command: --dry-run, --yes */
};

/* Asks "<question> [y/N]" on the terminal. CLI_OK: go on. CLI_REFUSED: the answer was no.
 * CLI_USAGE: nobody to ask (no terminal, or --json) and no --yes. Says why in both cases. */
__attribute__((format(printf, 3, 4))) int
cli_confirm(const struct cli *cli, const struct cli_change *c, const char *question, ...);

/* Inserts the audit row, in the caller's transaction. `before` and `after` are JSON texts or NULL.
 */
int cli_audit(struct pg *pg, const struct cli_change *c, const char *before, const char *after,
              struct fault *f);

/* The whole of a simple change: runs `stmt` and rolls it back, shows what it would do, asks, runs
 * it for good, with an audit row for each of its rows, in one transaction.
 *
 * The statement answers with a row per thing it changes: target, before, after (texts; the latter
 * two JSON or null). No row: `none` is said with exit code `none_code`. Fewer rows, or others, when
 * run for good than were shown: somebody else was quicker, nothing is changed, CLI_RETRY. With
 * `moving`, `before` may differ (an offset that its consumer moves on). */
struct cli_step {
    const struct pg_stmt *stmt;
    const struct pg_params *params;
    const char *none;
    int none_code;
    bool moving;
    const char *question; /* "Accept this loss?" */
};
int cli_apply(const struct cli *cli, struct pg *pg, const struct cli_change *c,
              const struct cli_step *step);

/* "ann@ops-1": the account urrctl runs under (behind sudo: its caller) and the host. */
const char *cli_operator(void);

#endif

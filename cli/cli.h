/* cli.h - what the command families of urrctl share. One file per family: cmd_<family>.c.
 *
 * Beside it: args.h (command lines), table.h (rows as text and JSON), change.h (confirmation and
 * audit), progress.h (the bar), servers.h (databases, cluster, groups). */
#ifndef CLI_H
#define CLI_H
#include <stdbool.h>

struct config_item;
struct config;
struct fault;

/* Exit codes, the same for every command. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,  /* a server is away, or refused the step: the message says what to do */
    CLI_USAGE = 2,   /* wrong command line or settings */
    CLI_REFUSED = 3, /* refused because it would be wrong (changed migration …) */
    CLI_RETRY = 4,   /* may pass when run again: server away, rows locked, interrupted */
    CLI_FOUND = 5    /* it looked, and something is wrong: what it printed says what */
};

struct cli {
    bool json; /* --json: one JSON document on standard output instead of text */
    const char *config_file;
};

struct cli_command {
    const char *name;                                         /* "migrate" */
    const char *summary;                                      /* one line */
    const char *help;                                         /* arguments, options, an example */
    int (*run)(const struct cli *cli, int argc, char **argv); /* argv[0] is the command's name */
    const struct config_item *const *settings; /* tables, ending with NULL; shown by --help */
};

/* One line per command, as in urrctl.c. */
extern const struct cli_command CMD_CONSUMER;
extern const struct cli_command CMD_DLQ;
extern const struct cli_command CMD_DOCTOR;
extern const struct cli_command CMD_GAPS;
extern const struct cli_command CMD_LAG;
extern const struct cli_command CMD_MIGRATE;
extern const struct cli_command CMD_OFFSETS;
extern const struct cli_command CMD_OUTBOX;
extern const struct cli_command CMD_QUEUE;
extern const struct cli_command CMD_RECONCILE;
extern const struct cli_command CMD_REFUNDS;
extern const struct cli_command CMD_REPLAY;
extern const struct cli_command CMD_SAGA;
extern const struct cli_command CMD_STATS;
extern const struct cli_command CMD_TOKEN;
extern const struct cli_command CMD_TOPICS;
extern const struct cli_command CMD_VERSION;

/* "urrctl: text" on standard error, or {"error":…} on standard output with --json; returns `code`.
 */
__attribute__((format(printf, 3, 4))) int cli_fail(const struct cli *cli, int code, const char *fmt,
                                                   ...);
/* The exit code that goes with a return code. */
int cli_code(int rc);

/* Settings from these tables; CLI_OK or the exit code, after saying why. Free with config_free().
 */
int cli_settings(const struct cli *cli, const struct config_item *const *tables,
                 struct config **out);

#endif

/* args.h - the command line of a command: sub-commands, options, words, numbers, times. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H
#include <stdbool.h>
#include <stdint.h>

struct cli;

/* `value` takes the next word (or what follows "="), `flag` is set to true; one of both. A table
 * ends with a NULL name. */
struct cli_option {
    const char *name; /* "--topic" */
    const char **value;
    bool *flag;
};

/* Sorts argv[1…] into options and words (borrowed). `what` names the command in messages, `usage`
 * its words: "GROUP". CLI_OK, or CLI_USAGE after saying why: an unknown option, one without its
 * value or given twice, fewer than `min` or more than `max` words. *out_count may be NULL. */
int cli_args(const struct cli *cli, const char *what, const char *usage, int argc, char **argv,
             const struct cli_option *options, const char **words, int min, int max,
             int *out_count);

/* Finds argv[1] in the table and hands over with argv[0] = its name. Ends with a NULL name. */
struct cli_sub {
    const char *name;
    int (*run)(const struct cli *cli, int argc, char **argv);
};
int cli_sub(const struct cli *cli, const char *what, const struct cli_sub *subs, int argc,
            char **argv);

/* A whole number in [min, max]; CLI_USAGE after saying which option is wrong. */
int cli_number(const struct cli *cli, const char *option, const char *text, int64_t min,
               int64_t max, int64_t *out);

/* A moment in ms: 2026-11-18T03:00:00+09:00, ms since 1970, "now", or 15m (s, m, h, d) ago. */
int cli_time(const struct cli *cli, const char *option, const char *text, int64_t *out_ms);

/* Nobody saw an error: the same without a message. RC_REJECT with *out_ms untouched. */
int cli_time_parse(const char *text, int64_t now_ms, int64_t *out_ms);

#endif

/* urrctl.c - finds the command and hands over. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/log.h"

/* One line per command, in the order of --help. */
/* clang-format off */
static const struct cli_command *const COMMANDS[] = {
    &CMD_CONSUMER,
    &CMD_DLQ,
    &CMD_DOCTOR,
    &CMD_GAPS,
    &CMD_LAG,
    &CMD_MIGRATE,
    &CMD_OFFSETS,
    &CMD_OUTBOX,
    &CMD_QUEUE,
    &CMD_RECONCILE,
    &CMD_REFUNDS,
    &CMD_REPLAY,
    &CMD_SAGA,
    &CMD_STATS,
    &CMD_TOKEN,
    &CMD_TOPICS,
    &CMD_VERSION,
};
/* clang-format on */
enum { COUNT = sizeof COMMANDS / sizeof COMMANDS[0], MAX_HELP = 1 << 16 };

static void help(void)
{
    (void)puts("urrctl COMMAND [arguments] [--json] [--config FILE] [--help]\n");
    for (size_t i = 0; i < COUNT; i++)
        (void)printf("  %-10s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    (void)puts("\nExit codes: 0 done, 1 failed, 2 wrong use or settings, 3 refused because it "
               "would\nbe wrong, 4 may pass when run again, 5 looked and found something wrong.");
}

static void help_command(const struct cli_command *command)
{
    (void)fputs(command->help, stdout);
    if (!command->settings)
        return;
    struct buf out;
    buf_init(&out, MAX_HELP);
    config_help(command->settings, NULL, &out);
    (void)printf("\nSettings, from the environment or --config FILE:\n%s", buf_text(&out));
    buf_done(&out);
}

/* Takes the options that every command has out of argv; false: --config without its file. */
static bool take_common(struct cli *cli, int *argc, char **argv, bool *out_help)
{
    int kept = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            cli->json = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *out_help = true;
        } else if (strcmp(argv[i], "--config") == 0) {
            if (i + 1 == *argc)
                return false;
            cli->config_file = argv[++i];
        } else {
            argv[kept++] = argv[i];
        }
    }
    *argc = kept;
    return true;
}

int main(int argc, char **argv)
{
    struct cli cli = {0};
    bool wants_help = false;
    log_init("urrctl", LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT, STDERR_FILENO); /* we say it ourselves */
    if (!take_common(&cli, &argc, argv, &wants_help))
        return cli_fail(&cli, CLI_USAGE, "--config needs a file");
    if (argc < 2) {
        help();
        return wants_help ? CLI_OK : CLI_USAGE;
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(argv[1], COMMANDS[i]->name) != 0)
            continue;
        if (!wants_help)
            return COMMANDS[i]->run(&cli, argc - 1, argv + 1);
        help_command(COMMANDS[i]);
        return CLI_OK;
    }
    return cli_fail(&cli, CLI_USAGE, "no command '%s'; urrctl --help lists them", argv[1]);
}

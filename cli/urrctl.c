/* urrctl.c - finds the command and hands over. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct cli_command *const COMMANDS[] = {&CMD_MIGRATE, &CMD_TOPICS, &CMD_VERSION};
enum { COUNT = sizeof COMMANDS / sizeof COMMANDS[0] };

static void help(void)
{
    (void)puts("urrctl COMMAND [arguments] [--json] [--config FILE] [--help]\n");
    for (size_t i = 0; i < COUNT; i++)
        (void)printf("  %-10s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    (void)puts("\nExit codes: 0 done, 1 failed, 2 wrong use or settings, 3 refused (nothing was "
               "done),\n4 may pass when run again.");
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
        (void)fputs(COMMANDS[i]->help, stdout);
        return CLI_OK;
    }
    return cli_fail(&cli, CLI_USAGE, "no command '%s'; urrctl --help lists them", argv[1]);
}

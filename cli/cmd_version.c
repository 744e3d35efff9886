/* cmd_version.c - urrctl version. */
#include <stdio.h>

#include "cli/cli.h"

static int run(const struct cli *cli, int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return cli_fail(cli, CLI_USAGE, "version takes no arguments");
    (void)printf(cli->json ? "{\"version\":\"%s\"}\n" : "urrctl %s\n", URR_VERSION);
    return CLI_OK;
}

const struct cli_command CMD_VERSION = {"version", "print the version",
                                        "urrctl version\n\nExample:\n  urrctl version --json\n",
                                        run, NULL};

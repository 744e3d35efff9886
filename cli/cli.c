/* cli.c - messages, exit codes and settings of the commands. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/config_names.h"
#include "runtime/fault.h"
#include "runtime/json.h"

int cli_fail(const struct cli *cli, int code, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!cli->json) {
        (void)fprintf(stderr, "urrctl: %s\n", text);
        return code;
    }
    struct buf out;
    struct json_out j;
    buf_init(&out, 4096);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_str(&j, "error", text);
    json_put_int(&j, "exit", code);
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
    return code;
}

int cli_code(int rc)
{
    if (rc == 0)
        return CLI_OK;
    if (rc == RC_RETRY)
        return CLI_RETRY;
    return rc == RC_REJECT ? CLI_REFUSED : CLI_FAILED;
}

int cli_settings(const struct cli *cli, const struct config_item *const *tables,
                 struct config **out)
{
    struct fault f = {0};
    if (config_load(tables, config_names(), cli->config_file, out, &f) != 0)
        return cli_fail(cli, CLI_USAGE, "%s", f.text);
    return CLI_OK;
}

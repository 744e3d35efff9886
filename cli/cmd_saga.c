/* cmd_saga.c - urrctl saga: one saga's whole story. */
#include <stdio.h>

#include "cli/args.h"
#include "cli/saga.h"
#include "cli/stage.h"
#include "runtime/buf.h"
#include "runtime/json.h"

enum { MAX_JSON = 16 << 20 };

static const struct config_item *const TABLES[] = {CLI_DATABASE_SETTINGS, STAGE_SETTINGS,
                                                   KAFKA_SETTINGS, NULL};

static void show(const struct cli *cli, const struct saga *s)
{
    struct buf out;
    struct json_out j;
    if (!cli->json) {
        saga_print(s);
        return;
    }
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    saga_json(s, &j);
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_option NONE[] = {{0}};
    const char *name = NULL;
    struct stage stage = {0};
    struct saga s = {0};
    int code =
        cli_args(cli, "saga", "SAGA_ID|RESERVATION|PAYMENT", argc, argv, NONE, &name, 1, 1, NULL);
    if (code == CLI_OK)
        code = stage_open(&stage, cli, TABLES);
    if (code == CLI_OK && !stage_has(&stage, STAGE_TICKET))
        code = cli_fail(cli, CLI_USAGE, "TICKET_DATABASE_URL is not set");
    if (code == CLI_OK)
        code = saga_read(&s, &stage, name, true);
    if (code == CLI_OK)
        show(cli, &s);
    saga_done(&s);
    stage_close(&stage);
    return code;
}

const struct cli_command CMD_SAGA = {
    "saga", "follow one reservation or payment from its hold to its end",
    "urrctl saga SAGA_ID|RESERVATION|PAYMENT\n\n"
    "The whole story in order of time: reservation, holds, payments, ledger, what stands in Kafka\n"
    "(topic/partition/offset), what waits in an outbox, dead letters, refunds. The name may be "
    "the\n"
    "id of a saga, reservation, payment, order, transfer or membership, or a reservation number.\n"
    "payment_db is asked too where PAYMENT_DATABASE_URL is set. Exit code 3: nothing of that\n"
    "name.\n\nExample:\n"
    "  urrctl saga 3f0c9a52-5d1e-4d0e-9b34-0f2b8f0a7c11\n",
    run, TABLES};

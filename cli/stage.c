/* stage.c - one place that opens servers and says plainly why one could not be. */
#include "cli/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_sql.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/kafka_admin.h"
#include "runtime/pg.h"

enum { ANSWER_MS = 10000, MAX_STATEMENTS = 64, REPLY_MS = 120000 };

const struct config_item STAGE_SETTINGS[] = {{"TICKET_CONSUMER_GROUP", CONFIG_STRING,
                                              "ticket-service-group", 1, 100, NULL,
                                              "Consumer group of the ticket consumer.", 0},
                                             {0}};

static const struct {
    const char *name, *setting;
} DATABASES[STAGE_DATABASES] = {{"ticket", "TICKET_DATABASE_URL"},
                                {"payment", "PAYMENT_DATABASE_URL"},
                                {"stats", "STATS_DATABASE_URL"}};

int stage_open(struct stage *s, const struct cli *cli, const struct config_item *const *tables)
{
    *s = (struct stage){.cli = cli};
    int code = cli_settings(cli, tables, &s->config);
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; tables[i]; i++)
        s->has_kafka = s->has_kafka || tables[i] == KAFKA_SETTINGS;
    if (s->has_kafka)
        kafka_client_from_config(s->config, "urrctl", &s->kafka);
    return CLI_OK;
}

void stage_close(struct stage *s)
{
    for (int i = 0; i < STAGE_DATABASES; i++)
        pg_free(s->pg[i]);
    kafka_admin_close(s->admin);
    if (s->config)
        config_free(s->config);
    *s = (struct stage){0};
}

bool stage_has(const struct stage *s, enum stage_database which)
{
    return config_str(s->config, DATABASES[which].setting) != NULL;
}

const char *stage_name(enum stage_database which)
{
    return DATABASES[which].name;
}

int stage_fail(const struct stage *s, int rc, const struct fault *f)
{
    return cli_fail(s->cli, cli_code(rc), "%s", f->text);
}

int stage_pg(struct stage *s, enum stage_database which, struct pg **out)
{
    const char *name = DATABASES[which].name;
    struct fault f = {0};
    if (!stage_has(s, which))
        return cli_fail(s->cli, CLI_USAGE, "%s is not set: postgresql://user:password@host/%s_db",
                        DATABASES[which].setting, name);
    struct pg_session session = {.uri = config_str(s->config, DATABASES[which].setting),
                                 .application_name = "urrctl",
                                 .reply_timeout_ms = REPLY_MS,
                                 .statement_timeout_ms = REPLY_MS,
                                 .idle_in_transaction_ms = 60000};
    int rc = s->pg[which] ? 0 : pg_new(&session, &s->pg[which], &f);
    if (rc == 0 && !pg_connected(s->pg[which]))
        rc = pg_connect(s->pg[which], &f);
    if (rc != 0)
        return cli_fail(s->cli, cli_code(rc), "%s_db: %s", name, f.text);
    *out = s->pg[which];
    return CLI_OK;
}

int stage_kafka(struct stage *s, struct kafka_admin **out)
{
    struct fault f = {0};
    int rc = s->admin ? 0 : kafka_admin_open(&s->kafka, &s->admin, &f);
    if (rc == 0)
        rc = kafka_admin_ping(s->admin, ANSWER_MS, &f);
    if (rc != 0)
        return cli_fail(s->cli, cli_code(rc), "%s: %s", s->kafka.brokers, f.text);
    *out = s->admin;
    return CLI_OK;
}

const struct pg_stmt *stage_sql(const char *file)
{
    static struct pg_stmt statements[MAX_STATEMENTS];
    static const char *files[MAX_STATEMENTS];
    for (size_t i = 0; i < MAX_STATEMENTS; i++) {
        if (files[i] && strcmp(files[i], file) == 0)
            return &statements[i];
        if (files[i])
            continue;
        const struct embed_file *found = embed_find(cli_sql, file);
        if (!found)
            break;
        files[i] = found->name;
        statements[i] = (struct pg_stmt){found->name, found->data};
        return &statements[i];
    }
    (void)fprintf(stderr, "urrctl: no statement %s\n", file);
    abort();
}

enum stage_database stage_of_group(const struct stage *s, const char *group)
{
    if (!group)
        return STAGE_DATABASES;
    if (strcmp(group, config_str(s->config, "TICKET_CONSUMER_GROUP")) == 0)
        return STAGE_TICKET;
    return strcmp(group, "stats-service-group") == 0 ? STAGE_STATS : STAGE_DATABASES;
}

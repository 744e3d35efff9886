/* servers.c - connections, and which groups there are. */
#include "cli/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli_sql.h"
#include "consumers/engine/engine.h"
#include "consumers/stats/stats_consumer.h"
#include "consumers/ticket/ticket_consumer.h"
#include "events/topics.h"
#include "runtime/fault.h"
#include "runtime/kafka.h"
#include "runtime/kafka_admin.h"
#include "runtime/pg.h"

#define SCHEMES "postgresql|postgres"
const struct config_item CLI_DATABASE_SETTINGS[] = {
    {"TICKET_DATABASE_URL", CONFIG_URL, NULL, 0, 0, SCHEMES, "Database of seats and reservations.",
     CONFIG_OPTIONAL},
    {"PAYMENT_DATABASE_URL", CONFIG_URL, NULL, 0, 0, SCHEMES, "Database of payments.",
     CONFIG_OPTIONAL},
    {"STATS_DATABASE_URL", CONFIG_URL, NULL, 0, 0, SCHEMES, "Database of statistics.",
     CONFIG_OPTIONAL},
    {NULL, CONFIG_STRING, NULL, 0, 0, NULL, NULL, 0},
};

const char *const CLI_DATABASES[] = {"ticket", "payment", "stats", NULL};

const struct config_item *const CLI_GROUP_SETTINGS[] = {CLI_DATABASE_SETTINGS,    KAFKA_SETTINGS,
                                                        TICKET_CONSUMER_SETTINGS, STATS_SETTINGS,
                                                        ENGINE_SETTINGS,          NULL};

const char *cli_database_setting(const char *database)
{
    for (size_t i = 0; CLI_DATABASES[i]; i++)
        if (strcmp(CLI_DATABASES[i], database) == 0)
            return CLI_DATABASE_SETTINGS[i].name;
    return NULL;
}

int cli_pg(const struct cli *cli, const struct config *config, const char *database,
           struct pg **out)
{
    const char *setting = cli_database_setting(database);
    const char *url = config_str(config, setting);
    if (!url)
        return cli_fail(cli, CLI_USAGE, "%s is not set: postgresql://user:password@host/%s_db",
                        setting, database);
    struct pg_session session = {.uri = url, .application_name = "urrctl"};
    struct fault f = {0};
    struct pg *pg = NULL;
    int rc = pg_new(&session, &pg, &f);
    if (rc == 0)
        rc = pg_connect(pg, &f);
    if (rc != 0) {
        pg_free(pg);
        return cli_fail(cli, cli_code(rc), "%s_db: %s", database, f.text);
    }
    *out = pg;
    return CLI_OK;
}

int cli_kafka(const struct cli *cli, const struct config *config, struct kafka_admin **out)
{
    struct kafka_client_options client;
    struct kafka_admin *admin = NULL;
    struct fault f = {0};
    kafka_client_from_config(config, "urrctl", &client);
    int rc = kafka_admin_open(&client, &admin, &f);
    if (rc == 0)
        rc = kafka_admin_ping(admin, CLI_KAFKA_MS, &f);
    if (rc != 0) {
        kafka_admin_close(admin);
        return cli_fail(cli, cli_code(rc), "%s: %s", client.brokers, f.text);
    }
    *out = admin;
    return CLI_OK;
}

const struct pg_stmt *cli_stmt(const char *file)
{
    enum { MAX = 64 };
    static struct pg_stmt statements[MAX];
    size_t i = 0;
    while (i < MAX && statements[i].name && strcmp(statements[i].name, file) != 0)
        i++;
    const struct embed_file *found = embed_find(cli_sql, file);
    if (!found || i == MAX) {
        (void)fprintf(stderr, "urrctl: there is no statement %s\n", file);
        abort();
    }
    statements[i] = (struct pg_stmt){found->name, found->data};
    return &statements[i];
}

static void add_configured(const struct config *config, struct cli_group *out, size_t *count)
{
    static const char *const STATS_TOPICS[] = {TOPIC_PAYMENT_EVENTS, TOPIC_RESERVATION_EVENTS,
                                               TOPIC_TRANSFER_EVENTS, TOPIC_MEMBERSHIP_EVENTS};
    if (config_str(config, "TICKET_DATABASE_URL")) {
        struct cli_group *g = &out[(*count)++];
        *g = (struct cli_group){.database = "ticket", .configured = true};
        (void)snprintf(g->name, sizeof g->name, "%s", config_str(config, "TICKET_CONSUMER_GROUP"));
        g->topics[0] = config_str(config, "TICKET_CONSUMER_TOPIC");
    }
    if (config_str(config, "STATS_DATABASE_URL")) {
        struct cli_group *g = &out[(*count)++];
        *g = (struct cli_group){.database = "stats", .configured = true};
        (void)snprintf(g->name, sizeof g->name, "%s", STATS_GROUP);
        memcpy(g->topics, STATS_TOPICS, sizeof STATS_TOPICS);
    }
}

static bool known(const struct cli_group *groups, size_t count, const char *name,
                  const char *database)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(groups[i].name, name) == 0 && strcmp(groups[i].database, database) == 0)
            return true;
    return false;
}

static int add_stored(struct pg *pg, const char *database, struct cli_group *out, size_t *count,
                      struct fault *f)
{
    static const struct pg_stmt GROUPS = {
        "cli_groups", "SELECT DISTINCT consumer_group::text FROM consumer_offsets WHERE "
                      "consumer_group NOT LIKE 'replay:%' ORDER BY 1"};
    struct pg_result *rows = NULL;
    int rc = pg_exec(pg, &GROUPS, NULL, &rows, f);
    if (rc != 0)
        return rc;
    for (int i = 0; i < pg_result_rows(rows) && *count < CLI_MAX_GROUPS; i++) {
        const char *name = pg_result_text(rows, i, 0);
        if (known(out, *count, name, database))
            continue;
        struct cli_group *g = &out[(*count)++];
        *g = (struct cli_group){.database = database};
        (void)snprintf(g->name, sizeof g->name, "%s", name);
    }
    pg_result_free(rows);
    return 0;
}

int cli_groups(const struct cli *cli, const struct config *config, struct cli_group *out,
               size_t *out_count)
{
    static const char *const WITH_CONSUMERS[] = {"ticket", "stats"};
    *out_count = 0;
    add_configured(config, out, out_count);
    if (*out_count == 0)
        return cli_fail(cli, CLI_USAGE,
                        "neither TICKET_DATABASE_URL nor STATS_DATABASE_URL is "
                        "set: postgresql://user:password@host/ticket_db");
    for (size_t i = 0; i < sizeof WITH_CONSUMERS / sizeof *WITH_CONSUMERS; i++) {
        struct pg *pg = NULL;
        struct fault f = {0};
        if (!config_str(config, cli_database_setting(WITH_CONSUMERS[i])))
            continue;
        int code = cli_pg(cli, config, WITH_CONSUMERS[i], &pg);
        if (code != CLI_OK)
            return code;
        int rc = add_stored(pg, WITH_CONSUMERS[i], out, out_count, &f);
        pg_free(pg);
        if (rc != 0)
            return cli_fail(cli, cli_code(rc), "%s_db: %s", WITH_CONSUMERS[i], f.text);
    }
    return CLI_OK;
}

int cli_group_find(const struct cli *cli, const struct config *config, const char *name,
                   struct cli_group *out, struct pg **out_pg)
{
    struct cli_group groups[CLI_MAX_GROUPS];
    char names[300] = "";
    size_t count = 0, used = 0;
    int code = cli_groups(cli, config, groups, &count);
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(groups[i].name, name) == 0) {
            *out = groups[i];
            return out_pg ? cli_pg(cli, config, out->database, out_pg) : CLI_OK;
        }
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                     groups[i].name);
    }
    return cli_fail(cli, CLI_USAGE, "no group '%s'; there are: %s", name, names);
}

/* servers.h - the databases and the cluster a command works on, and the consumer groups in them. */
#ifndef CLI_SERVERS_H
#define CLI_SERVERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/config.h"

struct cli;
struct kafka_admin;
struct pg;

/* TICKET_, PAYMENT_ and STATS_DATABASE_URL, all optional: a command names the one it misses. List
 * it before a daemon's own table, which may require one of them. */
extern const struct config_item CLI_DATABASE_SETTINGS[];

/* "ticket", "payment", "stats"; end with NULL. */
extern const char *const CLI_DATABASES[];
/* The name of a database's setting; NULL: no such database. */
const char *cli_database_setting(const char *database);

enum { CLI_KAFKA_MS = 10000 }; /* how long to wait for the cluster's answers */

/* A connection for an operator's steps: 30 s per statement, 5 s for a lock. CLI_OK, or an exit code
 * after saying why (CLI_USAGE: the setting is missing). Free with pg_free(). */
int cli_pg(const struct cli *cli, const struct config *config, const char *database,
           struct pg **out);
/* The same for the cluster, once a broker has answered. Close with kafka_admin_close(). */
int cli_kafka(const struct cli *cli, const struct config *config, struct kafka_admin **out);

/* The statement of a file below cli/sql, prepared under its name. Aborts where there is none. */
struct pg_stmt;
const struct pg_stmt *cli_stmt(const char *file);

/* A consumer group: the configured ones, and whoever has offset rows in one of the databases. */
enum { CLI_GROUP_NAME = 100, CLI_GROUP_TOPICS = 32, CLI_MAX_GROUPS = 64 };
struct cli_group {
    char name[CLI_GROUP_NAME + 1];
    const char *database; /* "ticket" */
    const char
        *topics[CLI_GROUP_TOPICS + 1]; /* of the configured ones; NULL: see the offset rows */
    bool configured;
};

/* Settings that say which groups there are; end with NULL. KAFKA_BROKERS is among them. */
extern const struct config_item *const CLI_GROUP_SETTINGS[];

/* Rows of a second reader (urrctl replay, a rebuild) stand under a name that starts so. */
#define CLI_READER_PREFIX "replay:"

/* All groups of the databases that are set. */
int cli_groups(const struct cli *cli, const struct config *config, struct cli_group *out,
               size_t *out_count);
/* One of them, by name; CLI_USAGE after naming those there are. Opens its database. */
int cli_group_find(const struct cli *cli, const struct config *config, const char *name,
                   struct cli_group *out, struct pg **out_pg);

#endif

/* stage.h - the servers a command works with: settings, databases, Kafka; opened when asked for. */
#ifndef STAGE_H
#define STAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/servers.h"
#include "runtime/kafka.h"

struct config_item;
struct fault;
struct kafka_admin;
struct pg;
struct pg_stmt;

enum stage_database { STAGE_TICKET, STAGE_PAYMENT, STAGE_STATS, STAGE_DATABASES };

/* TICKET_CONSUMER_GROUP. A command lists it beside CLI_DATABASE_SETTINGS, which stage needs too. */
extern const struct config_item STAGE_SETTINGS[];

/* Caller's memory; zeroed before stage_open(). */
struct stage {
    const struct cli *cli;
    struct config *config;
    struct pg *pg[STAGE_DATABASES];
    struct kafka_admin *admin;
    struct kafka_client_options kafka;
    bool has_kafka;
};

/* Loads the settings; CLI_OK or the exit code, after saying why. */
int stage_open(struct stage *s, const struct cli *cli, const struct config_item *const *tables);
void stage_close(struct stage *s);

bool stage_has(const struct stage *s, enum stage_database which); /* its URL is set */
const char *stage_name(enum stage_database which);                /* "ticket" */
/* The database, connected. CLI_OK or the exit code, after saying why (a URL that is not set too).
 */
int stage_pg(struct stage *s, enum stage_database which, struct pg **out);
/* The admin client of a cluster that answers. */
int stage_kafka(struct stage *s, struct kafka_admin **out);
/* Says it and returns the exit code. */
int stage_fail(const struct stage *s, int rc, const struct fault *f);

/* The statement of a file below cli/sql, prepared under its name. Aborts when there is none. */
const struct pg_stmt *stage_sql(const char *file);

/* Which database keeps the books of a consumer group; STAGE_DATABASES: none known. */
enum stage_database stage_of_group(const struct stage *s, const char *group);

#endif

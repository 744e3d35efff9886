/* cmd_doctor.c - urrctl doctor: everything that is wrong or about to be, on one screen.
 *
 * A server that does not answer is a finding, not the end: the other checks go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "cli/args.h"
#include "cli/redis_ask.h"
#include "cli/stage.h"
#include "cli/table.h"
#include "events/topics.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/kafka_admin.h"
#include "runtime/migrate.h"
#include "runtime/pg.h"
#include "urr_sql.h"

enum {
    ASK_MS = 5000,
    SKEW_WARN_MS = 1000,
    SKEW_BAD_MS = 5000,
    MAX_TOPICS = 32,
    MAX_JSON = 1 << 20
};

static const struct config_item SETTINGS[] = {{"REDIS_URL", CONFIG_URL, NULL, 0, 0, "redis",
                                               "Redis of the waiting room and seat locks.",
                                               CONFIG_OPTIONAL},
                                              {0}};
static const struct config_item *const TABLES[] = {CLI_DATABASE_SETTINGS, STAGE_SETTINGS, SETTINGS,
                                                   KAFKA_SETTINGS,        TOPIC_SETTINGS, NULL};

struct doctor {
    struct stage stage;
    struct cli_table *table;
    size_t bad, warn, looked;
};

static void say(struct doctor *d, const char *level, const char *check, const char *what,
                const char *page)
{
    char address[160];
    (void)snprintf(address, sizeof address, "docs/runbook.md#%s", page);
    cli_put_text(d->table, level);
    cli_put_text(d->table, check);
    cli_put_text(d->table, what);
    cli_put_text(d->table, address);
    d->bad += strcmp(level, "bad") == 0;
    d->warn += strcmp(level, "warn") == 0;
}

static void say_rows(struct doctor *d, struct pg *pg, const char *file, const char *name)
{
    struct pg_result *rows = NULL;
    struct fault f = {0};
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, name);
    if (pg_exec(pg, stage_sql(file), &p, &rows, &f) != 0) {
        say(d, "bad", "database", f.text, "server-away");
        return;
    }
    d->looked++;
    for (int i = 0; i < pg_result_rows(rows); i++)
        say(d, pg_result_text(rows, i, 0), pg_result_text(rows, i, 1), pg_result_text(rows, i, 2),
            pg_result_text(rows, i, 3));
    pg_result_free(rows);
}

static void say_skew(struct doctor *d, const char *who, int64_t theirs_ms)
{
    char text[160];
    int64_t skew = theirs_ms - clock_wall_ms();
    int64_t size = skew < 0 ? -skew : skew;
    d->looked++;
    if (size < SKEW_WARN_MS)
        return;
    (void)snprintf(text, sizeof text, "the clock of %s differs from this machine's by %lld ms", who,
                   (long long)skew);
    say(d, size < SKEW_BAD_MS ? "warn" : "bad", "clock", text, "clock-skew");
}

static void count_pending(const struct migrate_step *step, void *arg)
{
    *(int *)arg += step->state == MIGRATE_PENDING;
}

/* Versions: what this program knows and the database does not have, or the other way round. */
static void check_schema(struct doctor *d, struct pg *pg, const char *name)
{
    static const char *const SETS[][5] = {{"operator", "outbox", "engine", "ticket", NULL},
                                          {"operator", "outbox", "payment", NULL},
                                          {"operator", "outbox", "engine", "stats", NULL}};
    char text[300];
    struct fault f = {0};
    int pending = 0;
    size_t which = strcmp(name, "ticket") == 0 ? 0 : strcmp(name, "payment") == 0 ? 1 : 2;
    struct migrate_options options = {.table = urr_sql,
                                      .sets = SETS[which],
                                      .dry_run = true,
                                      .on_step = count_pending,
                                      .arg = &pending};
    d->looked++;
    if (migrate_run(pg, &options, &f) != 0)
        (void)snprintf(text, sizeof text, "%s_db: %s", name, f.text);
    else if (pending)
        (void)snprintf(text, sizeof text, "%s_db: %d migrations are pending: urrctl migrate %s",
                       name, pending, name);
    else
        return;
    say(d, "bad", "versions", text, "versions");
}

static void check_database(struct doctor *d, enum stage_database which)
{
    static const struct pg_stmt NOW = {NULL, "SELECT clock_timestamp()"};
    const char *name = stage_name(which);
    struct pg_session session = {0};
    struct pg_result *rows = NULL;
    struct fault f = {0};
    struct pg *pg = NULL;
    char text[300];
    if (!stage_has(&d->stage, which))
        return;
    session.uri = config_str(d->stage.config, cli_database_setting(name));
    session.application_name = "urrctl";
    if (pg_new(&session, &pg, &f) != 0 || pg_connect(pg, &f) != 0) {
        (void)snprintf(text, sizeof text, "%s_db: %s", name, f.text);
        say(d, "bad", "database", text, "server-away");
        pg_free(pg);
        return;
    }
    if (pg_exec(pg, &NOW, NULL, &rows, &f) == 0)
        say_skew(d, "PostgreSQL", pg_result_time_ms(rows, 0, 0));
    pg_result_free(rows);
    check_schema(d, pg, name);
    say_rows(d, pg, "doctor_database.sql", name);
    if (which != STAGE_PAYMENT)
        say_rows(d, pg, "doctor_consumer.sql", name);
    if (which == STAGE_TICKET)
        say_rows(d, pg, "doctor_ticket.sql", name);
    pg_free(pg);
}

static const char *config_of(redisContext *c, const char *name, char *out, size_t size)
{
    struct fault f;
    redisReply *reply = redis_ask(c, &f, "CONFIG GET %s", name);
    out[0] = '\0';
    if (reply && reply->elements == 2)
        (void)snprintf(out, size, "%s", reply->element[1]->str);
    if (reply)
        freeReplyObject(reply);
    return out;
}

static int64_t info_number(const char *info, const char *name)
{
    const char *at = strstr(info, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

static void check_redis_state(struct doctor *d, redisContext *c)
{
    char value[64], text[160];
    struct fault f = {0};
    d->looked += 4;
    if (strcmp(config_of(c, "appendonly", value, sizeof value), "yes") != 0)
        say(d, "bad", "redis", "appendonly is not yes: a restart loses the waiting room's order",
            "redis-unsafe");
    if (strcmp(config_of(c, "maxmemory-policy", value, sizeof value), "noeviction") != 0) {
        (void)snprintf(text, sizeof text, "maxmemory-policy is %s, not noeviction: places vanish",
                       value);
        say(d, "bad", "redis", text, "redis-unsafe");
    }
    redisReply *info = redis_ask(c, &f, "INFO");
    if (!info)
        return;
    if (strstr(info->str, "aof_last_write_status:err") ||
        strstr(info->str, "rdb_last_bgsave_status:err"))
        say(d, "bad", "redis", "the last write of its files failed: is the disk full?",
            "redis-unsafe");
    int64_t used = info_number(info->str, "used_memory:"),
            most = info_number(info->str, "maxmemory:");
    if (most > 0 && used > most / 10 * 8) {
        (void)snprintf(text, sizeof text, "%lld of %lld bytes of memory are used", (long long)used,
                       (long long)most);
        say(d, used > most / 100 * 95 ? "bad" : "warn", "redis", text, "redis-memory");
    }
    freeReplyObject(info);
}

static void check_redis(struct doctor *d)
{
    redisContext *c = NULL;
    struct fault f = {0};
    if (!config_str(d->stage.config, "REDIS_URL"))
        return;
    if (redis_ask_open(config_str(d->stage.config, "REDIS_URL"), &c, &f) != 0) {
        say(d, "bad", "redis", f.text, "server-away");
        return;
    }
    check_redis_state(d, c);
    redisReply *time = redis_ask(c, &f, "TIME");
    if (time && time->elements == 2)
        say_skew(d, "Redis",
                 strtoll(time->element[0]->str, NULL, 10) * 1000 +
                     strtoll(time->element[1]->str, NULL, 10) / 1000);
    if (time)
        freeReplyObject(time);
    redisFree(c);
}

static void check_topic(struct doctor *d, const struct topic_plan *plan)
{
    char text[512];
    struct fault f = {0};
    int32_t partitions = 0;
    if (kafka_admin_partitions(d->stage.admin, plan->name, ASK_MS, &partitions, &f) != 0)
        (void)snprintf(text, sizeof text, "%s: %s", plan->name, f.text);
    else if (partitions == 0)
        (void)snprintf(text, sizeof text, "%s is missing: urrctl topics create", plan->name);
    else if (partitions != plan->partitions)
        (void)snprintf(text, sizeof text, "%s has %d partitions, the setting says %d", plan->name,
                       (int)partitions, plan->partitions);
    else
        return;
    say(d, partitions ? "warn" : "bad", "topics", text, "topics");
}

/* Domain topics keep everything: a log that starts above 0 has lost what stats are rebuilt from. */
static void check_start(struct doctor *d, const char *topic)
{
    char text[512];
    struct fault f = {0};
    int32_t partitions = 0;
    if (kafka_admin_partitions(d->stage.admin, topic, ASK_MS, &partitions, &f) != 0)
        return;
    for (int32_t n = 0; n < partitions; n++) {
        int64_t low = 0, high = 0;
        if (kafka_admin_watermarks(d->stage.admin, topic, n, ASK_MS, &low, &high, &f) != 0 ||
            low == 0)
            continue;
        (void)snprintf(text, sizeof text,
                       "%s[%d] starts at %lld: its beginning was deleted (retention.ms=-1?)", topic,
                       (int)n, (long long)low);
        say(d, "warn", "topics", text, "topics");
    }
}

static void check_kafka(struct doctor *d)
{
    static struct topic_plan plan;
    struct fault f = {0};
    char text[300];
    if (kafka_admin_open(&d->stage.kafka, &d->stage.admin, &f) != 0 ||
        kafka_admin_ping(d->stage.admin, ASK_MS, &f) != 0) {
        (void)snprintf(text, sizeof text, "%s: %s", d->stage.kafka.brokers, f.text);
        say(d, "bad", "kafka", text, "server-away");
        return;
    }
    for (size_t i = 0; i < MAX_TOPICS && topic_plan(d->stage.config, i, &plan); i++) {
        d->looked++;
        check_topic(d, &plan);
    }
    for (size_t i = 0; TOPICS[i].name; i++)
        check_start(d, TOPICS[i].name);
}

/* Of this machine: the servers' may be others. */
static void check_disk(struct doctor *d, const char *path)
{
    struct statvfs s;
    char text[160];
    if (statvfs(path, &s) != 0 || s.f_blocks == 0)
        return;
    d->looked++;
    int percent = (int)(s.f_bavail * 100 / s.f_blocks);
    if (percent >= 15)
        return;
    (void)snprintf(text, sizeof text, "%s has %d %% left", path, percent);
    say(d, percent < 5 ? "bad" : "warn", "disk", text, "disk-full");
}

static void show(const struct cli *cli, const struct doctor *d)
{
    if (!cli->json) {
        cli_table_text(d->table, "nothing is wrong");
        (void)printf("%zu looked at, %zu bad, %zu to watch\n", d->looked, d->bad, d->warn);
        return;
    }
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_int(&j, "looked", (int64_t)d->looked);
    json_put_int(&j, "bad", (int64_t)d->bad);
    json_put_int(&j, "warn", (int64_t)d->warn);
    cli_table_json(d->table, &j, "troubles");
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_column COLUMNS[] = {{"LEVEL", "level", CLI_TEXT},
                                                {"CHECK", "check", CLI_TEXT},
                                                {"WHAT", "what", CLI_TEXT},
                                                {"PAGE", "page", CLI_TEXT},
                                                {NULL, NULL, CLI_TEXT}};
    static const struct cli_option NONE[] = {{0}};
    struct doctor d = {0};
    int code = cli_args(cli, "doctor", "", argc, argv, NONE, NULL, 0, 0, NULL);
    if (code == CLI_OK)
        code = stage_open(&d.stage, cli, TABLES);
    if (code != CLI_OK)
        return code;
    d.table = cli_table_new(COLUMNS);
    for (int i = 0; i < STAGE_DATABASES; i++)
        check_database(&d, (enum stage_database)i);
    check_redis(&d);
    check_kafka(&d);
    check_disk(&d, "/");
    check_disk(&d, "/var");
    show(cli, &d);
    code = d.bad + d.warn ? CLI_FOUND : CLI_OK;
    cli_table_free(d.table);
    stage_close(&d.stage);
    return code;
}

const struct cli_command CMD_DOCTOR = {
    "doctor", "everything that is wrong or about to be, on one screen",
    "urrctl doctor\n\n"
    "Looks at the databases, Redis and Kafka that are set: gaps, paused groups, the refund brake,\n"
    "the oldest outbox row, rows Kafka refused, overdue pending reservations, unanswered refunds,\n"
    "long transactions, durability, clocks, schemas, topics, disk. Each finding comes with its "
    "page\n"
    "of docs/runbook.md. Changes nothing. Exit code 5: something is wrong.\n\nExample:\n"
    "  urrctl doctor --config build/run/stack.env\n",
    run, TABLES};

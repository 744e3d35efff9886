/* cmd_lag.c - urrctl lag: how far behind the log each group is, and when it will be there. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/group_view.h"
#include "cli/progress.h"
#include "cli/servers.h"
#include "cli/table.h"
#include "runtime/clock.h"
#include "runtime/kafka.h"
#include "runtime/kafka_admin.h"
#include "runtime/pg.h"

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

struct watched { /* a group and its last two looks */
    struct cli_group group;
    struct pg *pg;
    struct group_view before, now;
};

static const struct cli_column COLUMNS[] = {{"group", "group", CLI_TEXT},
                                            {"topic", "topic", CLI_TEXT},
                                            {"p", "partition", CLI_NUMBER},
                                            {"database", "databaseOffset", CLI_NUMBER},
                                            {"kafka", "kafkaCommit", CLI_NUMBER},
                                            {"end", "endOffset", CLI_NUMBER},
                                            {"lag", "lag", CLI_NUMBER},
                                            {"lag s", "lagSeconds", CLI_REAL},
                                            {"rate/s", "ratePerSecond", CLI_REAL},
                                            {"caught up in", NULL, CLI_TEXT},
                                            {"", "catchUpSeconds", CLI_REAL},
                                            {NULL, NULL, CLI_TEXT}};

static void put_or_null(struct cli_table *t, int64_t value)
{
    if (value < 0)
        cli_put_null(t);
    else
        cli_put_number(t, value);
}

static const struct group_place *find(const struct group_view *v, const struct group_place *p)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->places[i].partition == p->partition && strcmp(v->places[i].topic, p->topic) == 0)
            return &v->places[i];
    return NULL;
}

static void put_pace(struct cli_table *t, const struct watched *w, const struct group_place *p)
{
    const struct group_place *old = find(&w->before, p);
    double seconds = (double)(w->now.at_ms - w->before.at_ms) / 1000.0;
    int64_t lag = group_place_lag(p);
    if (!old || !old->has_row || seconds <= 0 || lag < 0) {
        cli_put_null(t);
        cli_put_null(t);
        cli_put_null(t);
        return;
    }
    double rate = (double)(p->next_offset - old->next_offset) / seconds;
    double growth = (double)(p->high - old->high) / seconds;
    char text[24] = "never at this rate";
    cli_put_real(t, rate);
    if (lag > 0 && rate <= growth) {
        cli_put_text(t, text);
        cli_put_null(t);
        return;
    }
    double left = lag > 0 ? (double)lag / (rate - growth) : 0;
    cli_duration(left, text, sizeof text);
    cli_put_text(t, text);
    cli_put_real(t, left);
}

static void add_rows(struct cli_table *t, const struct watched *w)
{
    for (size_t i = 0; i < w->now.count; i++) {
        const struct group_place *p = &w->now.places[i];
        double seconds = group_place_lag_seconds(p, w->now.db_now_ms);
        cli_put_text(t, w->group.name);
        cli_put_text(t, p->topic);
        cli_put_number(t, p->partition);
        put_or_null(t, p->has_row ? p->next_offset : -1);
        put_or_null(t, p->committed);
        put_or_null(t, p->high);
        put_or_null(t, group_place_lag(p));
        if (seconds < 0)
            cli_put_null(t);
        else
            cli_put_real(t, seconds);
        put_pace(t, w, p);
    }
}

static int look_all(const struct cli *cli, struct kafka_admin *kafka, struct watched *all,
                    size_t count)
{
    int code = CLI_OK;
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        group_view_done(&all[i].before);
        all[i].before = all[i].now;
        code = group_view_look(cli, all[i].pg, kafka, &all[i].group, NULL, &all[i].now);
    }
    return code;
}

static void show(const struct cli *cli, const struct watched *all, size_t count, bool live)
{
    struct cli_table *t = cli_table_new(COLUMNS);
    for (size_t i = 0; i < count; i++)
        add_rows(t, &all[i]);
    if (live && !cli->json && isatty(STDOUT_FILENO)) {
        char now[CLOCK_ISO_LEN + 1];
        clock_format_iso(clock_wall_ms(), now);
        (void)printf("\033[H\033[2J%s  (Ctrl-C ends)\n\n", now);
    }
    cli_table_show(cli, t, "lag", "no group has an offset yet");
    (void)fflush(stdout);
    cli_table_free(t);
}

static void nap(int64_t ms)
{
    int64_t until = clock_mono_ms() + ms;
    while (!stopped && clock_mono_ms() < until)
        nanosleep(&(struct timespec){.tv_nsec = 20000000L}, NULL);
}

static int watch(const struct cli *cli, struct kafka_admin *kafka, struct watched *all,
                 size_t count, int64_t looks, int64_t interval_ms)
{
    int code = look_all(cli, kafka, all, count);
    for (int64_t n = 0; code == CLI_OK && n < looks && !stopped; n++) {
        nap(interval_ms);
        if (stopped)
            break;
        code = look_all(cli, kafka, all, count);
        if (code == CLI_OK)
            show(cli, all, count, looks > 1);
    }
    return code;
}

static int open_groups(const struct cli *cli, const struct config *config, const char *only,
                       struct watched *all, size_t *out_count)
{
    static struct cli_group groups[CLI_MAX_GROUPS];
    size_t count = 0;
    int code = CLI_OK;
    if (only) {
        code = cli_group_find(cli, config, only, &groups[0], NULL);
        count = 1;
    } else {
        code = cli_groups(cli, config, groups, &count);
    }
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        all[i].group = groups[i];
        *out_count = i + 1;
        code = cli_pg(cli, config, groups[i].database, &all[i].pg);
    }
    return code;
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static struct watched all[CLI_MAX_GROUPS];
    const char *only = NULL, *interval = "1000", *looks = NULL;
    bool live = false;
    int64_t interval_ms = 0, look_count = 1;
    const struct cli_option options[] = {{"--watch", NULL, &live},
                                         {"--interval-ms", &interval, NULL},
                                         {"--count", &looks, NULL},
                                         {NULL, NULL, NULL}};
    int code = cli_args(cli, "lag", "[GROUP]", argc, argv, options, &only, 0, 1, NULL);
    if (code == CLI_OK)
        code = cli_number(cli, "--interval-ms", interval, 100, 3600000, &interval_ms);
    if (code == CLI_OK && looks)
        code = cli_number(cli, "--count", looks, 1, INT32_MAX, &look_count);
    if (live && !looks)
        look_count = INT64_MAX;
    struct config *config = NULL;
    struct kafka_admin *kafka = NULL;
    size_t count = 0;
    if (code == CLI_OK)
        code = cli_settings(cli, CLI_GROUP_SETTINGS, &config);
    if (code == CLI_OK)
        code = open_groups(cli, config, only, all, &count);
    if (code == CLI_OK)
        code = cli_kafka(cli, config, &kafka);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    if (code == CLI_OK)
        code = watch(cli, kafka, all, count, look_count, interval_ms);
    for (size_t i = 0; i < count; i++) {
        group_view_done(&all[i].before);
        group_view_done(&all[i].now);
        pg_free(all[i].pg);
    }
    kafka_admin_close(kafka);
    config_free(config);
    return code;
}

const struct cli_command CMD_LAG = {
    "lag", "how far behind each consumer group is",
    "urrctl lag [GROUP] [--watch] [--interval-ms 1000] [--count N]\n\n"
    "Looks twice, an interval apart, for the rate. lag s: everything older than that is applied.\n"
    "--watch goes on until Ctrl-C; with --json one document per look and line.\n\nExample:\n"
    "  urrctl lag ticket-service-group --watch\n",
    run, CLI_GROUP_SETTINGS};

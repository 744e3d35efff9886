/* cmd_offsets.c - urrctl offsets show/set: where a group reads on. The database's row is the
 * authority; raising its generation makes the running consumer seek within a second. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/change.h"
#include "cli/cli.h"
#include "cli/group_view.h"
#include "cli/servers.h"
#include "cli/table.h"
#include "runtime/fault.h"
#include "runtime/kafka.h"
#include "runtime/kafka_admin.h"
#include "runtime/pg.h"

enum { MAX_PLACES = 512, ARRAY_BYTES = 1 << 20 };

struct subject {
    struct config *config;
    struct cli_group group;
    struct pg *pg;
    struct kafka_admin *kafka;
    struct group_view view;
};

static int open_subject(const struct cli *cli, const char *group, const char *topic,
                        struct subject *s)
{
    int code = cli_settings(cli, CLI_GROUP_SETTINGS, &s->config);
    if (code == CLI_OK)
        code = cli_group_find(cli, s->config, group, &s->group, &s->pg);
    if (code == CLI_OK)
        code = cli_kafka(cli, s->config, &s->kafka);
    if (code == CLI_OK)
        code = group_view_look(cli, s->pg, s->kafka, &s->group, topic, &s->view);
    if (code == CLI_OK && topic && s->view.count == 0)
        code = cli_fail(cli, CLI_USAGE, "group %s does not read topic '%s'", group, topic);
    return code;
}

static void close_subject(struct subject *s)
{
    group_view_done(&s->view);
    kafka_admin_close(s->kafka);
    pg_free(s->pg);
    config_free(s->config);
}

static const struct cli_column SHOW_COLUMNS[] = {{"topic", "topic", CLI_TEXT},
                                                 {"partition", "partition", CLI_NUMBER},
                                                 {"next", "nextOffset", CLI_NUMBER},
                                                 {"generation", "generation", CLI_NUMBER},
                                                 {"kafka", "kafkaCommit", CLI_NUMBER},
                                                 {"first", "firstOffset", CLI_NUMBER},
                                                 {"end", "endOffset", CLI_NUMBER},
                                                 {"lag", "lag", CLI_NUMBER},
                                                 {"moved", "updatedAt", CLI_TIME},
                                                 {"caught up", "caughtUpAt", CLI_TIME},
                                                 {NULL, NULL, CLI_TEXT}};

static void put_or_null(struct cli_table *t, int64_t value)
{
    if (value < 0)
        cli_put_null(t);
    else
        cli_put_number(t, value);
}

static void put_time_or_null(struct cli_table *t, int64_t ms)
{
    if (ms <= 0)
        cli_put_null(t);
    else
        cli_put_time(t, ms);
}

static int run_show(const struct cli *cli, int argc, char **argv)
{
    const char *group = NULL, *topic = NULL;
    const struct cli_option options[] = {{"--topic", &topic, NULL}, {NULL, NULL, NULL}};
    int code = cli_args(cli, "offsets show", "GROUP", argc, argv, options, &group, 1, 1, NULL);
    struct subject s = {0};
    if (code == CLI_OK)
        code = open_subject(cli, group, topic, &s);
    if (code == CLI_OK) {
        struct cli_table *t = cli_table_new(SHOW_COLUMNS);
        for (size_t i = 0; i < s.view.count; i++) {
            const struct group_place *p = &s.view.places[i];
            cli_put_text(t, p->topic);
            cli_put_number(t, p->partition);
            put_or_null(t, p->has_row ? p->next_offset : -1);
            put_or_null(t, p->has_row ? p->generation : -1);
            put_or_null(t, p->committed);
            put_or_null(t, p->low);
            put_or_null(t, p->high);
            put_or_null(t, group_place_lag(p));
            put_time_or_null(t, p->updated_ms);
            put_time_or_null(t, p->caught_up_ms);
        }
        cli_table_show(cli, t, "offsets", "the group has no offsets yet");
        cli_table_free(t);
    }
    close_subject(&s);
    return code;
}

enum aim { AIM_NONE, AIM_OFFSET, AIM_TIME, AIM_BEGINNING, AIM_END, AIM_SHIFT };

struct wish {
    const char *group, *topic, *partition;
    enum aim aim;
    int64_t value, only; /* only: the partition, -1: all */
    bool force;
};

static int read_aim(const struct cli *cli, struct wish *w, const char *offset, const char *time,
                    const char *shift, bool beginning, bool end)
{
    if ((offset != NULL) + (time != NULL) + (shift != NULL) + beginning + end != 1)
        return cli_fail(cli, CLI_USAGE,
                        "offsets set: exactly one of --to-offset, --to-time, --to-beginning, "
                        "--to-end, --shift");
    if (offset && !w->partition)
        return cli_fail(cli, CLI_USAGE, "offsets set: --to-offset needs --partition");
    w->aim = offset  ? AIM_OFFSET
             : time  ? AIM_TIME
             : shift ? AIM_SHIFT
             : end   ? AIM_END
                     : AIM_BEGINNING;
    w->only = -1;
    int code = CLI_OK;
    if (offset)
        code = cli_number(cli, "--to-offset", offset, 0, INT64_MAX, &w->value);
    if (time)
        code = cli_time(cli, "--to-time", time, &w->value);
    if (shift)
        code = cli_number(cli, "--shift", shift, -INT64_C(1000000000000), INT64_C(1000000000000),
                          &w->value);
    if (code == CLI_OK && w->partition)
        code = cli_number(cli, "--partition", w->partition, 0, INT32_MAX, &w->only);
    return code;
}

static int aim_at(const struct cli *cli, struct kafka_admin *kafka, const struct wish *w,
                  const struct group_place *p, int64_t *out)
{
    struct fault f = {0};
    struct kafka_place place = {p->topic, p->partition, w->value};
    if (p->high < 0)
        return cli_fail(cli, CLI_REFUSED, "Kafka has no %s[%d]", p->topic, p->partition);
    if (w->aim == AIM_TIME) {
        int rc = kafka_admin_offsets_for_times(kafka, &place, 1, CLI_KAFKA_MS, &f);
        if (rc != 0)
            return cli_fail(cli, cli_code(rc), "Kafka: %s", f.text);
        *out = place.offset < 0 ? p->high : place.offset;
    } else {
        *out = w->aim == AIM_OFFSET      ? w->value
               : w->aim == AIM_BEGINNING ? p->low
               : w->aim == AIM_END       ? p->high
                                         : p->next_offset + w->value;
    }
    if (*out < p->low || *out > p->high)
        return cli_fail(cli, CLI_REFUSED,
                        "%s[%d]: offset %lld is outside of the log (%lld to %lld); nothing was "
                        "changed",
                        p->topic, p->partition, (long long)*out, (long long)p->low,
                        (long long)p->high);
    return CLI_OK;
}

struct plan {
    struct pg_array topic, partition, offset, generation;
    size_t count;
    int64_t skipped, again;
};

static void plan_add(struct plan *plan, const struct group_place *p, int64_t target)
{
    (void)pg_array_text(&plan->topic, p->topic);
    (void)pg_array_int4(&plan->partition, p->partition);
    (void)pg_array_int8(&plan->offset, target);
    (void)pg_array_int8(&plan->generation, p->has_row ? p->generation : -1);
    plan->count++;
    int64_t from = p->has_row ? p->next_offset : p->low;
    if (target > from)
        plan->skipped += target - from;
    else
        plan->again += from - target;
}

static int make_plan(const struct cli *cli, const struct subject *s, const struct wish *w,
                     struct plan *plan)
{
    bool found = false;
    for (size_t i = 0; i < s->view.count; i++) {
        const struct group_place *p = &s->view.places[i];
        int64_t target = 0;
        if (w->only >= 0 && p->partition != w->only)
            continue;
        found = true;
        int code = aim_at(cli, s->kafka, w, p, &target);
        if (code != CLI_OK)
            return code;
        if (!p->has_row || target != p->next_offset)
            plan_add(plan, p, target);
    }
    if (!found)
        return cli_fail(cli, CLI_USAGE, "group %s reads no partition %lld", w->group,
                        (long long)w->only);
    if (plan->skipped > 0 && !w->force)
        return cli_fail(cli, CLI_REFUSED,
                        "this skips %lld events that the group has not applied; add --force if "
                        "they may be lost to it. Nothing was changed.",
                        (long long)plan->skipped);
    return CLI_OK;
}

static int carry_out(const struct cli *cli, struct subject *s, const struct wish *w,
                     struct cli_change *change, struct plan *plan)
{
    char question[200], none[100];
    (void)snprintf(question, sizeof question, "%s reads %lld events again and skips %lld. Move it?",
                   w->group, (long long)plan->again, (long long)plan->skipped);
    (void)snprintf(none, sizeof none, "the group is there already");
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, w->group);
    pg_params_array(&p, &plan->topic);
    pg_params_array(&p, &plan->partition);
    pg_params_array(&p, &plan->offset);
    pg_params_array(&p, &plan->generation);
    struct cli_step step = {.stmt = cli_stmt("offsets_set.sql"),
                            .params = &p,
                            .none = none,
                            .none_code = plan->count ? CLI_RETRY : CLI_OK,
                            .moving = true,
                            .question = question};
    if (plan->count)
        step.none = "somebody else has moved it meanwhile: look again; nothing was changed";
    if (!cli->json && plan->count)
        (void)printf("%lld events are read again (those applied stay as they are), %lld skipped\n",
                     (long long)plan->again, (long long)plan->skipped);
    return cli_apply(cli, s->pg, change, &step);
}

static int run_set(const struct cli *cli, int argc, char **argv)
{
    const char *offset = NULL, *time = NULL, *shift = NULL;
    bool beginning = false, end = false;
    struct wish w = {0};
    struct cli_change change = {.command = "offsets set"};
    const struct cli_option options[] = {{"--topic", &w.topic, NULL},
                                         {"--partition", &w.partition, NULL},
                                         {"--to-offset", &offset, NULL},
                                         {"--to-time", &time, NULL},
                                         {"--to-beginning", NULL, &beginning},
                                         {"--to-end", NULL, &end},
                                         {"--shift", &shift, NULL},
                                         {"--force", NULL, &w.force},
                                         {"--dry-run", NULL, &change.dry_run},
                                         {"--yes", NULL, &change.yes},
                                         {NULL, NULL, NULL}};
    int code = cli_args(cli, change.command, "GROUP", argc, argv, options, &w.group, 1, 1, NULL);
    if (code == CLI_OK)
        code = read_aim(cli, &w, offset, time, shift, beginning, end);
    struct subject s = {0};
    if (code == CLI_OK)
        code = open_subject(cli, w.group, w.topic, &s);
    struct plan plan = {0};
    pg_array_init(&plan.topic, PG_TEXT, ARRAY_BYTES);
    pg_array_init(&plan.partition, PG_INT4, ARRAY_BYTES);
    pg_array_init(&plan.offset, PG_INT8, ARRAY_BYTES);
    pg_array_init(&plan.generation, PG_INT8, ARRAY_BYTES);
    if (code == CLI_OK)
        code = make_plan(cli, &s, &w, &plan);
    change.target = w.group;
    if (code == CLI_OK)
        code = carry_out(cli, &s, &w, &change, &plan);
    pg_array_done(&plan.topic);
    pg_array_done(&plan.partition);
    pg_array_done(&plan.offset);
    pg_array_done(&plan.generation);
    close_subject(&s);
    return code;
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_sub subs[] = {{"show", run_show}, {"set", run_set}, {NULL, NULL}};
    return cli_sub(cli, "offsets", subs, argc, argv);
}

const struct cli_command CMD_OFFSETS = {
    "offsets", "show and move a group's offsets",
    "urrctl offsets show GROUP [--topic T]\n"
    "urrctl offsets set GROUP (--to-time TIME | --to-offset N --partition P | --to-beginning |\n"
    "                          --to-end | --shift N) [--topic T] [--partition P] [--force]\n"
    "                          [--dry-run] [--yes]\n\n"
    "The running consumer seeks within a second. Going back applies nothing twice; going forward\n"
    "skips events, which needs --force. TIME: 2026-11-18T03:00:00+09:00, ms since 1970, 15m ago.\n"
    "\nExample:\n"
    "  urrctl offsets set ticket-service-group --to-time 2h --dry-run\n",
    run, CLI_GROUP_SETTINGS};

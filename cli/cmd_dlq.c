/* cmd_dlq.c - urrctl dlq: look at dead letters, send them again, give them up. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/change.h"
#include "cli/dlq.h"
#include "cli/saga.h"
#include "cli/stage.h"
#include "cli/table.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"

enum { MAX_JSON = 256 << 20, ID_LEN = 300, DEFAULT_RATE = 100, MAX_RATE = 10000, MAX_KEY = 40 };

static const struct config_item *const TABLES[] = {CLI_DATABASE_SETTINGS, STAGE_SETTINGS,
                                                   KAFKA_SETTINGS, NULL};

struct request {
    const char *reason, *topic, *group, *since, *until, *rate, *note, *out;
    bool all, dry_run, yes;
    struct dlq_filter filter;
    int64_t per_second;
};

/* The options every sub-command shares, and those of some: NULL-named ones end the table. */
static int parse(const struct cli *cli, const char *what, int argc, char **argv, int min_ids,
                 bool changes, struct request *r)
{
    const struct cli_option options[] = {
        {"--reason", &r->reason, NULL},
        {"--topic", &r->topic, NULL},
        {"--group", &r->group, NULL},
        {"--since", &r->since, NULL},
        {"--until", &r->until, NULL},
        {changes ? "--dry-run" : "--all", NULL, changes ? &r->dry_run : &r->all},
        {changes ? "--yes" : "--out", changes ? NULL : &r->out, changes ? &r->yes : NULL},
        {changes ? "--rate" : NULL, &r->rate, NULL},
        {"--note", &r->note, NULL},
        {0}};
    int count = 0;
    int code = cli_args(cli, what, "[ID…]", argc, argv, options, r->filter.ids, min_ids,
                        DLQ_MAX_IDS, &count);
    r->filter.id_count = (size_t)count;
    if (code == CLI_OK && r->since)
        code = cli_time(cli, "--since", r->since, &r->filter.since_ms);
    if (code == CLI_OK && r->until)
        code = cli_time(cli, "--until", r->until, &r->filter.until_ms);
    r->per_second = DEFAULT_RATE;
    if (code == CLI_OK && r->rate)
        code = cli_number(cli, "--rate", r->rate, 1, MAX_RATE, &r->per_second);
    r->filter.reason = r->reason;
    r->filter.topic = r->topic;
    r->filter.group = r->group;
    r->filter.all = r->all;
    return code;
}

/* An ID that names nothing is a slip of the pen: say so before anything is done. */
static int check_ids(const struct cli *cli, const struct dlq *d, const struct dlq_filter *filter)
{
    for (size_t i = 0; i < filter->id_count; i++) {
        bool found = false;
        for (size_t k = 0; k < d->count && !found; k++) {
            char id[ID_LEN];
            dlq_id(&d->letters[k], id, sizeof id);
            found = strcmp(id, filter->ids[i]) == 0;
        }
        if (!found)
            return cli_fail(cli, CLI_USAGE,
                            "there is no dead letter %s (urrctl dlq list shows the ids)",
                            filter->ids[i]);
    }
    return CLI_OK;
}

static int open_letters(const struct cli *cli, struct stage *stage, const struct request *r,
                        struct dlq *d)
{
    int code = stage_open(stage, cli, TABLES);
    if (code == CLI_OK)
        code = dlq_read(d, stage, &r->filter);
    return code == CLI_OK ? check_ids(cli, d, &r->filter) : code;
}

static void finish(struct stage *stage, struct dlq *d)
{
    dlq_done(d);
    stage_close(stage);
}

static void put_letter(struct cli_table *t, const struct dlq_letter *l, const char *plan)
{
    char text[ID_LEN];
    dlq_id(l, text, sizeof text);
    cli_put_text(t, text);
    cli_put_time(t, l->timestamp_ms > 0 ? l->timestamp_ms : 0);
    cli_put_text(t, l->reason);
    cli_put_number(t, l->attempts);
    cli_put_text(t, l->group);
    cli_put_text(t, plan ? plan : DLQ_STATES[l->state]);
    (void)snprintf(text, sizeof text, "%s[%d]@%lld", l->source_topic ? l->source_topic : "?",
                   (int)l->source_partition, (long long)l->source_offset);
    cli_put_text(t, text);
    (void)snprintf(text, sizeof text, "%.*s", l->key_len < MAX_KEY ? (int)l->key_len : MAX_KEY,
                   l->key ? (const char *)l->key : "");
    cli_put_text(t, l->key ? text : NULL);
    cli_put_text(t, l->detail);
}

static struct cli_table *new_table(bool plan)
{
    static const struct cli_column LIST[] = {
        {"ID", "id", CLI_TEXT},         {"TIME", "time", CLI_TIME},
        {"REASON", "reason", CLI_TEXT}, {"TRIED", "attempts", CLI_NUMBER},
        {"GROUP", "group", CLI_TEXT},   {"STATE", "state", CLI_TEXT},
        {"SOURCE", "source", CLI_TEXT}, {"KEY", "key", CLI_TEXT},
        {"DETAIL", "detail", CLI_TEXT}, {NULL, NULL, CLI_TEXT}};
    static const struct cli_column PLAN[] = {
        {"ID", "id", CLI_TEXT},         {"TIME", "time", CLI_TIME},
        {"REASON", "reason", CLI_TEXT}, {"TRIED", "attempts", CLI_NUMBER},
        {"GROUP", "group", CLI_TEXT},   {"PLAN", "plan", CLI_TEXT},
        {"SOURCE", "source", CLI_TEXT}, {"KEY", "key", CLI_TEXT},
        {"DETAIL", "detail", CLI_TEXT}, {NULL, NULL, CLI_TEXT}};
    return cli_table_new(plan ? PLAN : LIST);
}

static int run_list(const struct cli *cli, int argc, char **argv)
{
    struct request r = {0};
    struct stage stage = {0};
    struct dlq d = {0};
    int code = parse(cli, "dlq list", argc, argv, 0, false, &r);
    if (code == CLI_OK)
        code = open_letters(cli, &stage, &r, &d);
    if (code == CLI_OK) {
        struct cli_table *t = new_table(false);
        for (size_t i = 0; i < d.count; i++)
            put_letter(t, &d.letters[i], NULL);
        cli_table_show(cli, t, "letters", "no dead letters");
        cli_table_free(t);
    }
    finish(&stage, &d);
    return code;
}

static void print_value(const struct dlq_letter *l)
{
    struct fault f = {0};
    cJSON *body = NULL;
    (void)printf("value (%zu bytes):\n", l->value_len);
    char *pretty =
        l->value && json_parse(l->value, l->value_len, &body, &f) == 0 ? cJSON_Print(body) : NULL;
    if (pretty)
        (void)puts(pretty);
    for (size_t i = 0; !pretty && l->value && i < l->value_len; i++) {
        unsigned char c = ((const unsigned char *)l->value)[i];
        (void)putchar(c >= 0x20 && c < 0x7f ? c : '?');
    }
    if (!pretty)
        (void)printf("\n(not readable: %s)\n", f.text);
    cJSON_free(pretty);
    cJSON_Delete(body);
}

static void print_letter(const struct dlq_letter *l)
{
    char id[ID_LEN], time[CLOCK_ISO_LEN + 1];
    dlq_id(l, id, sizeof id);
    clock_format_iso(l->timestamp_ms > 0 ? l->timestamp_ms : 0, time);
    (void)printf("%s  %s%s%s\ntime       %s\nkey        %.*s\n", id, DLQ_STATES[l->state],
                 l->marked_by ? " by " : "", l->marked_by ? l->marked_by : "", time,
                 (int)l->key_len, l->key ? (const char *)l->key : "");
    for (size_t i = 0; i < l->header_count; i++)
        (void)printf("%-10s %.*s\n",
                     strncmp(l->headers[i].name, "urr-", 4) == 0 ? l->headers[i].name + 4
                                                                 : l->headers[i].name,
                     (int)l->headers[i].len,
                     l->headers[i].value ? (const char *)l->headers[i].value : "");
    print_value(l);
}

/* The best name the body has for its story. */
static const char *saga_name(const struct dlq_letter *l, char *out, size_t size)
{
    static const char *const FIELDS[] = {"sagaId", "reservationId", "referenceId", "paymentId"};
    struct fault f = {0};
    cJSON *body = NULL;
    const char *found = NULL;
    if (!l->value || json_parse(l->value, l->value_len, &body, &f) != 0)
        return NULL;
    for (size_t i = 0; !found && i < sizeof FIELDS / sizeof FIELDS[0]; i++)
        found = json_str(body, FIELDS[i]);
    if (found)
        (void)snprintf(out, size, "%s", found);
    cJSON_Delete(body);
    return found ? out : NULL;
}

static int show_letter(const struct cli *cli, struct stage *stage, const struct dlq_letter *l)
{
    char name[160];
    const char *saga = stage_has(stage, STAGE_TICKET) ? saga_name(l, name, sizeof name) : NULL;
    struct saga story = {0};
    int code = saga ? saga_read(&story, stage, saga, false) : CLI_OK;
    if (code == CLI_OK && cli->json) {
        struct buf out;
        struct json_out j;
        buf_init(&out, MAX_JSON);
        json_begin(&j, &out);
        json_object(&j, NULL);
        json_array(&j, "letters");
        dlq_json(&j, l, true);
        json_end(&j);
        if (story.table)
            saga_json(&story, &j);
        json_end(&j);
        (void)puts(buf_text(&out));
        buf_done(&out);
    } else if (code == CLI_OK) {
        print_letter(l);
        if (story.table) {
            (void)puts("\nits saga:");
            saga_print(&story);
        }
    }
    saga_done(&story);
    return code;
}

static int run_show(const struct cli *cli, int argc, char **argv)
{
    struct request r = {0};
    struct stage stage = {0};
    struct dlq d = {0};
    int code = parse(cli, "dlq show", argc, argv, 1, false, &r);
    if (code == CLI_OK && r.filter.id_count != 1)
        code = cli_fail(cli, CLI_USAGE, "dlq show: one ID at a time");
    if (code == CLI_OK)
        code = open_letters(cli, &stage, &r, &d);
    if (code == CLI_OK)
        code = show_letter(cli, &stage, &d.letters[0]);
    finish(&stage, &d);
    return code;
}

static int run_export(const struct cli *cli, int argc, char **argv)
{
    struct request r = {0};
    struct stage stage = {0};
    struct dlq d = {0};
    int code = parse(cli, "dlq export", argc, argv, 0, false, &r);
    if (code == CLI_OK)
        code = open_letters(cli, &stage, &r, &d);
    FILE *file = code == CLI_OK && r.out ? fopen(r.out, "wxe") : stdout;
    if (code == CLI_OK && !file)
        code = cli_fail(cli, CLI_USAGE, "cannot write %s: it must not exist yet", r.out);
    for (size_t i = 0; code == CLI_OK && i < d.count; i++) {
        struct buf out;
        struct json_out j;
        buf_init(&out, MAX_JSON);
        json_begin(&j, &out);
        dlq_json(&j, &d.letters[i], true);
        (void)fprintf(file, "%s\n", buf_text(&out));
        buf_done(&out);
    }
    if (file && file != stdout && fclose(file) != 0 && code == CLI_OK)
        code = cli_fail(cli, CLI_FAILED, "%s could not be written", r.out);
    if (code == CLI_OK && r.out && cli->json)
        (void)printf("{\"exported\":%zu,\"file\":\"%s\"}\n", d.count, r.out);
    else if (code == CLI_OK && r.out)
        (void)printf("%zu letters in %s\n", d.count, r.out);
    finish(&stage, &d);
    return code;
}

/* What would happen to each; returns how many can go. */
static size_t plan(const struct dlq *d, const struct stage *stage, bool redrive,
                   struct cli_table *t, size_t *out_kept)
{
    size_t ready = 0;
    for (size_t i = 0; i < d->count; i++) {
        const struct dlq_letter *l = &d->letters[i];
        const char *why = dlq_obstacle(l, stage);
        if (!redrive) {
            enum stage_database which = stage_of_group(stage, l->group);
            why = l->state != DLQ_OPEN       ? "not open"
                  : which == STAGE_DATABASES ? "its group is not one of ours"
                  : !stage_has(stage, which) ? "the database of its group is not set"
                                             : NULL;
        }
        put_letter(t, l, why ? why : redrive ? "redrive" : "discard");
        ready += why == NULL;
        *out_kept += why != NULL;
    }
    return ready;
}

static void report(const struct cli *cli, const struct request *r, bool redrive,
                   const struct cli_table *t, size_t ready, size_t kept,
                   const struct dlq_tally *tally)
{
    const char *word = redrive ? "redriven" : "discarded";
    if (!cli->json) {
        if (r->dry_run)
            (void)printf("dry run: %zu would be %s, %zu stay\n", ready, word, kept);
        else
            (void)printf("%lld %s, %lld with another group's letter of the same record, %lld "
                         "already marked by somebody else, %zu stay\n",
                         (long long)tally->done, word, (long long)tally->twins,
                         (long long)tally->already, kept);
        return;
    }
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_bool(&j, "dryRun", r->dry_run);
    json_put_int(&j, "ready", (int64_t)ready);
    json_put_int(&j, word, tally->done);
    json_put_int(&j, "twins", tally->twins);
    json_put_int(&j, "already", tally->already);
    json_put_int(&j, "stay", (int64_t)kept);
    cli_table_json(t, &j, "letters");
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static int change(const struct cli *cli, const struct request *r, bool redrive, struct stage *stage,
                  struct dlq *d)
{
    struct cli_table *t = new_table(true);
    struct dlq_tally tally = {0};
    size_t kept = 0, ready = plan(d, stage, redrive, t, &kept);
    struct cli_change c = {.command = redrive ? "dlq redrive" : "dlq discard",
                           .target = "dead letters",
                           .dry_run = r->dry_run,
                           .yes = r->yes};
    int code = CLI_OK;
    if (!cli->json)
        cli_table_text(t, "no dead letters");
    if (!r->dry_run && ready > 0) {
        code = cli_confirm(
            cli, &c, redrive ? "Send %zu letters to their source topics?" : "Give %zu letters up?",
            ready);
        if (code == CLI_OK)
            code = redrive ? dlq_redrive(d, stage, cli_operator(), (int)r->per_second, &tally)
                           : dlq_discard(d, stage, cli_operator(), r->note, &tally);
    }
    if (code == CLI_OK)
        report(cli, r, redrive, t, ready, kept, &tally);
    cli_table_free(t);
    return code;
}

static bool narrowed(const struct request *r)
{
    return r->reason || r->topic || r->group || r->since || r->until || r->filter.id_count;
}

static int run_change(const struct cli *cli, const char *what, bool redrive, int argc, char **argv)
{
    struct request r = {0};
    struct stage stage = {0};
    struct dlq d = {0};
    int code = parse(cli, what, argc, argv, 0, true, &r);
    if (code == CLI_OK && !narrowed(&r))
        code =
            cli_fail(cli, CLI_USAGE,
                     "%s: say which: an ID, --reason, --topic, --group, --since or --until", what);
    if (code == CLI_OK && !redrive && !r.note && !r.dry_run)
        code = cli_fail(cli, CLI_USAGE, "%s: --note TEXT says why, for whoever looks later", what);
    if (code == CLI_OK)
        code = open_letters(cli, &stage, &r, &d);
    if (code == CLI_OK)
        code = change(cli, &r, redrive, &stage, &d);
    finish(&stage, &d);
    return code;
}

static int run_redrive(const struct cli *cli, int argc, char **argv)
{
    return run_change(cli, "dlq redrive", true, argc, argv);
}

static int run_discard(const struct cli *cli, int argc, char **argv)
{
    return run_change(cli, "dlq discard", false, argc, argv);
}

static int run(const struct cli *cli, int argc, char **argv)
{
    static const struct cli_sub SUBS[] = {{"list", run_list},       {"show", run_show},
                                          {"redrive", run_redrive}, {"export", run_export},
                                          {"discard", run_discard}, {0}};
    return cli_sub(cli, "dlq", SUBS, argc, argv);
}

const struct cli_command CMD_DLQ = {
    "dlq", "list, show, redrive, export, discard dead letters",
    "urrctl dlq list    [FILTER] [--all]\n"
    "urrctl dlq show    ID\n"
    "urrctl dlq redrive FILTER|ID… [--rate N] [--dry-run] [--yes]\n"
    "urrctl dlq export  [FILTER] [--all] [--out FILE]\n"
    "urrctl dlq discard FILTER|ID… --note TEXT [--dry-run] [--yes]\n\n"
    "FILTER: --reason R, --topic T (the source's), --group G, --since and --until TIME (of the\n"
    "record: ISO-8601, ms, or 15m, 2h, 7d ago). list and export leave out what was redriven or\n"
    "discarded, unless --all. show adds the saga where TICKET_DATABASE_URL is set.\n\n"
    "redrive puts letters into the outbox of the database whose group refused them, at most\n"
    "--rate per second (100); the relay sends them to their source topic. A letter leaves once,\n"
    "also when the command is interrupted and run again. One that was tried 5 times stays.\n"
    "discard marks letters as given up; the records stay in Kafka.\n\nExample:\n"
    "  urrctl dlq redrive --reason subject_missing --since 2h --dry-run\n",
    run, TABLES};

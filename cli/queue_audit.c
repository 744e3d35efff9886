/* queue_audit.c - urrctl queue audit: the admission log, from Redis or a file, through the audit.
 */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/cmd_queue.h"
#include "cli/queue_session.h"
#include "queue-core/room_audit.h"
#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/redis.h"

enum { MAX_USERS = 20000000, BATCH = 1000, MAX_JSON = 1 << 20, MAX_ID = 48 };

struct reading {
    struct room_audit *audit;
    const char *event;
    char last[MAX_ID]; /* id of the entry read last; "-" before the first */
    size_t batch;      /* entries of the last answer */
    enum room_where where;
    char cursor[24];
    int rc;
    struct fault f;
};

/* Redis -----------------------------------------------------------------------------------------
 */

static void on_entries(const struct redisReply *reply, void *arg)
{
    struct reading *r = arg;
    r->batch = redis_reply_count(reply);
    for (size_t i = 0; r->rc == 0 && i < r->batch; i++) {
        struct room_entry e;
        if (!room_entry_of_reply(redis_reply_at(reply, i), &e)) {
            r->rc = fault_set(&r->f, RC_REJECT, "an entry behind %s has another form", r->last);
            return;
        }
        r->rc = room_audit_apply(r->audit, &e, &r->f);
        (void)snprintf(r->last, sizeof r->last, "%s", e.id);
    }
}

/* Everything up to the log's present end. */
static int read_stream(struct queue_session *s, struct reading *r)
{
    char key[ROOM_EVENT_MAX + 16], from[MAX_ID + 1];
    int code = CLI_OK;
    (void)snprintf(key, sizeof key, "{%s}:log", r->event);
    do {
        (void)snprintf(from, sizeof from, "%s%s", strcmp(r->last, "-") == 0 ? "" : "(", r->last);
        code =
            queue_session_command(s,
                                  REDIS_ARGS(REDIS_STR("XRANGE"), REDIS_STR(key), REDIS_STR(from),
                                             REDIS_STR("+"), REDIS_STR("COUNT"), REDIS_INT(BATCH)),
                                  on_entries, r);
    } while (code == CLI_OK && r->rc == 0 && r->batch == BATCH);
    return code;
}

static void on_members(const struct redisReply *reply, void *arg)
{
    struct reading *r = arg;
    const char *cursor = redis_reply_str(redis_reply_at(reply, 0), NULL);
    const struct redisReply *pairs = redis_reply_at(reply, 1);
    (void)snprintf(r->cursor, sizeof r->cursor, "%s", cursor ? cursor : "0");
    for (size_t i = 0; i < redis_reply_count(pairs); i += 2) {
        const char *user = redis_reply_str(redis_reply_at(pairs, i), NULL);
        if (user)
            room_audit_compare(r->audit, user, r->where);
    }
}

static int compare_set(struct queue_session *s, struct reading *r, const char *set,
                       enum room_where where)
{
    char key[ROOM_EVENT_MAX + 16];
    int code = CLI_OK;
    (void)snprintf(key, sizeof key, "{%s}:%s", r->event, set);
    (void)snprintf(r->cursor, sizeof r->cursor, "0");
    r->where = where;
    do {
        code = queue_session_command(s,
                                     REDIS_ARGS(REDIS_STR("ZSCAN"), REDIS_STR(key),
                                                REDIS_STR(r->cursor), REDIS_STR("COUNT"),
                                                REDIS_INT(BATCH)),
                                     on_members, r);
        if (code == CLI_OK) /* what moved while we looked is news, not a fault */
            code = read_stream(s, r);
    } while (code == CLI_OK && r->rc == 0 && strcmp(r->cursor, "0") != 0);
    return code;
}

static int compare_all(struct queue_session *s, struct reading *r)
{
    room_audit_compare_begin(r->audit);
    int code = compare_set(s, r, "queue", ROOM_WAITS);
    if (code == CLI_OK)
        code = compare_set(s, r, "parked", ROOM_AWAY);
    if (code == CLI_OK)
        code = compare_set(s, r, "active", ROOM_INSIDE);
    if (code == CLI_OK && r->rc == 0)
        room_audit_compare_end(r->audit);
    return code;
}

/* The file --------------------------------------------------------------------------------------
 */

static int read_line(struct reading *r, const char *line, size_t len, int64_t number)
{
    struct cJSON *object = NULL;
    struct room_entry e;
    if (json_parse(line, len, &object, &r->f) != 0)
        return fault_wrap(&r->f, "line %" PRId64, number);
    const char *event = json_str(object, "event");
    int rc = 0;
    if (json_get(object, "positions")) /* how far each event was written: not ours */
        rc = 0;
    else if (!room_entry_of_json(object, &e))
        rc = fault_set(&r->f, RC_REJECT, "line %" PRId64 " is no entry of the log", number);
    else if (!event || strcmp(event, r->event) == 0)
        rc = room_audit_apply(r->audit, &e, &r->f);
    cJSON_Delete(object);
    return rc;
}

static int read_file(const struct cli *cli, struct reading *r, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return cli_fail(cli, CLI_USAGE, "queue audit: cannot read %s", path);
    char *line = NULL;
    size_t cap = 0;
    int64_t number = 0;
    for (ssize_t len; r->rc == 0 && (len = getline(&line, &cap, file)) > 0;) {
        number++;
        bool whole = line[len - 1] == '\n';
        if (!whole)
            break; /* the daemon is writing it */
        if (len > 1)
            r->rc = read_line(r, line, (size_t)len - 1, number);
    }
    free(line);
    (void)fclose(file);
    return CLI_OK;
}

static int is_log(const struct dirent *d)
{
    size_t len = strlen(d->d_name);
    return strncmp(d->d_name, "admission-", 10) == 0 && len > 6 &&
           strcmp(d->d_name + len - 6, ".jsonl") == 0;
}

/* One file, or the daemon's folder: its files in the order of their numbers. */
static int read_files(const struct cli *cli, struct reading *r, const char *path)
{
    struct dirent **files = NULL;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return read_file(cli, r, path);
    int count = scandir(path, &files, is_log, alphasort);
    int code = count > 0
                   ? CLI_OK
                   : cli_fail(cli, CLI_USAGE, "queue audit: %s has no admission-*.jsonl", path);
    for (int i = 0; i < count; i++) {
        char name[PATH_MAX];
        (void)snprintf(name, sizeof name, "%s/%s", path, files[i]->d_name);
        if (code == CLI_OK && r->rc == 0)
            code = read_file(cli, r, name);
        free(files[i]);
    }
    free(files);
    return code;
}

/* The report ------------------------------------------------------------------------------------
 */

static void put_report(const struct reading *r, const struct room_audit_report *a)
{
    static const char *const KEYS[ROOM_FINDINGS] = {"inversions", "overshoots", "lost", "doubles",
                                                    "mismatches"};
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_str(&j, "eventId", r->event);
    json_put_bool(&j, "fair", room_audit_clean(a));
    for (int i = 0; i < ROOM_FINDINGS; i++)
        json_put_int(&j, KEYS[i], a->found[i]);
    json_put_bool(&j, "complete", a->complete);
    json_put_int(&j, "entries", a->entries);
    json_put_int(&j, "fromMs", a->first_ms);
    json_put_int(&j, "toMs", a->last_ms);
    json_put_int(&j, "joined", a->joined);
    json_put_int(&j, "admitted", a->admitted);
    json_put_int(&j, "restored", a->restored);
    json_put_int(&j, "parked", a->parked);
    json_put_int(&j, "returned", a->returned);
    json_put_int(&j, "expired", a->expired);
    json_put_int(&j, "left", a->left);
    json_put_int(&j, "cleared", a->cleared);
    json_put_int(&j, "losses", a->losses);
    json_put_int(&j, "displaced", a->displaced);
    json_put_int(&j, "waiting", a->waiting);
    json_put_int(&j, "away", a->away);
    json_put_int(&j, "inside", a->inside);
    json_put_int(&j, "peakInside", a->peak_inside);
    json_put_int(&j, "threshold", a->threshold);
    json_object(&j, "waitMs");
    json_put_int(&j, "count", a->wait_ms.count);
    json_put_int(&j, "p50", histogram_percentile(&a->wait_ms, 50));
    json_put_int(&j, "p95", histogram_percentile(&a->wait_ms, 95));
    json_put_int(&j, "p99", histogram_percentile(&a->wait_ms, 99));
    json_put_int(&j, "max", a->wait_ms.max);
    json_end(&j);
    json_array(&j, "findings");
    for (int64_t i = 0; i < a->told; i++)
        json_put_str(&j, NULL, a->texts[i]);
    json_end(&j);
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static void row(const char *name, int64_t value, const char *note)
{
    (void)printf("  %-12s %12" PRId64 "%s%s\n", name, value, *note ? "   " : "", note);
}

static void print_report(const struct reading *r, const struct room_audit_report *a)
{
    (void)printf("%s: %s\n", r->event, room_audit_clean(a) ? "fair" : "NOT FAIR");
    row("inversions", a->found[ROOM_INVERSION], "let in before somebody with a smaller place");
    row("overshoots", a->found[ROOM_OVERSHOOT], "let in past the threshold");
    row("lost", a->found[ROOM_LOST], "gone, or moved back, without a reason");
    row("doubles", a->found[ROOM_DOUBLE], "two at one place, or one inside twice");
    row("mismatches", a->found[ROOM_MISMATCH], "the log and what it says of itself, or Redis");
    row("entries", a->entries,
        a->complete ? "" : "no snapshot is complete: some users are unknown");
    row("joined", a->joined, "");
    row("admitted", a->admitted, "");
    row("parked", a->parked, "");
    row("returned", a->returned, "");
    row("expired", a->expired, "");
    row("left", a->left, "");
    if (a->losses)
        row("losses", a->losses, "Redis had forgotten something");
    row("waiting", a->waiting, "");
    row("inside", a->inside, "");
    row("peak inside", a->peak_inside, "");
    (void)printf("  %-12s p50 %.1f s, p95 %.1f s, p99 %.1f s, longest %.1f s (%" PRId64 ")\n",
                 "waits", (double)histogram_percentile(&a->wait_ms, 50) / 1e3,
                 (double)histogram_percentile(&a->wait_ms, 95) / 1e3,
                 (double)histogram_percentile(&a->wait_ms, 99) / 1e3, (double)a->wait_ms.max / 1e3,
                 a->wait_ms.count);
    for (int64_t i = 0; i < a->told; i++)
        (void)printf("  ! %s\n", a->texts[i]);
}

int queue_audit(struct queue_session *s, const struct cli *cli, int argc, char **argv)
{
    const char *file = NULL;
    bool compare = true;
    struct reading r = {.last = "-"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--file") == 0 && i + 1 < argc)
            file = argv[++i];
        else if (strcmp(argv[i], "--no-compare") == 0)
            compare = false;
        else if (argv[i][0] != '-' && !r.event)
            r.event = argv[i];
        else
            return cli_fail(cli, CLI_USAGE,
                            "queue audit: '%s' is not an event, --file FILE or "
                            "--no-compare",
                            argv[i]);
    }
    if (!r.event || !room_event_ok(r.event))
        return cli_fail(cli, CLI_USAGE, "queue audit takes one event");
    if (room_audit_new(MAX_USERS, &r.audit, &r.f) != 0)
        return cli_fail(cli, CLI_FAILED, "%s", r.f.text);
    int code = file ? read_files(cli, &r, file) : queue_known(s, cli, r.event);
    if (code == CLI_OK && !file)
        code = read_stream(s, &r);
    if (code == CLI_OK && !file && compare && r.rc == 0)
        code = compare_all(s, &r);
    if (code == CLI_OK && r.rc)
        code = cli_fail(cli, CLI_FAILED, "queue audit: %s", r.f.text);
    if (code == CLI_OK) {
        const struct room_audit_report *report = room_audit_report(r.audit);
        if (cli->json)
            put_report(&r, report);
        else
            print_report(&r, report);
        code = room_audit_clean(report) ? CLI_OK : CLI_REFUSED;
    }
    room_audit_free(r.audit);
    return code;
}

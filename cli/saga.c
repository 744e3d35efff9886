/* saga.c - gathers a saga's steps from the databases and the log, then puts them in order.
 *
 * The database tells which ids belong together; the log is then read from shortly before the first
 * of its times, and a record belongs to the story when one of the ids stands in it. A name the
 * database does not know (a dead letter's payment) is looked for in the whole log, and what the
 * records there name is asked for once more. */
#include "cli/saga.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/log_scan.h"
#include "cli/stage.h"
#include "cli/table.h"
#include "consumers/engine/dead_letter.h"
#include "events/topics.h"
#include "runtime/arena.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/pg.h"

enum { MAX_IDS = 256, MAX_STEPS = 10000, ARENA_BYTES = 16 << 20, MAX_TOPICS = 16, ID_MAX = 160 };
#define BEFORE_MS INT64_C(3600000) /* publishers' clocks may be behind the database's */

struct step {
    const char *time, *place, *what, *detail;
    size_t rank; /* as it came: breaks ties */
};

struct work {
    struct saga *saga;
    struct stage *stage;
    struct arena arena;
    const char *ids[MAX_IDS];
    size_t id_count;
    const char *saga_ids[MAX_IDS];
    size_t saga_count;
    struct step steps[MAX_STEPS];
    size_t step_count, dropped;
    int64_t since_ms;
    bool known; /* the database knows the name */
};

static bool add_to(struct work *w, const char **list, size_t *count, const char *id)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(list[i], id) == 0)
            return false;
    if (*count == MAX_IDS || !id[0] || strlen(id) > ID_MAX)
        return false;
    list[*count] = arena_strdup(&w->arena, id);
    *count += list[*count] != NULL;
    return true;
}

static bool add_id(struct work *w, const char *id)
{
    return add_to(w, w->ids, &w->id_count, id);
}

static void add_step(struct work *w, const char *time, const char *place, const char *what,
                     const char *detail)
{
    if (w->step_count == MAX_STEPS) {
        w->dropped++;
        return;
    }
    w->steps[w->step_count] =
        (struct step){arena_strdup(&w->arena, time), arena_strdup(&w->arena, place),
                      arena_strdup(&w->arena, what),
                      detail ? arena_strdup(&w->arena, detail) : NULL, w->step_count};
    w->step_count++;
}

static int ask(struct work *w, enum stage_database which, const char *file, struct pg_result **out)
{
    struct pg *pg = NULL;
    struct fault f = {0};
    struct pg_array ids;
    int code = stage_pg(w->stage, which, &pg);
    if (code != CLI_OK)
        return code;
    pg_array_init(&ids, PG_TEXT, 1 << 20);
    for (size_t i = 0; i < w->id_count; i++)
        (void)pg_array_text(&ids, w->ids[i]);
    struct pg_params p;
    pg_params_init(&p);
    pg_params_array(&p, &ids);
    int rc = pg_exec(pg, stage_sql(file), &p, out, &f);
    pg_array_done(&ids);
    return rc == 0 ? CLI_OK : stage_fail(w->stage, rc, &f);
}

static void take_outcome(struct saga *s, const char *text)
{
    size_t len = strlen(s->outcome);
    (void)snprintf(s->outcome + len, sizeof s->outcome - len, "%s%s", len ? "; " : "", text);
}

static int find_ids(struct work *w)
{
    struct pg_result *rows = NULL;
    if (!stage_has(w->stage, STAGE_TICKET))
        return CLI_OK;
    int code = ask(w, STAGE_TICKET, "saga_ids.sql", &rows);
    if (code != CLI_OK)
        return code;
    w->saga->outcome[0] = '\0';
    for (int i = 0; i < pg_result_rows(rows); i++) {
        const char *kind = pg_result_text(rows, i, 0), *id = pg_result_text(rows, i, 1);
        w->known = true;
        if (strcmp(kind, "outcome") == 0)
            take_outcome(w->saga, id);
        else if (strcmp(kind, "since") == 0)
            w->since_ms = strtoll(id, NULL, 10) - BEFORE_MS;
        else
            (void)add_id(w, id);
        if (strcmp(kind, "saga") == 0)
            (void)add_to(w, w->saga_ids, &w->saga_count, id);
    }
    pg_result_free(rows);
    return CLI_OK;
}

static int add_rows(struct work *w, enum stage_database which, const char *file)
{
    struct pg_result *rows = NULL;
    if (!stage_has(w->stage, which))
        return CLI_OK;
    int code = ask(w, which, file, &rows);
    for (int i = 0; code == CLI_OK && i < pg_result_rows(rows); i++)
        add_step(w, pg_result_text(rows, i, 0), pg_result_text(rows, i, 1),
                 pg_result_text(rows, i, 2), pg_result_text(rows, i, 3));
    pg_result_free(rows);
    return code;
}

/* "id" as a JSON string, or the whole key. */
static bool mentions(const struct kafka_read *r, const char *id)
{
    char quoted[ID_MAX + 3];
    size_t len = strlen(id);
    if (r->key && r->key_len == len && memcmp(r->key, id, len) == 0)
        return true;
    int size = snprintf(quoted, sizeof quoted, "\"%s\"", id);
    return r->value && memmem(r->value, r->value_len, quoted, (size_t)size) != NULL;
}

static bool ours(const struct work *w, const struct kafka_read *r)
{
    for (size_t i = 0; i < w->id_count; i++)
        if (mentions(r, w->ids[i]))
            return true;
    return false;
}

static const char *header(const struct kafka_header *headers, size_t count, const char *name,
                          char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (strcmp(headers[i].name, name) == 0 && headers[i].value)
            (void)snprintf(out, size, "%.*s", (int)headers[i].len, (const char *)headers[i].value);
    return out;
}

static void describe(const cJSON *body, char *out, size_t size)
{
    static const char *const FIELDS[] = {"paymentId",  "amount",     "totalAmount",
                                         "totalPrice", "reason",     "paymentType",
                                         "userId",     "transferId", "membershipId"};
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; body && i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        const char *text = json_str(body, FIELDS[i]);
        int64_t number;
        const char *gap = len ? ", " : "";
        if (text)
            (void)snprintf(out + len, size - len, "%s%s %s", gap, FIELDS[i], text);
        else if (json_int(body, FIELDS[i], &number))
            (void)snprintf(out + len, size - len, "%s%s %lld", gap, FIELDS[i], (long long)number);
        len = strlen(out);
    }
}

/* What a record names besides the id it was found by, for a name the database does not know. */
static void learn(struct work *w, const cJSON *body)
{
    static const char *const FIELDS[] = {"sagaId",    "reservationId", "referenceId",
                                         "paymentId", "transferId",    "membershipId"};
    for (size_t i = 0; !w->known && body && i < sizeof FIELDS / sizeof FIELDS[0]; i++)
        if (json_str(body, FIELDS[i]))
            (void)add_id(w, json_str(body, FIELDS[i]));
}

static int on_record(const struct kafka_read *r, const struct kafka_header *headers, size_t count,
                     void *arg, struct fault *f)
{
    struct work *w = arg;
    struct fault scrap;
    cJSON *body = NULL;
    char time[CLOCK_ISO_LEN + 1], place[300], what[200], detail[400], reason[64], group[104];
    (void)f;
    if (!ours(w, r))
        return 0;
    if (r->value)
        (void)json_parse(r->value, r->value_len, &body, &scrap);
    clock_format_iso(r->timestamp_ms > 0 ? r->timestamp_ms : 0, time);
    (void)snprintf(place, sizeof place, "%s/%d/%lld", r->topic, (int)r->partition,
                   (long long)r->offset);
    const char *type = body ? json_str(body, "type") : NULL;
    (void)snprintf(what, sizeof what, "%.80s", type ? type : body ? "legacy event" : "unreadable");
    describe(body, detail, sizeof detail);
    if (header(headers, count, DEAD_LETTER_REASON, reason, sizeof reason)[0]) {
        header(headers, count, DEAD_LETTER_GROUP, group, sizeof group);
        (void)snprintf(what, sizeof what, "dead letter: %s", reason);
        (void)snprintf(detail, sizeof detail, "%.80s, refused by %s, tried %d times",
                       type ? type : "unreadable", group, dead_letter_attempts(headers, count));
    }
    learn(w, body);
    cJSON_Delete(body);
    add_step(w, time, place, what, detail);
    return 0;
}

static int read_log(struct work *w)
{
    static struct log_scan scan;
    static char letters[MAX_TOPICS][TOPIC_NAME_MAX + 1];
    struct kafka_admin *admin = NULL;
    struct fault f = {0};
    scan = (struct log_scan){0};
    int code = stage_kafka(w->stage, &admin);
    if (code != CLI_OK)
        return code;
    int rc = 0;
    for (size_t i = 0; i < MAX_TOPICS && TOPICS[i].name && rc == 0; i++) {
        rc = log_scan_add(&scan, w->stage, TOPICS[i].name, w->since_ms, &f);
        if (rc == 0 && topic_dlq(TOPICS[i].name, letters[i])) /* they keep their source's time */
            rc = log_scan_add(&scan, w->stage, letters[i], 0, &f);
    }
    if (rc == 0)
        rc = log_scan_run(&scan, w->stage, "reading the log", on_record, w, &f);
    return rc == 0 ? CLI_OK : stage_fail(w->stage, rc, &f);
}

static int gather(struct work *w)
{
    int code = find_ids(w);
    if (code == CLI_OK)
        code = read_log(w);
    if (code == CLI_OK && !w->known && w->step_count) { /* the log has told more names */
        w->step_count = 0;
        code = find_ids(w);
        w->since_ms = 0;
        if (code == CLI_OK)
            code = read_log(w);
    }
    if (code == CLI_OK)
        code = add_rows(w, STAGE_TICKET, "saga_ticket.sql");
    if (code == CLI_OK)
        code = add_rows(w, STAGE_PAYMENT, "saga_payment.sql");
    return code;
}

static int by_time(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    int order = strcmp(x->time, y->time);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static void tell(struct work *w)
{
    static const struct cli_column COLUMNS[] = {{"TIME", "time", CLI_TEXT},
                                                {"WHAT", "what", CLI_TEXT},
                                                {"WHERE", "where", CLI_TEXT},
                                                {"DETAIL", "detail", CLI_TEXT},
                                                {NULL, NULL, CLI_TEXT}};
    struct saga *s = w->saga;
    qsort(w->steps, w->step_count, sizeof w->steps[0], by_time);
    s->table = cli_table_new(COLUMNS);
    s->steps = w->step_count;
    for (size_t i = 0; i < w->step_count; i++) {
        cli_put_text(s->table, w->steps[i].time);
        cli_put_text(s->table, w->steps[i].what);
        cli_put_text(s->table, w->steps[i].place);
        cli_put_text(s->table, w->steps[i].detail);
    }
    (void)snprintf(s->saga_id, sizeof s->saga_id, "%s", w->saga_count ? w->saga_ids[0] : "");
    if (!s->outcome[0] && w->step_count)
        (void)snprintf(s->outcome, sizeof s->outcome, "not in ticket_db: only the log knows it");
}

int saga_read(struct saga *s, struct stage *stage, const char *name, bool must)
{
    *s = (struct saga){0};
    struct work *w = calloc(1, sizeof *w);
    if (!w)
        return cli_fail(stage->cli, CLI_FAILED, "no memory");
    w->saga = s;
    w->stage = stage;
    arena_init(&w->arena, ARENA_BYTES);
    (void)add_id(w, name);
    int code = gather(w);
    if (code == CLI_OK && w->step_count == 0 && must)
        code = cli_fail(stage->cli, CLI_REFUSED,
                        "%s: no reservation, payment, order, transfer, membership or saga of that "
                        "name, neither in the databases nor in the log",
                        name);
    if (code == CLI_OK && w->step_count)
        tell(w);
    arena_done(&w->arena);
    free(w);
    return code;
}

void saga_done(struct saga *s)
{
    cli_table_free(s->table);
    *s = (struct saga){0};
}

void saga_print(const struct saga *s)
{
    if (s->saga_id[0])
        (void)printf("saga %s\n", s->saga_id);
    (void)printf("%s\n\n", s->outcome);
    cli_table_text(s->table, "nothing");
}

void saga_json(const struct saga *s, struct json_out *j)
{
    json_put_str(j, "sagaId", s->saga_id[0] ? s->saga_id : NULL);
    json_put_str(j, "outcome", s->outcome);
    cli_table_json(s->table, j, "steps");
}

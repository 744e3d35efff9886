/* migrate.c - compares embedded files with what the database has seen, and applies the rest. */
#include "runtime/migrate.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "runtime/clock.h"
#include "runtime/embed.h"
#include "runtime/fault.h"
#include "runtime/pg.h"
#include "runtime_sql.h"

enum { LOCK_WAIT_MS = 300000, LOCK_POLL_US = 50000, CHECKSUM_LEN = 64 };

/* Any number, as long as nobody else uses it: "urr-migr" in ASCII. */
static const int64_t LOCK_KEY = INT64_C(0x7572722d6d696772);

static const struct pg_stmt TRY_LOCK = {NULL, "SELECT pg_try_advisory_lock($1)"};
static const struct pg_stmt UNLOCK = {NULL, "SELECT pg_advisory_unlock($1)"};
static const struct pg_stmt HAS_TABLES = {NULL,
                                          "SELECT to_regclass('schema_functions') IS NOT NULL"};
static const struct pg_stmt APPLIED = {
    NULL, "SELECT version, name, checksum FROM schema_migrations WHERE set_name = $1 ORDER BY 1"};
static const struct pg_stmt FUNCTIONS = {
    NULL, "SELECT name, checksum FROM schema_functions WHERE set_name = $1"};
static const struct pg_stmt RECORD = {
    NULL,
    "INSERT INTO schema_migrations (set_name, version, name, checksum) VALUES ($1, $2, $3, $4)"};
static const struct pg_stmt FORGET_FUNCTION = {
    NULL, "DELETE FROM schema_functions WHERE set_name = $1 AND name = $2"};
static const struct pg_stmt RECORD_FUNCTION = {
    NULL, "INSERT INTO schema_functions (set_name, name, checksum) VALUES ($1, $2, $3)"};
static const struct pg_stmt END_GUARD = {NULL, "DELETE FROM pg_temp.urr_migration"};
/* Functions may call each other in any order of their files. */
static const struct pg_stmt LAX_BODIES = {NULL, "SET LOCAL check_function_bodies = off"};

struct file {
    const struct embed_file *embed;
    const char *base; /* the name without its folders */
    int version;      /* 0: a function */
    char checksum[CHECKSUM_LEN + 1];
    bool applied;
};

struct set {
    const char *name;
    struct file files[MIGRATE_MAX_FILES], functions[MIGRATE_MAX_FILES];
    size_t file_count, function_count;
};

struct pg_session migrate_session(const char *uri)
{
    return (struct pg_session){.uri = uri,
                               .application_name = "urr-migrate",
                               .statement_timeout_ms = -1,
                               .lock_timeout_ms = 30000,
                               .idle_in_transaction_ms = 60000,
                               .reply_timeout_ms = 3600000};
}

/* Reading the table */

static void sum(const struct embed_file *file, char out[CHECKSUM_LEN + 1])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    (void)EVP_Digest(file->data, embed_len(file), digest, &len, EVP_sha256(), NULL);
    for (unsigned i = 0; i < len && i < CHECKSUM_LEN / 2; i++)
        (void)snprintf(out + (size_t)i * 2, 3, "%02x", digest[i]);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->embed->name, ((const struct file *)b)->embed->name);
}

/* "001_seats.sql" → 1; 0 when it is no such name. */
static int version_of(const char *base)
{
    if (strspn(base, "0123456789") != 3 || base[3] != '_')
        return 0;
    return (base[0] - '0') * 100 + (base[1] - '0') * 10 + (base[2] - '0');
}

/* Sorts one embedded file into the set; others' files are none of ours. */
static int take_file(struct set *s, const struct embed_file *embed, struct fault *f)
{
    static const char FOLDER[] = "functions/";
    size_t len = strlen(s->name);
    if (strncmp(embed->name, s->name, len) != 0 || embed->name[len] != '/')
        return 0;
    const char *base = embed->name + len + 1;
    bool function = strncmp(base, FOLDER, strlen(FOLDER)) == 0;
    base += function ? strlen(FOLDER) : 0;
    int version = function ? 0 : version_of(base);
    size_t *count = function ? &s->function_count : &s->file_count;
    if (strchr(base, '/') || (!function && version == 0))
        return fault_set(f, RC_REJECT, "%s: expected %s/NNN_name.sql or %s/functions/name.sql",
                         embed->name, s->name, s->name);
    if (*count == MIGRATE_MAX_FILES)
        return fault_set(f, RC_REJECT, "set %s: more than %d files", s->name, MIGRATE_MAX_FILES);
    struct file *file = &(function ? s->functions : s->files)[(*count)++];
    *file = (struct file){.embed = embed, .base = base, .version = version};
    sum(embed, file->checksum);
    return 0;
}

static int read_set(const struct embed_file *table, const char *name, struct set *s,
                    struct fault *f)
{
    *s = (struct set){.name = name};
    for (; table->name; table++) {
        int rc = take_file(s, table, f);
        if (rc != 0)
            return rc;
    }
    qsort(s->files, s->file_count, sizeof s->files[0], by_name);
    qsort(s->functions, s->function_count, sizeof s->functions[0], by_name);
    for (size_t i = 0; i < s->file_count; i++) {
        int wanted = (int)i + 1;
        if (s->files[i].version < wanted)
            return fault_set(f, RC_REJECT, "%s: number %03d is there twice, or is 000",
                             s->files[i].embed->name, s->files[i].version);
        if (s->files[i].version > wanted)
            return fault_set(f, RC_REJECT, "%s: the file number %03d before it is missing",
                             s->files[i].embed->name, wanted);
    }
    if (s->file_count + s->function_count == 0)
        return fault_set(f, RC_REJECT, "set %s: this program holds no SQL for it", name);
    return 0;
}

/* Comparing with the database */

static int ask(struct pg *c, const struct pg_stmt *stmt, const char *set, struct pg_result **out,
               struct fault *f)
{
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, set);
    return pg_exec(c, stmt, &p, out, f);
}

/* One row of schema_migrations. */
static int check_applied(struct set *s, int version, const char *name, const char *checksum,
                         struct fault *f)
{
    if ((size_t)version > s->file_count)
        return fault_set(f, RC_REJECT,
                         "set %s: the database has %s, which this program does not know: it is "
                         "older than the database; use a newer one",
                         s->name, name);
    struct file *file = &s->files[version - 1];
    if (strcmp(file->checksum, checksum) != 0)
        return fault_set(f, RC_REJECT,
                         "%s: changed after it was applied; restore it and put the change into a "
                         "new file",
                         file->embed->name);
    file->applied = true;
    return 0;
}

static int compare_files(struct pg *c, struct set *s, struct fault *f)
{
    struct pg_result *r = NULL;
    int rc = ask(c, &APPLIED, s->name, &r, f);
    for (int i = 0; rc == 0 && i < pg_result_rows(r); i++)
        rc = check_applied(s, (int)pg_result_int(r, i, 0), pg_result_text(r, i, 1),
                           pg_result_text(r, i, 2), f);
    pg_result_free(r);
    for (size_t i = 1; rc == 0 && i < s->file_count; i++)
        if (s->files[i].applied && !s->files[i - 1].applied)
            rc = fault_set(f, RC_REJECT, "%s: was never applied, but %s was; give it a new number",
                           s->files[i - 1].embed->name, s->files[i].base);
    return rc;
}

static int compare_functions(struct pg *c, struct set *s, struct fault *f)
{
    struct pg_result *r = NULL;
    int rc = ask(c, &FUNCTIONS, s->name, &r, f);
    for (int i = 0; rc == 0 && i < pg_result_rows(r); i++)
        for (size_t k = 0; k < s->function_count; k++)
            if (strcmp(s->functions[k].base, pg_result_text(r, i, 0)) == 0)
                s->functions[k].applied =
                    strcmp(s->functions[k].checksum, pg_result_text(r, i, 1)) == 0;
    pg_result_free(r);
    return rc;
}

static int compare(struct pg *c, struct set *s, struct fault *f)
{
    struct pg_result *r = NULL;
    int rc = pg_exec(c, &HAS_TABLES, NULL, &r, f);
    bool touched = rc == 0 && pg_result_bool(r, 0, 0);
    pg_result_free(r);
    if (rc != 0 || !touched)
        return rc; /* nothing is applied yet */
    rc = compare_files(c, s, f);
    return rc != 0 ? rc : compare_functions(c, s, f);
}

/* Applying */

static void report(const struct migrate_options *o, const struct set *s, const struct file *file,
                   enum migrate_state state)
{
    struct migrate_step step = {
        .set = s->name, .file = file->embed->name, .version = file->version, .state = state};
    if (o->on_step)
        o->on_step(&step, o->arg);
}

static int run_own(struct pg *c, const char *name, struct fault *f)
{
    return pg_script(c, name, embed_find(runtime_sql, name)->data, f);
}

/* A transaction that only commit_guarded() can commit. */
static int begin_guarded(struct pg *c, struct fault *f)
{
    int rc = pg_begin(c, f);
    return rc != 0 ? rc : run_own(c, "migrate_guard.sql", f);
}

static int commit_guarded(struct pg *c, struct fault *f)
{
    int rc = pg_exec(c, &END_GUARD, NULL, NULL, f);
    return rc != 0 ? rc : pg_commit(c, f);
}

static int run_file(struct pg *c, const struct file *file, struct fault *f)
{
    if (strlen(file->embed->data) != embed_len(file->embed))
        return fault_set(f, RC_REJECT, "%s: holds a NUL byte", file->embed->name);
    int rc = pg_script(c, file->embed->name, file->embed->data, f);
    bool committed = strcmp(pg_error(c)->constraint, "urr_migration_is_open") == 0;
    if (committed || (rc == 0 && !pg_in_transaction(c)))
        return fault_set(f, RC_FATAL, "%s: holds COMMIT or ROLLBACK: each file is one transaction",
                         file->embed->name);
    return rc;
}

static int record_file(struct pg *c, const struct set *s, const struct file *file, struct fault *f)
{
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, s->name);
    pg_params_int4(&p, file->version);
    pg_params_text(&p, file->base);
    pg_params_text(&p, file->checksum);
    return pg_exec(c, &RECORD, &p, NULL, f);
}

static int record_function(struct pg *c, const struct set *s, const struct file *file,
                           struct fault *f)
{
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, s->name);
    pg_params_text(&p, file->base);
    int rc = pg_exec(c, &FORGET_FUNCTION, &p, NULL, f);
    pg_params_text(&p, file->checksum);
    return rc != 0 ? rc : pg_exec(c, &RECORD_FUNCTION, &p, NULL, f);
}

static int apply_file(struct pg *c, const struct set *s, const struct file *file, struct fault *f)
{
    int rc = begin_guarded(c, f);
    if (rc == 0)
        rc = run_file(c, file, f);
    if (rc == 0)
        rc = record_file(c, s, file, f);
    if (rc == 0)
        rc = commit_guarded(c, f);
    if (rc != 0)
        pg_rollback(c);
    return rc;
}

static int apply_files(struct pg *c, const struct migrate_options *o, const struct set *s,
                       struct fault *f)
{
    for (size_t i = 0; i < s->file_count; i++) {
        const struct file *file = &s->files[i];
        int rc = file->applied || o->dry_run ? 0 : apply_file(c, s, file, f);
        if (rc != 0)
            return rc;
        report(o, s, file,
               file->applied ? MIGRATE_OLD : (o->dry_run ? MIGRATE_PENDING : MIGRATE_DONE));
    }
    return 0;
}

/* All changed functions of the set at once: a consumer beside us never sees half of them. */
static int replace_functions(struct pg *c, const struct set *s, struct fault *f)
{
    int rc = begin_guarded(c, f);
    if (rc == 0)
        rc = pg_exec(c, &LAX_BODIES, NULL, NULL, f);
    for (size_t i = 0; rc == 0 && i < s->function_count; i++) {
        if (s->functions[i].applied)
            continue;
        rc = run_file(c, &s->functions[i], f);
        if (rc == 0)
            rc = record_function(c, s, &s->functions[i], f);
    }
    if (rc == 0)
        rc = commit_guarded(c, f);
    if (rc != 0)
        pg_rollback(c);
    return rc;
}

static int apply_functions(struct pg *c, const struct migrate_options *o, const struct set *s,
                           struct fault *f)
{
    bool changed = false;
    for (size_t i = 0; i < s->function_count; i++)
        changed = changed || !s->functions[i].applied;
    int rc = changed && !o->dry_run ? replace_functions(c, s, f) : 0;
    for (size_t i = 0; rc == 0 && i < s->function_count; i++)
        report(o, s, &s->functions[i],
               s->functions[i].applied ? MIGRATE_OLD
                                       : (o->dry_run ? MIGRATE_PENDING : MIGRATE_DONE));
    return rc;
}

static int lock(struct pg *c, int wait_ms, struct fault *f)
{
    int64_t deadline_ms = clock_mono_ms() + (wait_ms > 0 ? wait_ms : LOCK_WAIT_MS);
    struct pg_params p;
    pg_params_init(&p);
    pg_params_int8(&p, LOCK_KEY);
    for (;;) {
        struct pg_result *r = NULL;
        int rc = pg_exec(c, &TRY_LOCK, &p, &r, f);
        bool held = rc == 0 && pg_result_bool(r, 0, 0);
        pg_result_free(r);
        if (rc != 0 || held)
            return rc;
        if (clock_mono_ms() >= deadline_ms)
            return fault_set(f, RC_RETRY, "another migration of %s is still running", pg_target(c));
        (void)usleep(LOCK_POLL_US);
    }
}

static int run_sets(struct pg *c, const struct migrate_options *o, struct set *s, struct fault *f)
{
    for (const char *const *name = o->sets; *name; name++) {
        int rc = read_set(o->table, *name, s, f);
        if (rc == 0)
            rc = compare(c, s, f);
        if (rc == 0)
            rc = apply_files(c, o, s, f);
        if (rc == 0)
            rc = apply_functions(c, o, s, f);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int migrate_run(struct pg *c, const struct migrate_options *o, struct fault *f)
{
    struct set *s = malloc(sizeof *s);
    if (!s)
        return fault_set(f, RC_FATAL, "no memory for a migration");
    int rc = o->dry_run ? 0 : lock(c, o->lock_wait_ms, f);
    if (rc == 0 && !o->dry_run)
        rc = run_own(c, "migrate.sql", f);
    if (rc == 0)
        rc = run_sets(c, o, s, f);
    if (!o->dry_run && pg_connected(c)) {
        struct pg_params p;
        pg_params_init(&p);
        pg_params_int8(&p, LOCK_KEY);
        (void)pg_exec(c, &UNLOCK, &p, NULL, NULL); /* a closed session gives it up too */
    }
    free(s);
    return rc;
}

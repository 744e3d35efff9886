/* config.c - gathers the settings of all tables from environment, file and defaults. */
#include "runtime/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "runtime/buf.h"
#include "runtime/config_check.h"
#include "runtime/config_file.h"
#include "runtime/fault.h"

struct entry {
    const struct config_item *item;
    char *value; /* NULL: an optional one that is absent */
};

struct config {
    size_t count;
    struct entry *entries;
};

static struct entry *find(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->entries[i].item->name, name) == 0)
            return &c->entries[i];
    return NULL;
}

static size_t count_items(const struct config_item *const *tables)
{
    size_t count = 0;
    for (; *tables; tables++)
        for (const struct config_item *item = *tables; item->name; item++)
            count++;
    return count;
}

static struct config *new_config(const struct config_item *const *tables)
{
    struct config *c = calloc(1, sizeof *c);
    if (c)
        c->entries = calloc(count_items(tables) + 1, sizeof *c->entries);
    if (!c || !c->entries) {
        free(c);
        return NULL;
    }
    for (; *tables; tables++)
        for (const struct config_item *item = *tables; item->name; item++)
            if (!find(c, item->name))
                c->entries[c->count++].item = item;
    return c;
}

/* Edits (one letter put in, taken out or changed) between two names; both are short. */
static size_t distance(const char *a, const char *b)
{
    enum { MAX = 64 };
    size_t row[MAX + 1], la = strlen(a), lb = strlen(b);
    if (la > MAX || lb > MAX)
        return MAX;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < other ? change : other;
        }
    }
    return row[lb];
}

/* The known name that was most likely meant, or NULL. */
static const char *nearest(const struct config *c, const char *const *known, const char *name)
{
    const char *best = NULL;
    size_t least = strlen(name) / 4 + 2;
    for (size_t i = 0; i < c->count; i++) {
        size_t d = distance(name, c->entries[i].item->name);
        if (d < least) {
            least = d;
            best = c->entries[i].item->name;
        }
    }
    for (; known && *known; known++) {
        size_t d = distance(name, *known);
        if (d < least) {
            least = d;
            best = *known;
        }
    }
    return best;
}

static bool is_known(const struct config *c, const char *const *known, const char *name)
{
    if (find(c, name))
        return true;
    for (; known && *known; known++)
        if (strcmp(*known, name) == 0)
            return true;
    return false;
}

static int check_names(const struct config *c, const char *const *known, const char *path,
                       const struct config_file *file, struct fault *f)
{
    for (size_t i = 0; i < config_file_count(file); i++) {
        const struct config_line *line = config_file_line(file, i);
        if (is_known(c, known, line->name))
            continue;
        const char *meant = nearest(c, known, line->name);
        return fault_set(f, RC_FATAL, "%.60s line %u: %.50s is no setting of URR%s%s%s", path,
                         line->number, line->name, meant ? ": did you mean " : "",
                         meant ? meant : "", meant ? "?" : " (--help lists them)");
    }
    return 0;
}

static int set_value(struct entry *e, const char *value, struct fault *f)
{
    int rc = config_check(e->item, value, f);
    if (rc != 0)
        return rc;
    e->value = strdup(value);
    return e->value ? 0 : fault_set(f, RC_FATAL, "no memory for the setting %s", e->item->name);
}

static int take_value(struct entry *e, const struct config_file *file, struct fault *f)
{
    const char *value = getenv(e->item->name);
    if ((!value || !*value) && file)
        value = config_file_get(file, e->item->name);
    if (!value || !*value)
        value = e->item->fallback;
    if (value && *value)
        return set_value(e, value, f);
    if (value || e->item->flags & CONFIG_OPTIONAL)
        return 0;
    struct buf want;
    buf_init(&want, 100);
    config_check_bounds(e->item, &want);
    (void)fault_set(f, RC_FATAL, "%s: is required, give %s", e->item->name, buf_text(&want));
    buf_done(&want);
    return RC_FATAL;
}

/* A secret that serves two purposes lets a token of one kind pass as the other. */
static int check_secrets_differ(const struct config *c, struct fault *f)
{
    for (size_t i = 0; i < c->count; i++)
        for (size_t j = i + 1; j < c->count; j++) {
            const struct entry *a = &c->entries[i], *b = &c->entries[j];
            if (a->item->type != CONFIG_SECRET || b->item->type != CONFIG_SECRET || !a->value ||
                !b->value || strlen(a->value) != strlen(b->value))
                continue;
            if (CRYPTO_memcmp(a->value, b->value, strlen(a->value)) == 0)
                return fault_set(f, RC_FATAL, "%s and %s: must differ, give each its own secret",
                                 a->item->name, b->item->name);
        }
    return 0;
}

static int fill(struct config *c, const char *const *known, const char *path, struct fault *f)
{
    struct config_file *file = NULL;
    int rc = path ? config_file_read(path, &file, f) : 0;
    if (rc == 0 && file)
        rc = check_names(c, known, path, file, f);
    for (size_t i = 0; rc == 0 && i < c->count; i++)
        rc = take_value(&c->entries[i], file, f);
    config_file_free(file);
    return rc == 0 ? check_secrets_differ(c, f) : rc;
}

int config_load(const struct config_item *const *tables, const char *const *known, const char *file,
                struct config **out, struct fault *f)
{
    struct config *c = new_config(tables);
    if (!c)
        return fault_set(f, RC_FATAL, "no memory for the settings");
    int rc = fill(c, known, file, f);
    if (rc != 0) {
        config_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void config_free(struct config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        char *value = c->entries[i].value;
        if (value)
            explicit_bzero(value, strlen(value));
        free(value);
    }
    free(c->entries);
    free(c);
}

static const struct entry *must_find(const struct config *c, const char *name, bool fits(int type))
{
    const struct entry *e = find(c, name);
    if (!e || !fits((int)e->item->type)) {
        (void)fprintf(stderr, "bug: the setting %s is not declared with that type\n", name);
        abort();
    }
    return e;
}

static bool is_text(int type)
{
    return type != CONFIG_INT && type != CONFIG_BOOL;
}

static bool is_int(int type)
{
    return type == CONFIG_INT;
}

static bool is_bool(int type)
{
    return type == CONFIG_BOOL;
}

const char *config_str(const struct config *c, const char *name)
{
    return must_find(c, name, is_text)->value;
}

int64_t config_int(const struct config *c, const char *name)
{
    const char *value = must_find(c, name, is_int)->value;
    return value ? config_check_int(value) : 0;
}

bool config_bool(const struct config *c, const char *name)
{
    const char *value = must_find(c, name, is_bool)->value;
    return value && config_check_bool(value);
}

const char *config_show(const struct config *c, const char *name, struct buf *scratch)
{
    const struct entry *e = find(c, name);
    if (!e || !e->value)
        return NULL;
    buf_reset(scratch);
    config_check_print(e->item, e->value, scratch);
    return buf_text(scratch);
}

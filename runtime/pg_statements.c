/* pg_statements.c - a small cache of prepared statements; entries live as long as it. */
#include "runtime/pg_statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_statement(struct pg_statement *s)
{
    if (!s)
        return;
    free(s->name);
    free(s->sql);
    free(s);
}

void pg_statements_done(struct pg_statements *s)
{
    for (size_t i = 0; i < s->count; i++)
        free_statement(s->item[i]);
    s->count = 0;
}

static bool same(const struct pg_statement *s, const struct pg_stmt *stmt,
                 const struct pg_params *p)
{
    int count = p ? p->count : 0;
    if (s->param_count != count || strcmp(s->name, stmt->name) != 0 ||
        strcmp(s->sql, stmt->sql) != 0)
        return false;
    for (int i = 0; i < count; i++)
        if (s->oids[i] != p->item[i].oid)
            return false;
    return true;
}

static struct pg_statement *make(const struct pg_stmt *stmt, const struct pg_params *p)
{
    struct pg_statement *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->name = strdup(stmt->name);
    s->sql = strdup(stmt->sql);
    s->param_count = p ? p->count : 0;
    for (int i = 0; i < s->param_count; i++)
        s->oids[i] = p->item[i].oid;
    if (s->name && s->sql)
        return s;
    free_statement(s);
    return NULL;
}

/* Serial numbers keep a name from meeting an older statement that the server still holds. */
static void name_anew(struct pg_statements *s, struct pg_statement *statement)
{
    (void)snprintf(statement->server_name, sizeof statement->server_name, "%.50s.%u",
                   statement->name, ++s->serial);
}

struct pg_statement *pg_statements_get(struct pg_statements *s, const struct pg_stmt *stmt,
                                       const struct pg_params *p)
{
    if (!stmt->name)
        return NULL;
    for (size_t i = 0; i < s->count; i++)
        if (same(s->item[i], stmt, p))
            return s->item[i];
    if (s->count == PG_MAX_STATEMENTS)
        return NULL;
    struct pg_statement *statement = make(stmt, p);
    if (!statement)
        return NULL;
    name_anew(s, statement);
    s->item[s->count++] = statement;
    return statement;
}

void pg_statements_forget(struct pg_statements *s)
{
    for (size_t i = 0; i < s->count; i++) {
        s->item[i]->state = PG_NOT_PREPARED;
        name_anew(s, s->item[i]);
    }
}

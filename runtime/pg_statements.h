/* pg_statements.h - which statements one connection has prepared. Used by pg and pg_pool. */
#ifndef PG_STATEMENTS_H
#define PG_STATEMENTS_H
#include <stdbool.h>
#include <stddef.h>

#include "runtime/pg_params.h"

/* A statement: `name` is its key and its name in pg_prepared_statements; NULL: never prepared. Both
 * are usually constants; they are copied where they are kept. */
struct pg_stmt {
    const char *name;
    const char *sql; /* one statement, parameters as $1 … */
};

enum { PG_MAX_STATEMENTS = 256, PG_STATEMENT_NAME = 64 };

enum pg_prepared { PG_NOT_PREPARED, PG_PREPARING, PG_PREPARED };

/* One entry per name, text and parameter types. */
struct pg_statement {
    char *name, *sql;
    int param_count;
    unsigned oids[PG_MAX_PARAMS];
    enum pg_prepared state;
    char server_name[PG_STATEMENT_NAME]; /* "name.7"; fresh with each preparation */
};

struct pg_statements {
    struct pg_statement *item[PG_MAX_STATEMENTS];
    size_t count;
    unsigned serial;
};

void pg_statements_done(struct pg_statements *s);

/* The entry, made on first use in state NOT_PREPARED with a server name of its own; NULL when the
 * statement has no name, the cache is full or memory is short: execute it unprepared. */
struct pg_statement *pg_statements_get(struct pg_statements *s, const struct pg_stmt *stmt,
                                       const struct pg_params *p);

/* Nothing is prepared any more: a new connection, or plans that the server calls stale. */
void pg_statements_forget(struct pg_statements *s);

#endif

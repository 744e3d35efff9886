/* pg_error.h - what a PostgreSQL error means for the caller, told from its SQLSTATE. */
#ifndef PG_ERROR_H
#define PG_ERROR_H
#include <stddef.h>

enum pg_class {
    PG_CLASS_NONE,     /* no error */
    PG_CLASS_CONFLICT, /* RC_RETRY: lost a race (deadlock, serialisation, lock time-out, cancelled):
                          the same transaction may pass when run again */
    PG_CLASS_AWAY,     /* RC_RETRY: the server is away, frozen, full or read-only: wait, and blame
                          no input */
    PG_CLASS_DATA,  /* RC_REJECT: this input breaks a constraint or a type, or a function raised */
    PG_CLASS_BROKEN /* RC_FATAL: the schema, the rights or the program are wrong */
};

struct pg_error {
    enum pg_class class;
    char sqlstate[6];    /* "08006" where the connection was lost without one */
    char constraint[64]; /* the violated constraint, or "" */
    size_t index;        /* of the failed statement in its queue (pg_collect), else 0 */
};

enum pg_class pg_error_class(const char *sqlstate);
int pg_error_rc(enum pg_class class);           /* RC_RETRY, RC_REJECT, RC_FATAL; 0 for NONE */
const char *pg_error_name(enum pg_class class); /* "conflict", for logs and metrics */

#endif

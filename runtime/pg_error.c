/* pg_error.c - SQLSTATE to class: the longest prefix in the table wins. */
#include "runtime/pg_error.h"

#include <string.h>

#include "runtime/fault.h"

struct rule {
    const char *prefix; /* two characters (a class of SQLSTATE) or all five */
    enum pg_class class;
};

/* What is in no rule is BROKEN: an unknown error must not be retried for ever, nor be taken for a
 * bad input. */
static const struct rule RULES[] = {
    {"08", PG_CLASS_AWAY},        /* connection lost or refused */
    {"09", PG_CLASS_DATA},        /* triggered action */
    {"0A000", PG_CLASS_CONFLICT}, /* "cached plan must not change result type": prepared anew */
    {"21", PG_CLASS_DATA},        /* cardinality: ON CONFLICT met the same row twice */
    {"22", PG_CLASS_DATA},
    {"23", PG_CLASS_DATA},
    {"25006", PG_CLASS_AWAY},     /* read-only: a standby that is not promoted yet */
    {"25P02", PG_CLASS_CONFLICT}, /* the transaction failed before */
    {"25P03", PG_CLASS_CONFLICT}, /* idle in transaction for too long; the session is gone */
    {"26000", PG_CLASS_CONFLICT}, /* prepared statement gone: prepared anew */
    {"27", PG_CLASS_DATA},        /* triggered data change */
    {"38", PG_CLASS_DATA},        /* external routine */
    {"39", PG_CLASS_DATA},
    {"40", PG_CLASS_CONFLICT}, /* serialisation, deadlock, completion unknown */
    {"40002", PG_CLASS_DATA},  /* deferred integrity constraint */
    {"44", PG_CLASS_DATA},     /* WITH CHECK OPTION */
    {"53", PG_CLASS_AWAY},     /* disk full, out of memory, too many connections */
    {"54", PG_CLASS_DATA},     /* row or index entry too large */
    {"55006", PG_CLASS_CONFLICT},
    {"55P03", PG_CLASS_CONFLICT}, /* lock not available */
    {"57014", PG_CLASS_CONFLICT}, /* cancelled, also by statement_timeout */
    {"57P01", PG_CLASS_AWAY},
    {"57P02", PG_CLASS_AWAY}, /* another backend crashed */
    {"57P03", PG_CLASS_AWAY}, /* starting up or shutting down */
    {"57P05", PG_CLASS_AWAY}, /* idle session time-out */
    {"58", PG_CLASS_AWAY},    /* input/output error below the server */
    {"P0", PG_CLASS_DATA},    /* raised by a function */
    {"XX000", PG_CLASS_DATA}, /* an internal error that this input provokes */
};

enum pg_class pg_error_class(const char *sqlstate)
{
    if (!sqlstate || strlen(sqlstate) != 5)
        return PG_CLASS_AWAY; /* libpq gives none when the connection broke */
    if (strncmp(sqlstate, "00", 2) == 0)
        return PG_CLASS_NONE;
    enum pg_class class = PG_CLASS_BROKEN;
    size_t best = 0;
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        size_t len = strlen(RULES[i].prefix);
        if (len > best && strncmp(sqlstate, RULES[i].prefix, len) == 0) {
            best = len;
            class = RULES[i].class;
        }
    }
    return class;
}

int pg_error_rc(enum pg_class class)
{
    switch (class) {
    case PG_CLASS_NONE:
        return 0;
    case PG_CLASS_CONFLICT:
    case PG_CLASS_AWAY:
        return RC_RETRY;
    case PG_CLASS_DATA:
        return RC_REJECT;
    case PG_CLASS_BROKEN:
        break;
    }
    return RC_FATAL;
}

const char *pg_error_name(enum pg_class class)
{
    static const char *const NAMES[] = {"ok", "conflict", "away", "data", "broken"};
    return (unsigned)class < sizeof NAMES / sizeof NAMES[0] ? NAMES[class] : "broken";
}

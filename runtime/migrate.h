/* migrate.h - brings a database's schema up to date from embedded SQL files. Forward only.
 *
 * A set is a folder of the table: numbered files (`ticket/001_seats.sql`, from 001 without a gap),
 * each applied once, in order, in a transaction of its own, together with its row in
 * schema_migrations; then `ticket/functions/ *.sql` (CREATE OR REPLACE …), applied again whenever a
 * file's checksum changes, all of a set in one transaction, recorded in schema_functions.
 *
 * Refused, with the file's name: an applied file whose checksum changed, a number missing or twice,
 * a file that comes late (a higher one is applied), a version that this program does not know. A
 * file must not hold COMMIT or ROLLBACK. Two runs at the same time: the second waits (advisory
 * lock) and finds nothing to do. */
#ifndef MIGRATE_H
#define MIGRATE_H
#include <stdbool.h>
#include <stddef.h>

#include "runtime/pg_session.h"

struct embed_file;
struct fault;
struct pg;

enum { MIGRATE_MAX_FILES = 256 }; /* per set, numbered and functions each */

enum migrate_state {
    MIGRATE_OLD,     /* was applied before */
    MIGRATE_PENDING, /* dry run: would be applied */
    MIGRATE_DONE     /* has been applied now */
};

struct migrate_step {
    const char *set;
    const char *file; /* name in the table */
    int version;      /* 0: a function file */
    enum migrate_state state;
};
typedef void (*migrate_fn)(const struct migrate_step *step, void *arg);

struct migrate_options {
    const struct embed_file *table;
    const char *const *sets; /* in order, ending with NULL */
    bool dry_run;            /* look only: no lock, no write */
    int lock_wait_ms;        /* for another run to end; 0: 300000 */
    migrate_fn on_step;      /* every file in order, after its fate is settled; may be NULL */
    void *arg;
};

/* A session fit for migrations: statements may take long, but wait 30 s for a lock at most. */
struct pg_session migrate_session(const char *uri);

/* `c` is connected and in no transaction. RC_RETRY: the server is away, or rows were locked: run it
 * again. RC_REJECT: the files and the database do not fit together, or a file breaks a constraint.
 * RC_FATAL: a file does not run. What was applied before the failure stays. */
int migrate_run(struct pg *c, const struct migrate_options *o, struct fault *f);

#endif

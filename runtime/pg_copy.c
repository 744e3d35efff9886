/* pg_copy.c - scripts and COPY: the parts of libpq that pipeline mode cannot do. */
#include "runtime/pg_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/pg_metrics.h"

enum { CHUNK = 65536 }; /* handed to libpq at once, so that its buffer stays small */

/* The line of `sql` that a refused script stopped at, or 0. Positions count characters, not bytes.
 */
static int failed_line(const struct pg_result *r, const char *sql)
{
    const char *position = PQresultErrorField(r, PG_DIAG_STATEMENT_POSITION);
    long left = position ? strtol(position, NULL, 10) : 0;
    int line = left > 0 ? 1 : 0;
    for (; left > 1 && *sql; sql++) {
        line += *sql == '\n';
        left -= ((unsigned char)sql[1] & 0xc0) != 0x80; /* not the middle of a character */
    }
    return line;
}

static int script_refused(struct pg *c, const struct pg_result *r, const char *label,
                          const char *sql, struct fault *f)
{
    char place[128];
    int line = sql ? failed_line(r, sql) : 0;
    if (line > 0)
        (void)snprintf(place, sizeof place, "%s:%d", label, line);
    return pg_refused(c, r, line > 0 ? place : label, f);
}

/* All results of a plain query; the first failure counts. *out_rows: of the last one, may be NULL.
 * `sql` for the line of an error, may be NULL. */
static int finish(struct pg *c, const char *label, const char *sql, int64_t *out_rows,
                  struct fault *f)
{
    int rc = 0;
    for (;;) {
        struct pg_result *r = NULL;
        int lost = pg_next_result(c, label, &r, rc == 0 ? f : NULL);
        if (lost != 0)
            return rc != 0 ? rc : lost;
        if (!r)
            return rc;
        ExecStatusType status = PQresultStatus(r);
        bool good =
            status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY;
        if (!good && rc == 0)
            rc = script_refused(c, r, label, sql, f);
        else if (out_rows && rc == 0)
            *out_rows = pg_result_affected(r);
        PQclear(r);
        if (!c->conn)
            return rc;
        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
            pg_disconnect(c); /* nobody will feed it */
            return rc;
        }
    }
}

/* Starts a plain query where that is allowed. */
static int start(struct pg *c, const char *label, const char *sql, struct fault *f)
{
    c->error = (struct pg_error){.class = PG_CLASS_NONE};
    if (!c->conn)
        return pg_not_connected(c, f);
    if (c->copying || c->piping || c->queued > 0)
        return fault_set(f, RC_FATAL, "%s: the connection is in the middle of something", label);
    return PQsendQuery(c->conn, sql) ? 0 : pg_lost(c, label, NULL, f);
}

int pg_script(struct pg *c, const char *label, const char *sql, struct fault *f)
{
    int64_t started_us = clock_mono_us();
    int rc = start(c, label, sql, f);
    if (rc == 0)
        rc = finish(c, label, sql, NULL, f);
    pg_metrics_statement(c->error.class, clock_mono_us() - started_us);
    return rc;
}

int pg_copy_begin(struct pg *c, const char *sql, struct fault *f)
{
    struct pg_result *r = NULL;
    int rc = start(c, "COPY", sql, f);
    if (rc == 0)
        rc = pg_next_result(c, "COPY", &r, f);
    if (rc != 0)
        return rc;
    if (PQresultStatus(r) == PGRES_COPY_IN) {
        PQclear(r);
        c->copying = true;
        return 0;
    }
    bool refused = PQresultStatus(r) == PGRES_FATAL_ERROR;
    rc = refused ? pg_refused(c, r, "COPY", f)
                 : fault_set(f, RC_FATAL, "COPY: the statement takes no data");
    PQclear(r);
    if (c->conn && refused)
        (void)finish(c, "COPY", NULL, NULL, NULL);
    else if (c->conn)
        pg_disconnect(c);
    return rc;
}

int pg_copy_data(struct pg *c, const void *data, size_t len, struct fault *f)
{
    if (!c->conn || !c->copying)
        return pg_not_connected(c, f);
    const char *at = data;
    while (len > 0) {
        size_t chunk = len < CHUNK ? len : CHUNK;
        int put = PQputCopyData(c->conn, at, (int)chunk);
        if (put < 0)
            return pg_lost(c, "COPY", NULL, f);
        int rc = pg_drain_output(c, "COPY", f);
        if (rc != 0)
            return rc;
        if (put == 0)
            continue; /* libpq had no room; it has now */
        at += chunk;
        len -= chunk;
    }
    return 0;
}

/* `reason` NULL: store; else the server throws the rows away. */
static int end_copy(struct pg *c, const char *reason, int64_t *out_rows, struct fault *f)
{
    c->copying = false;
    int put;
    while ((put = PQputCopyEnd(c->conn, reason)) == 0) {
        int rc = pg_drain_output(c, "COPY", f);
        if (rc != 0)
            return rc;
    }
    if (put < 0)
        return pg_lost(c, "COPY", NULL, f);
    return finish(c, "COPY", NULL, out_rows, f);
}

int pg_copy_end(struct pg *c, int64_t *out_rows, struct fault *f)
{
    if (!c->conn || !c->copying)
        return pg_not_connected(c, f);
    return end_copy(c, NULL, out_rows, f);
}

void pg_copy_abort(struct pg *c)
{
    if (c->conn && c->copying)
        (void)end_copy(c, "given up", NULL, NULL);
}

int pg_copy_field(struct buf *row, const char *text, size_t len)
{
    if (!text)
        return buf_puts(row, "\\N");
    for (size_t i = 0; i < len; i++) {
        static const char PLAIN[] = "\\\t\n\r", LETTER[] = "\\tnr";
        const char *special = text[i] ? strchr(PLAIN, text[i]) : NULL;
        int rc = special ? buf_putc(row, '\\') : 0;
        if (rc == 0)
            rc = buf_putc(row, special ? LETTER[special - PLAIN] : text[i]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* pg_session.c - session settings travel as connection options: they hold from the first statement.
 */
#include "runtime/pg_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/log.h"

enum { REPLY_GRACE_MS = 5000, REPLY_DEFAULT_MS = 600000, MAX_OPTIONS = 4096 };

struct pg_session pg_session_http(const char *uri, const char *application_name)
{
    return (struct pg_session){.uri = uri,
                               .application_name = application_name,
                               .connect_timeout_ms = 2000,
                               .statement_timeout_ms = 3000,
                               .lock_timeout_ms = 1000,
                               .reply_timeout_ms = 4000};
}

static void fill(int *setting, int fallback)
{
    if (*setting == 0)
        *setting = fallback;
    if (*setting < 0)
        *setting = 0; /* off, for PostgreSQL */
}

int pg_session_init(struct pg_session *s, const struct pg_session *from, struct fault *f)
{
    /* libpq's own reason would repeat the URI, password and all. */
    PQconninfoOption *parsed = from->uri ? PQconninfoParse(from->uri, NULL) : NULL;
    if (!parsed)
        return fault_set(f, RC_FATAL,
                         "the database URL cannot be read; expected "
                         "postgresql://user:password@host:port/database");
    PQconninfoFree(parsed);
    struct pg_session copy = *from;
    fill(&copy.connect_timeout_ms, 5000);
    fill(&copy.statement_timeout_ms, 30000);
    fill(&copy.lock_timeout_ms, 5000);
    fill(&copy.idle_in_transaction_ms, 10000);
    fill(&copy.connection_check_ms, 5000);
    fill(&copy.tcp_user_timeout_ms, 10000);
    if (copy.connect_timeout_ms == 0)
        copy.connect_timeout_ms = 5000;
    if (copy.reply_timeout_ms <= 0)
        copy.reply_timeout_ms = copy.statement_timeout_ms > 0
                                    ? copy.statement_timeout_ms + REPLY_GRACE_MS
                                    : REPLY_DEFAULT_MS;
    copy.uri = strdup(from->uri);
    copy.application_name = strdup(from->application_name ? from->application_name : "urr");
    if (!copy.uri || !copy.application_name) {
        pg_session_done(&copy);
        return fault_set(f, RC_FATAL, "no memory for a database connection");
    }
    *s = copy;
    return 0;
}

void pg_session_done(struct pg_session *s)
{
    if (s->uri)
        explicit_bzero((char *)s->uri, strlen(s->uri)); /* it holds a password */
    free((char *)s->uri);
    free((char *)s->application_name);
    *s = (struct pg_session){0};
}

static const char *find(const PQconninfoOption *list, const char *keyword)
{
    for (; list && list->keyword; list++)
        if (strcmp(list->keyword, keyword) == 0)
            return list->val && list->val[0] ? list->val : NULL;
    return NULL;
}

/* -c name=value …, the URI's own last: they win. */
static void put_options(const struct pg_session *s, const char *from_uri, struct buf *out)
{
    (void)buf_printf(out, "-c statement_timeout=%d -c lock_timeout=%d", s->statement_timeout_ms,
                     s->lock_timeout_ms);
    (void)buf_printf(out, " -c idle_in_transaction_session_timeout=%d", s->idle_in_transaction_ms);
    (void)buf_printf(out, " -c client_connection_check_interval=%d", s->connection_check_ms);
    (void)buf_printf(out, " -c tcp_user_timeout=%d", s->tcp_user_timeout_ms);
    (void)buf_puts(out, " -c TimeZone=UTC -c DateStyle=ISO");
    if (from_uri)
        (void)buf_printf(out, " %s", from_uri);
}

static void on_notice(void *arg, const char *message)
{
    (void)arg;
    LOG_DEBUG("postgresql notice", LOG_STR("text", message));
}

struct pg_conn *pg_session_start(const struct pg_session *s)
{
    PQconninfoOption *parsed = PQconninfoParse(s->uri, NULL);
    struct buf options;
    buf_init(&options, MAX_OPTIONS);
    put_options(s, find(parsed, "options"), &options);
    char user_timeout[16];
    (void)snprintf(user_timeout, sizeof user_timeout, "%d", s->tcp_user_timeout_ms);
    const char *name = find(parsed, "application_name");
    const char *const keys[] = {"dbname",           "options",         "application_name",
                                "tcp_user_timeout", "keepalives_idle", "keepalives_interval",
                                "keepalives_count", "client_encoding", NULL};
    const char *const values[] = {s->uri,
                                  buf_text(&options),
                                  name ? name : s->application_name,
                                  user_timeout,
                                  "10",
                                  "5",
                                  "2",
                                  "UTF8",
                                  NULL};
    PGconn *conn = options.failed ? NULL : PQconnectStartParams(keys, values, 1);
    buf_done(&options);
    PQconninfoFree(parsed);
    if (conn)
        (void)PQsetNoticeProcessor(conn, on_notice, NULL);
    return conn;
}

void pg_session_target(const struct pg_session *s, char *out, size_t size)
{
    PQconninfoOption *parsed = PQconninfoParse(s->uri, NULL);
    const char *host = find(parsed, "host"), *port = find(parsed, "port");
    const char *database = find(parsed, "dbname");
    (void)snprintf(out, size, "%s:%s/%s", host ? host : "localhost", port ? port : "5432",
                   database ? database : "");
    PQconninfoFree(parsed);
}

void pg_session_message(const struct pg_conn *conn, char *out, size_t size)
{
    const char *text = PQerrorMessage(conn);
    size_t len = strcspn(text, "\n");
    (void)snprintf(out, size, "%.*s", (int)len, text);
}

/* libpq keeps the SQLSTATE of a refused login to itself, but a verbose message shows it: "FATAL:
 * 28P01: password …". Takes it out of `text`. */
static void take_sqlstate(char *text, char sqlstate[6])
{
    for (char *at = strstr(text, ":  "); at; at = strstr(at + 1, ":  ")) {
        char *code = at + 3;
        if (strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 || code[5] != ':')
            continue;
        (void)snprintf(sqlstate, 6, "%.5s", code);
        memmove(code, code + 7, strlen(code + 7) + 1);
        return;
    }
}

void pg_session_login_error(const struct pg_conn *conn, char sqlstate[6], char *out, size_t size)
{
    pg_session_message(conn, out, size);
    (void)snprintf(sqlstate, 6, "08001");
    take_sqlstate(out, sqlstate);
}

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
#include "runtime/resolve.h"

enum { REPLY_GRACE_MS = 5000, REPLY_DEFAULT_MS = 600000, MAX_OPTIONS = 4096, MAX_PLACES = 8192 };

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
    /* Every statement is short; compiling one costs 100 ms as soon as a planner switch
     * (enable_seqscan = off) makes its cost look huge. */
    (void)buf_puts(out, " -c TimeZone=UTC -c DateStyle=ISO -c jit=off");
    if (from_uri)
        (void)buf_printf(out, " %s", from_uri);
}

static void on_notice(void *arg, const char *message)
{
    (void)arg;
    LOG_DEBUG("postgresql notice", LOG_STR("text", message));
}

bool pg_session_names(const struct pg_session *s, char *out, size_t size)
{
    PQconninfoOption *parsed = PQconninfoParse(s->uri, NULL);
    const char *hosts = find(parsed, "hostaddr") ? NULL : find(parsed, "host");
    bool needed = hosts && strlen(hosts) < size && resolve_needed(hosts);
    if (needed)
        (void)snprintf(out, size, "%s", hosts);
    PQconninfoFree(parsed);
    return needed;
}

/* The n-th of a list with commas; of a list of one, that one. */
static void put_nth(struct buf *out, const char *list, unsigned n)
{
    const char *at = list ? list : "";
    if (strchr(at, ','))
        for (; n > 0; n--)
            at += strcspn(at, ",") + (strchr(at, ',') != NULL);
    (void)buf_append(out, at, strcspn(at, ","));
}

/* Where to connect: libpq takes lists, and keeps the names for TLS and the password file. */
struct places {
    struct buf hosts, addresses, ports;
};

static void list_places(struct places *p, const PQconninfoOption *parsed,
                        const struct resolve_answer *found)
{
    for (unsigned i = 0; found && i < found->count; i++) {
        const char *comma = i > 0 ? "," : "";
        (void)buf_puts(&p->hosts, comma);
        put_nth(&p->hosts, find(parsed, "host"), found->at[i].host);
        (void)buf_printf(&p->addresses, "%s%s", comma, found->at[i].text);
        (void)buf_puts(&p->ports, comma);
        put_nth(&p->ports, find(parsed, "port"), found->at[i].host);
    }
}

static PGconn *start(const struct pg_session *s, const PQconninfoOption *parsed,
                     const struct places *places, const char *options)
{
    char user_timeout[16];
    (void)snprintf(user_timeout, sizeof user_timeout, "%d", s->tcp_user_timeout_ms);
    const char *name = find(parsed, "application_name");
    bool found = places->hosts.len > 0; /* a NULL ends the lists: then the URI's own hold */
    const char *const keys[] = {"dbname",
                                "options",
                                "application_name",
                                "tcp_user_timeout",
                                "keepalives_idle",
                                "keepalives_interval",
                                "keepalives_count",
                                "client_encoding",
                                found ? "host" : NULL,
                                "hostaddr",
                                "port",
                                NULL};
    const char *const values[] = {s->uri,
                                  options,
                                  name ? name : s->application_name,
                                  user_timeout,
                                  "10",
                                  "5",
                                  "2",
                                  "UTF8",
                                  buf_text(&places->hosts),
                                  buf_text(&places->addresses),
                                  buf_text(&places->ports),
                                  NULL};
    return PQconnectStartParams(keys, values, 1);
}

struct pg_conn *pg_session_start(const struct pg_session *s, const struct resolve_answer *found)
{
    PQconninfoOption *parsed = PQconninfoParse(s->uri, NULL);
    struct buf options;
    struct places places;
    buf_init(&options, MAX_OPTIONS);
    buf_init(&places.hosts, MAX_PLACES);
    buf_init(&places.addresses, MAX_PLACES);
    buf_init(&places.ports, MAX_PLACES);
    put_options(s, find(parsed, "options"), &options);
    list_places(&places, parsed, found);
    bool fits =
        !options.failed && !places.hosts.failed && !places.addresses.failed && !places.ports.failed;
    PGconn *conn = fits ? start(s, parsed, &places, buf_text(&options)) : NULL;
    buf_done(&options);
    buf_done(&places.hosts);
    buf_done(&places.addresses);
    buf_done(&places.ports);
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

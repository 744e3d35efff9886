/* pg_session.h - how a connection is made: address, time-outs on both sides, and a name.
 *
 * A stopped or cut-off process must not hold rows: the server ends its transaction by itself. */
#ifndef PG_SESSION_H
#define PG_SESSION_H
#include <stdbool.h>
#include <stddef.h>

struct fault;
struct pg_conn; /* libpq's PGconn */
struct resolve_answer;

/* Milliseconds; 0 = the default in brackets, -1 = off. A setting in the URI's own `options` wins.
 */
struct pg_session {
    const char *uri; /* postgresql://user:password@host:port/database, or libpq's key=value form */
    const char *application_name; /* shown in pg_stat_activity; the URI's wins */
    int connect_timeout_ms;       /* [5000] connecting, TLS and login together */
    int statement_timeout_ms;     /* [30000] */
    int lock_timeout_ms;          /* [5000] */
    int idle_in_transaction_ms;   /* [10000] */
    int connection_check_ms;      /* [5000] while a statement runs, is the client still there? */
    int tcp_user_timeout_ms;      /* [10000] unacknowledged bytes, both sides */
    int reply_timeout_ms;         /* [statement_timeout + 5000; 600000 without one] the client's own
                                     patience:         past it the connection is closed. Cannot be off. */
};

/* For HTTP daemons: lock_timeout 1 s, statement_timeout 3 s, connect 2 s. */
struct pg_session pg_session_http(const char *uri, const char *application_name);

/* A copy with the defaults filled in and its own strings. RC_FATAL: the URI cannot be read; the
 * text does not repeat it. Free with pg_session_done(). */
int pg_session_init(struct pg_session *s, const struct pg_session *from, struct fault *f);
void pg_session_done(struct pg_session *s); /* accepts a zeroed struct */

/* The host names that must be looked up before connecting, for resolve_start(). False: there are
 * none, or they do not fit. */
bool pg_session_names(const struct pg_session *s, char *out, size_t size);

/* Starts connecting; drive it with PQconnectPoll(). `found` holds the addresses of
 * pg_session_names(), each is tried; NULL: libpq looks names up itself, blocking. NULL: no memory.
 */
struct pg_conn *pg_session_start(const struct pg_session *s, const struct resolve_answer *found);

/* Where it leads, without user, password and options: "127.0.0.1:5432/ticket_db". */
void pg_session_target(const struct pg_session *s, char *out, size_t size);

/* The first line of libpq's message, without its trailing newline, cut to fit. */
void pg_session_message(const struct pg_conn *conn, char *out, size_t size);

/* The same for a connection that was never made, with its SQLSTATE: "08001" where the server gave
 * none. Needs PQERRORS_VERBOSE from the start on. */
void pg_session_login_error(const struct pg_conn *conn, char sqlstate[6], char *out, size_t size);

#endif

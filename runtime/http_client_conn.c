/* http_client_conn.c - one connection to the target: connect, send, parse, and the idle pool. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/http_client_internal.h"
#include "runtime/loop.h"

enum { MAX_INTERIM = 8, READ_BYTES = 16384 };

void client_conn_close(struct client_conn *conn)
{
    struct http_client *c = conn->client;
    if (conn->fd < 0)
        return;
    TAILQ_REMOVE(conn->call ? &c->active : &c->idle, conn, link);
    TAILQ_INSERT_TAIL(&c->dead, conn, link);
    (void)event_del(&conn->read_event);
    (void)event_del(&conn->write_event);
    (void)close(conn->fd);
    conn->fd = -1;
    if (conn->call)
        conn->call->conn = NULL;
    conn->call = NULL;
    c->conn_count--;
    event_active(&c->reap_event, 0, 0); /* a caller may still stand on it */
}

void client_conn_reap(struct http_client *c)
{
    struct client_conn *conn;
    while ((conn = TAILQ_FIRST(&c->dead)) != NULL) {
        TAILQ_REMOVE(&c->dead, conn, link);
        http_message_done(&conn->message);
        free(conn);
    }
}

void client_conn_sweep(struct http_client *c)
{
    int64_t now_ms = loop_now_ms(c->loop);
    struct client_conn *conn;
    while ((conn = TAILQ_FIRST(&c->idle)) != NULL &&
           now_ms - conn->idle_since_ms >= c->options.idle_ms)
        client_conn_close(conn);
}

/* Ends the attempt: the connection goes, the call hears why. */
static void lose(struct client_conn *conn, enum attempt_end end, const char *why)
{
    struct http_call *call = conn->call;
    client_conn_close(conn);
    if (call)
        http_client_failed(call, end, why);
}

/* The answer is complete. The message must outlive the callback, so the connection is given back
 * after it; nobody can take it before. */
static void complete(struct client_conn *conn, bool reusable)
{
    struct http_client *c = conn->client;
    struct http_call *call = conn->call;
    bool all_sent = conn->sent == call->request.len;
    TAILQ_REMOVE(&c->active, conn, link);
    TAILQ_INSERT_TAIL(&c->idle, conn, link);
    conn->call = NULL;
    call->conn = NULL;
    conn->idle_since_ms = INT64_MAX; /* not yet: see client_conn_take() */
    http_client_replied(call, &conn->message);
    if (!reusable || !all_sent || !conn->message.keep_alive) {
        client_conn_close(conn);
    } else if (conn->fd >= 0) {
        conn->idle_since_ms = loop_now_ms(c->loop);
        http_message_reset(&conn->message);
    }
    http_client_next(c);
}

static void expect_message(struct client_conn *conn)
{
    http_message_reset(&conn->message);
    conn->parse.no_body = conn->call->head;
    http_parse_into(&conn->parse, &conn->message);
}

static void take_input(struct client_conn *conn, const char *data, size_t len)
{
    while (len > 0) {
        size_t used;
        enum http_parse_event event = http_parse_feed(&conn->parse, data, len, &used);
        data += used;
        len -= used;
        if (event == HTTP_PARSE_BAD) {
            bool large = conn->parse.bad_status == 413 || conn->parse.bad_status == 431;
            lose(conn, ATTEMPT_BROKEN, large ? "the answer is too large" : "not an HTTP answer");
            return;
        }
        if (event == HTTP_PARSE_MORE)
            return;
        if (conn->message.status >= 200) {
            complete(conn, len == 0); /* bytes after an answer nobody asked for: not reused */
            return;
        }
        if (++conn->interim > MAX_INTERIM) {
            lose(conn, ATTEMPT_BROKEN, "too many interim answers");
            return;
        }
        expect_message(conn);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct client_conn *conn = arg;
    char in[READ_BYTES];
    ssize_t n = recv((int)fd, in, sizeof in, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (!conn->call) {
        client_conn_close(conn); /* idle: closed by the peer, or it speaks out of turn */
        http_client_next(conn->client);
    } else if (n > 0) {
        take_input(conn, in, (size_t)n);
    } else if (n == 0 && http_parse_eof(&conn->parse) == HTTP_PARSE_DONE) {
        complete(conn, false);
    } else {
        lose(conn, ATTEMPT_NETWORK, "the connection was lost");
    }
}

static void send_more(struct client_conn *conn)
{
    struct buf *request = &conn->call->request;
    ssize_t n = send(conn->fd, request->data + conn->sent, request->len - conn->sent, MSG_NOSIGNAL);
    if (n > 0)
        conn->sent += (size_t)n;
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        lose(conn, ATTEMPT_NETWORK, "the connection was lost");
        return;
    }
    if (conn->sent < request->len)
        (void)event_add(&conn->write_event, NULL);
    else
        (void)event_del(&conn->write_event);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct client_conn *conn = arg;
    if (!conn->call)
        return;
    if (!conn->connected) {
        int error = 0;
        socklen_t len = sizeof error;
        if (getsockopt((int)fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
            lose(conn, ATTEMPT_NETWORK, strerror(error));
            return;
        }
        conn->connected = true;
        (void)event_add(&conn->read_event, NULL);
        http_client_connected(conn->call);
    }
    send_more(conn);
}

static bool still_open(const struct client_conn *conn)
{
    char byte;
    return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

struct client_conn *client_conn_take(struct http_client *c)
{
    struct client_conn *conn, *next;
    for (conn = TAILQ_FIRST(&c->idle); conn; conn = next) {
        next = TAILQ_NEXT(conn, link);
        if (conn->idle_since_ms == INT64_MAX)
            continue; /* its answer is being delivered */
        if (still_open(conn))
            return conn;
        client_conn_close(conn);
    }
    return NULL;
}

static int open_socket(const struct http_client *c, struct fault *f)
{
    static const int on = 1;
    int fd = socket(c->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fault_set(f, RC_RETRY, "no socket: %s", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (const struct sockaddr *)&c->address, c->address_len) != 0 &&
        errno != EINPROGRESS) {
        (void)fault_set(f, RC_RETRY, "cannot connect: %s", strerror(errno));
        (void)close(fd);
        return RC_RETRY;
    }
    return fd;
}

struct client_conn *client_conn_new(struct http_client *c, struct fault *f)
{
    int fd = open_socket(c, f);
    if (fd < 0)
        return NULL;
    struct client_conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        (void)close(fd);
        (void)fault_set(f, RC_RETRY, "no memory for a connection");
        return NULL;
    }
    conn->client = c;
    conn->fd = fd;
    http_message_init(&conn->message, &c->limits);
    http_parse_init(&conn->parse, &c->limits, true);
    (void)event_assign(&conn->read_event, c->base, fd, EV_READ | EV_PERSIST, on_readable, conn);
    (void)event_assign(&conn->write_event, c->base, fd, EV_WRITE | EV_PERSIST, on_writable, conn);
    TAILQ_INSERT_TAIL(&c->idle, conn, link);
    c->conn_count++;
    return conn;
}

void client_conn_begin(struct client_conn *conn, struct http_call *call)
{
    struct http_client *c = conn->client;
    TAILQ_REMOVE(&c->idle, conn, link);
    TAILQ_INSERT_TAIL(&c->active, conn, link);
    conn->call = call;
    call->conn = conn;
    conn->sent = 0;
    conn->interim = 0;
    expect_message(conn);
    /* Sending waits for the loop, also on an open connection: a failure is then never reported from
     * inside the caller's call. */
    (void)event_add(&conn->write_event, NULL);
    if (conn->connected)
        http_client_connected(call);
}

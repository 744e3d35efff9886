/* http_rig.h - a real server on its own loop and thread, and raw sockets to drive it. */
#ifndef HTTP_RIG_H
#define HTTP_RIG_H
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/loop.h"

enum { RIG_ANSWER = 1 << 16, RIG_WAIT_S = 5 };

struct rig {
    struct loop *loop;
    struct http_server *server;
    pthread_t thread;
    uint16_t port;
};

static inline void *rig_main(void *arg)
{
    struct fault f;
    struct rig *r = arg;
    (void)loop_run(r->loop, &f);
    return NULL;
}

static inline void rig_start(struct rig *r, const struct http_route *routes,
                             const struct http_limits *limits, void *arg)
{
    struct fault f;
    const struct http_route *const tables[] = {routes, NULL};
    struct http_server_options o = {.address = "127.0.0.1", .routes = tables, .arg = arg};
    if (limits)
        o.limits = *limits;
    assert_int_equal(loop_new(&r->loop, &f), 0);
    if (http_server_open(r->loop, &o, &r->server, &f) != 0)
        fail_msg("%s", f.text);
    r->port = http_server_port(r->server);
    assert_int_equal(pthread_create(&r->thread, NULL, rig_main, r), 0);
}

static inline void rig_stop(struct rig *r)
{
    loop_stop(r->loop);
    (void)pthread_join(r->thread, NULL);
    http_server_free(r->server);
    loop_free(r->loop);
}

static inline int rig_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval wait = {.tv_sec = RIG_WAIT_S};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static inline void rig_send(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the server may have closed already: the answer will tell */
        bytes += n;
        len -= (size_t)n;
    }
}

static inline void rig_puts(int fd, const char *text)
{
    rig_send(fd, text, strlen(text));
}

/* Reads until the server closes; fails when it does not within RIG_WAIT_S. A NUL follows. */
static inline size_t rig_read_all(int fd, char *out, size_t room)
{
    size_t len = 0;
    for (;;) {
        ssize_t n = recv(fd, out + len, room - 1 - len, 0);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            fail_msg("the server neither answered nor closed");
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    return len;
}

/* Reads until `mark` has come; false when the server closed before. */
static inline bool rig_read_until(int fd, char *out, size_t room, const char *mark)
{
    size_t len = 0;
    out[0] = '\0';
    while (!strstr(out, mark)) {
        ssize_t n = recv(fd, out + len, room - 1 - len, 0);
        if (n <= 0)
            return false;
        len += (size_t)n;
        out[len] = '\0';
    }
    return true;
}

/* Sends on a new connection and returns everything that comes until the server closes. */
static inline const char *rig_ask(uint16_t port, const char *request)
{
    static char answer[RIG_ANSWER];
    int fd = rig_connect(port);
    rig_puts(fd, request);
    (void)rig_read_all(fd, answer, sizeof answer);
    (void)close(fd);
    return answer;
}

static inline int rig_status(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

/* Waits until another thread has made the condition true. */
#define RIG_AWAIT(condition)                                 \
    do {                                                     \
        int64_t until = clock_mono_ms() + RIG_WAIT_S * 1000; \
        while (!(condition)) {                               \
            if (clock_mono_ms() > until)                     \
                fail_msg("in vain: %s", #condition);         \
            usleep(1000);                                    \
        }                                                    \
    } while (0)

#endif

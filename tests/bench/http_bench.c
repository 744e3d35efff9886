/* http_bench.c - two servers on one core: `bare PORT` is an epoll loop that answers every read with
 * fixed bytes and looks at nothing; `server PORT` is runtime's HTTP server with a route, a
 * parameter and a JSON body from memory. The first is what the kernel allows, the second what we
 * make of it. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/json.h"
#include "runtime/loop.h"

enum { EVENTS = 256, READ_BYTES = 65536 };

/* As long as the server's own answer. */
static const char FIXED[] =
    "HTTP/1.1 200 OK\r\nDate: Wed, 18 Nov 2026 13:52:44 GMT\r\nContent-Type: application/json\r\n"
    "X-Content-Type-Options: nosniff\r\nX-Request-Id: 04468cf13b64415c0000000001\r\n"
    "Cache-Control: no-store\r\nContent-Length: 53\r\n\r\n"
    "{\"eventId\":\"e1\",\"position\":4711,\"status\":\"waiting\"}  \n";

static int listen_on(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 4096) != 0) {
        perror("listen");
        exit(1);
    }
    return fd;
}

static void bare(uint16_t port)
{
    static char in[READ_BYTES];
    int listener = listen_on(port), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS];
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                event.data.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                (void)epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else if (read(fd, in, sizeof in) <= 0) {
                (void)close(fd);
            } else {
                (void)!write(fd, FIXED, sizeof FIXED - 1);
            }
        }
    }
}

static void position(struct http_request *req, void *arg)
{
    (void)arg;
    struct buf body;
    struct json_out j;
    buf_init(&body, 1024);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_str(&j, "eventId", http_param(req, "eventId"));
    json_put_int(&j, "position", 4711);
    json_put_str(&j, "status", "waiting");
    json_end(&j);
    http_respond_json(req, 200, &body);
    buf_done(&body);
}

static const struct http_route ROUTES[] = {{HTTP_GET, "/queue/{eventId}", position, NULL}, {0}};

static int serve(uint16_t port)
{
    const struct http_route *const tables[] = {ROUTES, NULL};
    struct http_server_options o = {.address = "127.0.0.1", .port = port, .routes = tables};
    struct loop *l = NULL;
    struct http_server *s = NULL;
    struct fault f;
    if (loop_new(&l, &f) != 0 || http_server_open(l, &o, &s, &f) != 0 || loop_run(l, &f) != 0) {
        (void)fprintf(stderr, "%s\n", f.text);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint16_t port = argc == 3 ? (uint16_t)strtoul(argv[2], NULL, 10) : 0;
    if (port != 0 && strcmp(argv[1], "bare") == 0)
        bare(port);
    else if (port != 0 && strcmp(argv[1], "server") == 0)
        return serve(port);
    (void)fprintf(stderr, "usage: http_bench bare|server PORT\n");
    return 2;
}

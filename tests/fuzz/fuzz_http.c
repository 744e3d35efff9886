/* fuzz_http.c - raw bytes through a connection: parsing, routing, every accessor, the answer.
 *
 * The first byte says how the rest is cut into reads. The connection's other end is a socket pair
 * that is emptied after each input; the loop runs only to release what was closed. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/fault.h"
#include "runtime/http_internal.h"
#include "runtime/loop.h"
#include "runtime/utf8.h"

static struct http_server *server;

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void look(struct http_request *req, void *arg)
{
    (void)arg;
    const char *path = http_path(req), *id = http_param(req, "id");
    check(path[0] == '/' && utf8_valid(path, strlen(path)));
    check(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, ";"));
    check(id && id[0] != '\0' && !strchr(id, '/'));
    const char *host = http_header(req, "host");
    check(req->message.minor == 0 || host != NULL);
    size_t len;
    const char *body = http_body(req, &len);
    const char *query = http_query(req, "q"), *cookie = http_cookie(req, "c");
    check(!query || utf8_valid(query, strlen(query)));
    check(!cookie || !strpbrk(cookie, "; \r\n"));
    if (query)
        (void)http_set_header(req, "X-Query", query);
    http_respond(req, 200, "text/plain", body, len);
}

static const struct http_route ROUTES[] = {
    {HTTP_GET, "/a/{id}", look, NULL},       {HTTP_POST, "/a/{id}", look, NULL},
    {HTTP_DELETE, "/{id}/b", look, NULL},    {HTTP_PUT, "/a/{id}/{rest...}", look, NULL},
    {HTTP_PATCH, "/x/y/{id}/z", look, NULL}, {0}};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct loop *l = NULL;
    struct fault f;
    const struct http_route *const tables[] = {ROUTES, NULL};
    struct http_server_options o = {
        .address = "127.0.0.1",
        .limits = {.max_header_bytes = 2048, .max_headers = 20, .max_body_bytes = 512},
        .routes = tables};
    check(loop_new(&l, &f) == 0 && http_server_open(l, &o, &server, &f) == 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char sink[1 << 16];
    int pair[2];
    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0)
        return 0;
    size_t step = data[0] ? data[0] : size;
    char address[INET6_ADDRSTRLEN] = "fuzz";
    struct http_conn *c = http_conn_open(server, pair[0], address);
    for (size_t at = 1; c && at < size && c->phase != HTTP_PHASE_DEAD; at += step) {
        size_t left = size - at;
        http_conn_input(c, (const char *)data + at, left < step ? left : step);
        while (recv(pair[1], sink, sizeof sink, 0) > 0)
            continue;
    }
    if (c && c->phase != HTTP_PHASE_DEAD)
        http_conn_close(c);
    (void)close(pair[1]);
    (void)event_base_loop(server->base, EVLOOP_NONBLOCK);
    check(server->open == 0 && server->lingering == 0 && TAILQ_EMPTY(&server->under_way));
    return 0;
}

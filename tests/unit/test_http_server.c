#include "http_rig.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include "runtime/buf.h"
#include "runtime/embed.h"

enum { BIG = 16 << 20 }; /* more than both sockets' buffers can ever grow to */

static char big[BIG + 1];
static const struct embed_file BIG_FILE = {"big.bin", big, big + BIG};
static const char PAGE[] = "<h1>hello</h1>";
static const struct embed_file PAGE_FILE = {"page.html", PAGE, PAGE + sizeof PAGE - 1};

static _Atomic(struct http_request *) held; /* by /later, until the test answers it */

static void hello(struct http_request *req, void *arg)
{
    (void)arg;
    http_respond(req, 200, "text/plain", "hello", 5);
}

static void echo(struct http_request *req, void *arg)
{
    (void)arg;
    size_t len;
    const char *body = http_body(req, &len);
    http_respond(req, 200, "text/plain", body, len);
}

static void describe(struct http_request *req, void *arg)
{
    (void)arg;
    struct buf b;
    buf_init(&b, 4096);
    const char *q = http_query(req, "q"), *c = http_cookie(req, "c"), *h = http_header(req, "X-H");
    (void)buf_printf(&b, "%s path=%s id=%s q=%s c=%s h=%s from=%s", http_method_name(req),
                     http_path(req), http_param(req, "id"), q ? q : "-", c ? c : "-", h ? h : "-",
                     http_client_address(req));
    assert_int_equal(http_set_header(req, "X-Bad", "a\r\nSet-Cookie: b"), RC_REJECT);
    assert_int_equal(http_set_header(req, "X Bad", "a"), RC_REJECT);
    assert_int_equal(http_set_header(req, "X-Good", "yes"), 0);
    http_respond(req, 200, "text/plain", b.data, b.len);
    buf_done(&b);
}

static void later(struct http_request *req, void *arg)
{
    (void)arg;
    atomic_store(&held, req);
}

static void answer_held(void *arg)
{
    (void)arg;
    struct http_request *req = atomic_exchange(&held, NULL);
    http_respond(req, 200, "text/plain", "late", 4);
}

static void send_big(struct http_request *req, void *arg)
{
    (void)arg;
    http_respond_file(req, &BIG_FILE, NULL, NULL);
}

static void send_page(struct http_request *req, void *arg)
{
    (void)arg;
    http_respond_file(req, &PAGE_FILE, NULL, "public, max-age=60");
}

static void fail_json(struct http_request *req, void *arg)
{
    (void)arg;
    struct buf b;
    buf_init(&b, 2);
    (void)buf_puts(&b, "too long");
    http_respond_json(req, 200, &b);
    buf_done(&b);
}

static const struct http_route ROUTES[] = {
    {HTTP_GET, "/hello", hello, NULL},         {HTTP_POST, "/echo", echo, NULL},
    {HTTP_GET, "/seats/{id}", describe, NULL}, {HTTP_GET, "/later", later, NULL},
    {HTTP_GET, "/big", send_big, NULL},        {HTTP_GET, "/page", send_page, NULL},
    {HTTP_GET, "/fail", fail_json, NULL},      {0},
};

static struct rig rig;

static int start_default(void **state)
{
    (void)state;
    rig_start(&rig, ROUTES, NULL, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rig_stop(&rig);
    return 0;
}

#define CLOSE "Host: a\r\nConnection: close\r\n"

static void answers_with_its_standard_headers(void **state)
{
    (void)state;
    const char *a = rig_ask(rig.port, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 200);
    assert_non_null(strstr(a, "\r\nDate: "));
    assert_non_null(strstr(a, " GMT\r\n"));
    assert_non_null(strstr(a, "\r\nX-Content-Type-Options: nosniff\r\n"));
    assert_non_null(strstr(a, "\r\nX-Request-Id: "));
    assert_non_null(strstr(a, "\r\nConnection: close\r\n"));
    assert_non_null(strstr(a, "\r\nContent-Length: 5\r\n"));
    assert_string_equal(strstr(a, "\r\n\r\n"), "\r\n\r\nhello");
}

static void gives_handlers_decoded_parts(void **state)
{
    (void)state;
    const char *a = rig_ask(rig.port, "GET /seats/A%201?q=x+y&q=2 HTTP/1.1\r\nCookie: c=1\r\n"
                                      "x-h:  padded \t \r\n" CLOSE "\r\n");
    assert_non_null(strstr(a, "GET path=/seats/A 1 id=A 1 q=x y c=1 h=padded from=127.0.0.1"));
    assert_non_null(strstr(a, "\r\nX-Good: yes\r\n"));
    assert_null(strstr(a, "Set-Cookie"));
    a = rig_ask(rig.port, "GET http://a/seats/1?q=2 HTTP/1.1\r\n" CLOSE "\r\n");
    assert_non_null(strstr(a, "path=/seats/1 id=1 q=2"));
    a = rig_ask(rig.port, "GET http://other/seats/1 HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 400);
}

static void passes_a_good_request_id_on_and_replaces_a_bad_one(void **state)
{
    (void)state;
    const char *a =
        rig_ask(rig.port, "GET /hello HTTP/1.1\r\nX-Request-Id: ab-1.2_Z\r\n" CLOSE "\r\n");
    assert_non_null(strstr(a, "\r\nX-Request-Id: ab-1.2_Z\r\n"));
    a = rig_ask(rig.port, "GET /hello HTTP/1.1\r\nX-Request-Id: a b\"<\r\n" CLOSE "\r\n");
    assert_non_null(strstr(a, "\r\nX-Request-Id: "));
    assert_null(strstr(a, "<"));
}

static void answers_head_options_and_unknown_methods(void **state)
{
    (void)state;
    const char *a = rig_ask(rig.port, "HEAD /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 200);
    assert_non_null(strstr(a, "\r\nContent-Length: 5\r\n"));
    assert_string_equal(strstr(a, "\r\n\r\n"), "\r\n\r\n");
    a = rig_ask(rig.port, "OPTIONS /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 204);
    assert_non_null(strstr(a, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    assert_null(strstr(a, "Content-Length"));
    assert_int_equal(rig_status(rig_ask(rig.port, "OPTIONS * HTTP/1.1\r\n" CLOSE "\r\n")), 204);
    a = rig_ask(rig.port, "DELETE /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 405);
    assert_non_null(strstr(a, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    assert_non_null(strstr(a, "{\"error\":{\"code\":\"METHOD_NOT_ALLOWED\",\"message\":"));
    assert_int_equal(rig_status(rig_ask(rig.port, "PROPFIND /hello HTTP/1.1\r\n" CLOSE "\r\n")),
                     405);
    a = rig_ask(rig.port, "GET /nope HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 404);
    assert_non_null(strstr(a, "\"code\":\"NOT_FOUND\""));
    assert_int_equal(rig_status(rig_ask(rig.port, "GET /fail HTTP/1.1\r\n" CLOSE "\r\n")), 500);
}

static void refuses_shapes_that_smuggle_requests(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int status;
    } BAD[] = {
        {"GET /hello HTTP/1.1\r\n\r\n", 400},                       /* no Host */
        {"GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400}, /* two */
        {"GET /hello HTTP/1.1\r\nHost : a\r\n\r\n", 400},           /* blank before colon */
        {"GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400}, /* obs-fold */
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX:\r\n\tb\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\n Host: a\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400}, /* bare CR */
        {"GET /hello HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},      /* bare LF */
        {"GET /hello HTTP/1.1\nHost: a\n\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\nx", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nx", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
         "0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
         "chunked"
         "\r\n\r\n0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
         "chunked\r\n\r\nffffffffffffffff1\r\n",
         400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX\x01: b\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX: b\x01\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400},
        {"GET /he\tllo HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"get /hello HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /hello HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET /hello HTTP/1.2\r\nHost: a\r\n\r\n", 505},
        {"GET /hello HTTP/0.9\r\nHost: a\r\n\r\n", 505},
        {"GET /hello HTTPS/1.1\r\nHost: a\r\n\r\n", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        {"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {"DESCRIBE /hello RTSP/1.0\r\nHost: a\r\n\r\n", 501},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nExpect: a-pony\r\n\r\n", 417},
        {"\x16\x03\x01\x02\x00\x01\x00\x01", 400}, /* TLS */
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char request[512];
        (void)snprintf(request, sizeof request, "%sGET /hello HTTP/1.1\r\nHost: a\r\n\r\n",
                       BAD[i].request);
        const char *a = rig_ask(rig.port, request); /* returns only when the server closes */
        if (rig_status(a) != BAD[i].status)
            fail_msg("status %d for %s", rig_status(a), BAD[i].request);
        if (strstr(a, "hello") || !strstr(a, "\r\nConnection: close\r\n"))
            fail_msg("read on after %s", BAD[i].request);
    }
}

/* Folding must be found however the bytes are cut. */
static void refuses_a_folded_line_at_every_cut(void **state)
{
    (void)state;
    static const char REQUEST[] = "GET /hello HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n";
    char answer[4096];
    for (size_t cut = 1; cut < sizeof REQUEST - 1; cut++) {
        int fd = rig_connect(rig.port);
        rig_send(fd, REQUEST, cut);
        usleep(300);
        rig_send(fd, REQUEST + cut, sizeof REQUEST - 1 - cut);
        (void)rig_read_all(fd, answer, sizeof answer);
        assert_int_equal(rig_status(answer), 400);
        (void)close(fd);
    }
}

static void refuses_paths_that_cannot_be_trusted(void **state)
{
    (void)state;
    static const char *const BAD[] = {"/a/../hello", "/%2e%2e/hello", "//hello", "/hello%00",
                                      "/seats%2f1",  "/seats/1;x=1",  "/%252e",  "/%c0%af",
                                      "/hello?q=%",  "/hello#x",      "*",       "/a\\b"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char request[256];
        (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" CLOSE "\r\n", BAD[i]);
        if (rig_status(rig_ask(rig.port, request)) != 400)
            fail_msg("%s was not refused", BAD[i]);
    }
}

static void answers_pipelined_requests_in_order(void **state)
{
    (void)state;
    const char *a =
        rig_ask(rig.port, "GET /seats/1 HTTP/1.1\r\nHost: a\r\n\r\n"
                          "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\ntwo"
                          "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked"
                          "\r\n\r\n3;x=y\r\nthr\r\n2\r\nee\r\n0\r\nHost: evil\r\n\r\n"
                          "\r\nGET /seats/4 HTTP/1.1\r\n" CLOSE "\r\n"
                          "GET /seats/5 HTTP/1.1\r\nHost: a\r\n\r\n");
    const char *one = strstr(a, "id=1"), *two = strstr(a, "two"), *three = strstr(a, "three");
    const char *four = strstr(a, "id=4");
    assert_true(one && two && three && four);
    assert_true(one < two && two < three && three < four);
    assert_null(strstr(a, "id=5"));
}

static void takes_requests_byte_by_byte(void **state)
{
    (void)state;
    static const char REQUEST[] = "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n4\r\nslow\r\n0\r\n\r\n";
    char answer[4096];
    int fd = rig_connect(rig.port);
    for (size_t i = 0; i < sizeof REQUEST - 1; i++) {
        rig_send(fd, REQUEST + i, 1);
        usleep(200);
    }
    (void)rig_read_all(fd, answer, sizeof answer);
    assert_non_null(strstr(answer, "\r\n\r\nslow"));
    (void)close(fd);
}

static void tells_a_waiting_client_to_continue(void **state)
{
    (void)state;
    char answer[4096];
    int fd = rig_connect(rig.port);
    rig_puts(fd,
             "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_true(rig_read_until(fd, answer, sizeof answer, "\r\n\r\n"));
    assert_string_equal(answer, "HTTP/1.1 100 Continue\r\n\r\n");
    rig_puts(fd, "ok");
    (void)rig_read_all(fd, answer, sizeof answer);
    assert_int_equal(rig_status(answer), 200);
    assert_non_null(strstr(answer, "\r\n\r\nok"));
    (void)close(fd);
}

static void keeps_http_1_0_open_only_when_asked(void **state)
{
    (void)state;
    const char *a = rig_ask(rig.port, "GET /hello HTTP/1.0\r\n\r\n");
    assert_non_null(strstr(a, "\r\nConnection: close\r\n"));
    a = rig_ask(rig.port, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
                          "GET /hello HTTP/1.0\r\n\r\n");
    assert_non_null(strstr(a, "\r\nConnection: keep-alive\r\n"));
    assert_non_null(strstr(a, "\r\nConnection: close\r\n"));
}

static void answers_late_and_keeps_the_order(void **state)
{
    (void)state;
    char answer[4096];
    int fd = rig_connect(rig.port);
    rig_puts(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    RIG_AWAIT(atomic_load(&held) != NULL);
    rig_puts(fd, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(loop_post(rig.loop, answer_held, NULL), 0);
    (void)rig_read_all(fd, answer, sizeof answer);
    assert_true(strstr(answer, "late") != NULL && strstr(answer, "late") < strstr(answer, "hello"));
    (void)close(fd);
}

static void answers_a_client_that_has_shut_its_side(void **state)
{
    (void)state;
    char answer[4096];
    int fd = rig_connect(rig.port);
    rig_puts(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)shutdown(fd, SHUT_WR);
    RIG_AWAIT(atomic_load(&held) != NULL);
    assert_int_equal(loop_post(rig.loop, answer_held, NULL), 0);
    (void)rig_read_all(fd, answer, sizeof answer);
    assert_non_null(strstr(answer, "late"));
    (void)close(fd);
}

static void drops_the_answer_of_a_client_that_has_gone(void **state)
{
    (void)state;
    int fd = rig_connect(rig.port);
    rig_puts(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    RIG_AWAIT(atomic_load(&held) != NULL);
    struct linger reset = {.l_onoff = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    (void)close(fd);
    usleep(20000);
    assert_int_equal(loop_post(rig.loop, answer_held, NULL), 0);
    const char *a = rig_ask(rig.port, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 200);
}

static void lets_a_handler_answer_after_the_server_is_freed(void **state)
{
    (void)state;
    struct rig mine;
    rig_start(&mine, ROUTES, NULL, NULL);
    int fd = rig_connect(mine.port);
    rig_puts(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    RIG_AWAIT(atomic_load(&held) != NULL);
    rig_stop(&mine);
    answer_held(NULL);
    (void)close(fd);
}

static void serves_big_files_and_not_again_when_unchanged(void **state)
{
    (void)state;
    memset(big, 'x', BIG);
    int fd = rig_connect(rig.port);
    rig_puts(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    size_t room = BIG + 4096;
    char *answer = malloc(room);
    assert_non_null(answer);
    size_t len = rig_read_all(fd, answer, room);
    char *body = strstr(answer, "\r\n\r\n") + 4;
    assert_true(len > BIG && memcmp(body, big, BIG) == 0);
    assert_int_equal(rig_status(body + BIG), 200);
    assert_non_null(strstr(body + BIG, "hello"));
    free(answer);
    (void)close(fd);

    const char *a = rig_ask(rig.port, "GET /page HTTP/1.1\r\n" CLOSE "\r\n");
    char etag[64], request[256];
    assert_int_equal(sscanf(strstr(a, "ETag: "), "ETag: %63s", etag), 1);
    assert_non_null(strstr(a, "\r\nCache-Control: public, max-age=60\r\n"));
    assert_non_null(strstr(a, "\r\nContent-Type: text/html; charset=utf-8\r\n"));
    (void)snprintf(request, sizeof request,
                   "GET /page HTTP/1.1\r\n" CLOSE "If-None-Match: \"x\", W/%s\r\n\r\n", etag);
    a = rig_ask(rig.port, request);
    assert_int_equal(rig_status(a), 304);
    assert_non_null(strstr(a, etag));
    assert_string_equal(strstr(a, "\r\n\r\n"), "\r\n\r\n");
    a = rig_ask(rig.port, "GET /page HTTP/1.1\r\n" CLOSE "If-None-Match: \"x\"\r\n\r\n");
    assert_int_equal(rig_status(a), 200);
}

static void holds_sizes_to_their_limits(void **state)
{
    (void)state;
    struct http_limits limits = {.max_header_bytes = 512, .max_headers = 5, .max_body_bytes = 10};
    struct rig mine;
    rig_start(&mine, ROUTES, &limits, NULL);
    char request[2048];
    static char x[1024];
    memset(x, 'x', sizeof x - 1);
    (void)snprintf(request, sizeof request, "GET /hello?%s HTTP/1.1\r\n" CLOSE "\r\n", x);
    assert_int_equal(rig_status(rig_ask(mine.port, request)), 431);
    (void)snprintf(request, sizeof request, "GET /hello HTTP/1.1\r\nX: %s\r\n" CLOSE "\r\n", x);
    assert_int_equal(rig_status(rig_ask(mine.port, request)), 431);
    const char *a =
        rig_ask(mine.port, "GET /hello HTTP/1.1\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 431);
    assert_non_null(strstr(a, "\"code\":\"HEADERS_TOO_LARGE\""));
    a = rig_ask(mine.port, "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 11\r\n\r\n");
    assert_int_equal(rig_status(a), 413);
    a = rig_ask(mine.port, "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 11\r\n"
                           "Expect: 100-continue\r\n\r\n");
    assert_int_equal(rig_status(a), 413);
    a = rig_ask(mine.port, "POST /echo HTTP/1.1\r\n" CLOSE "Transfer-Encoding: chunked\r\n\r\n"
                           "6\r\n123456\r\n6\r\n123456\r\n0\r\n\r\n");
    assert_int_equal(rig_status(a), 413);
    a = rig_ask(mine.port, "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 10\r\n\r\n0123456789");
    assert_int_equal(rig_status(a), 200);
    rig_stop(&mine);
}

/* Closing with input unread would reset the connection under the answer. */
static void lets_a_refused_client_read_why(void **state)
{
    (void)state;
    static char body[300000], answer[4096];
    int fd = rig_connect(rig.port);
    rig_puts(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
    size_t len = 0;
    ssize_t n;
    for (size_t sent = 0; sent < sizeof body; sent += (size_t)n) {
        n = send(fd, body + sent, sizeof body - sent, MSG_NOSIGNAL);
        assert_true(n > 0); /* all of it is taken, though nobody wants it */
    }
    while ((n = recv(fd, answer + len, sizeof answer - 1 - len, 0)) > 0)
        len += (size_t)n;
    assert_int_equal(n, 0); /* an orderly end, no reset */
    assert_int_equal(rig_status(answer), 413);
    (void)close(fd);
}

static void cuts_clients_that_are_too_slow(void **state)
{
    (void)state;
    struct http_limits limits = {.header_timeout_ms = 80,
                                 .body_timeout_ms = 80,
                                 .idle_timeout_ms = 80,
                                 .write_timeout_ms = 80};
    struct rig mine;
    rig_start(&mine, ROUTES, &limits, NULL);
    assert_int_equal(rig_status(rig_ask(mine.port, "GET /hel")), 408);
    const char *a =
        rig_ask(mine.port, "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 9\r\n\r\nx");
    assert_int_equal(rig_status(a), 408);
    assert_non_null(strstr(a, "\"code\":\"REQUEST_TIMEOUT\""));
    assert_string_equal(rig_ask(mine.port, ""), ""); /* idle: closed without a word */
    a = rig_ask(mine.port, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(rig_status(a), 200);

    /* One byte every 20 ms does not buy time. */
    char answer[4096];
    int fd = rig_connect(mine.port);
    int64_t start = clock_mono_ms();
    for (int i = 0; i < 40 && clock_mono_ms() - start < 400; i++) {
        rig_puts(fd, "G");
        usleep(20000);
    }
    (void)rig_read_all(fd, answer, sizeof answer);
    (void)close(fd);
    rig_stop(&mine);
}

static double slow_clients(void)
{
    const struct metric_def *def = HTTP_METRICS;
    while (strcmp(def->name, "urr_http_refused_total") != 0)
        def++;
    return metric_value(metrics_series(def, (const char *[]){"slow_client"}));
}

static void cuts_a_client_that_does_not_read(void **state)
{
    (void)state;
    struct http_limits limits = {.write_timeout_ms = 80};
    struct rig mine;
    rig_start(&mine, ROUTES, &limits, NULL);
    double before = slow_clients();
    int fd = rig_connect(mine.port);
    rig_puts(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    RIG_AWAIT(slow_clients() > before);
    char *answer = malloc(BIG + 4096);
    assert_non_null(answer);
    assert_true(rig_read_all(fd, answer, BIG + 4096) < BIG);
    free(answer);
    (void)close(fd);
    rig_stop(&mine);
}

static void refuses_connections_past_the_limit_and_recovers(void **state)
{
    (void)state;
    struct http_limits limits = {.max_connections = 3};
    struct rig mine;
    rig_start(&mine, ROUTES, &limits, NULL);
    int fds[3];
    char answer[4096];
    for (int i = 0; i < 3; i++) {
        fds[i] = rig_connect(mine.port);
        rig_puts(fds[i], "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_true(rig_read_until(fds[i], answer, sizeof answer, "hello"));
    }
    const char *a = rig_ask(mine.port, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(rig_status(a), 503);
    assert_non_null(strstr(a, "\r\nRetry-After: 1\r\n"));
    assert_non_null(strstr(a, "\"code\":\"OVERLOADED\""));
    for (int i = 0; i < 3; i++)
        (void)close(fds[i]);
    RIG_AWAIT(rig_status(rig_ask(mine.port, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n")) == 200);
    rig_stop(&mine);
}

static atomic_int drained;

static void on_drained(void *arg)
{
    (void)arg;
    atomic_fetch_add(&drained, 1);
}

static void drain(void *arg)
{
    struct rig *r = arg;
    http_server_drain(r->server, clock_mono_ms() + 3000, on_drained, NULL);
}

static void drain_at_once(void *arg)
{
    struct rig *r = arg;
    http_server_drain(r->server, clock_mono_ms() + 50, on_drained, NULL);
}

static void drains_without_losing_a_request(void **state)
{
    (void)state;
    struct rig mine;
    char answer[4096];
    rig_start(&mine, ROUTES, NULL, NULL);
    int idle = rig_connect(mine.port), busy = rig_connect(mine.port);
    rig_puts(busy, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    RIG_AWAIT(atomic_load(&held) != NULL);
    atomic_store(&drained, 0);
    assert_int_equal(loop_post(mine.loop, drain, &mine), 0);
    assert_int_equal(rig_read_all(idle, answer, sizeof answer), 0);
    assert_int_equal(atomic_load(&drained), 0);
    assert_int_equal(loop_post(mine.loop, answer_held, NULL), 0);
    (void)rig_read_all(busy, answer, sizeof answer);
    assert_non_null(strstr(answer, "late"));
    assert_non_null(strstr(answer, "\r\nConnection: close\r\n"));
    RIG_AWAIT(atomic_load(&drained) == 1);
    (void)close(idle);
    (void)close(busy);
    rig_stop(&mine);
    assert_int_equal(atomic_load(&drained), 1);
}

static void ends_the_drain_at_its_deadline(void **state)
{
    (void)state;
    struct rig mine;
    rig_start(&mine, ROUTES, NULL, NULL);
    int fd = rig_connect(mine.port);
    rig_puts(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    RIG_AWAIT(atomic_load(&held) != NULL);
    atomic_store(&drained, 0);
    assert_int_equal(loop_post(mine.loop, drain_at_once, &mine), 0);
    RIG_AWAIT(atomic_load(&drained) == 1);
    rig_stop(&mine);
    answer_held(NULL);
    (void)close(fd);
}

static void refuses_an_address_that_is_none(void **state)
{
    (void)state;
    struct loop *l = NULL;
    struct fault f;
    struct http_server *s = NULL;
    assert_int_equal(loop_new(&l, &f), 0);
    struct http_server_options o = {.address = "localhost"};
    assert_int_equal(http_server_open(l, &o, &s, &f), RC_FATAL);
    assert_null(s);
    o.address = "192.0.2.1"; /* not ours */
    assert_int_equal(http_server_open(l, &o, &s, &f), RC_FATAL);
    loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_with_its_standard_headers),
        cmocka_unit_test(gives_handlers_decoded_parts),
        cmocka_unit_test(passes_a_good_request_id_on_and_replaces_a_bad_one),
        cmocka_unit_test(answers_head_options_and_unknown_methods),
        cmocka_unit_test(refuses_shapes_that_smuggle_requests),
        cmocka_unit_test(refuses_a_folded_line_at_every_cut),
        cmocka_unit_test(refuses_paths_that_cannot_be_trusted),
        cmocka_unit_test(answers_pipelined_requests_in_order),
        cmocka_unit_test(takes_requests_byte_by_byte),
        cmocka_unit_test(tells_a_waiting_client_to_continue),
        cmocka_unit_test(keeps_http_1_0_open_only_when_asked),
        cmocka_unit_test(answers_late_and_keeps_the_order),
        cmocka_unit_test(answers_a_client_that_has_shut_its_side),
        cmocka_unit_test(drops_the_answer_of_a_client_that_has_gone),
        cmocka_unit_test(lets_a_handler_answer_after_the_server_is_freed),
        cmocka_unit_test(serves_big_files_and_not_again_when_unchanged),
        cmocka_unit_test(holds_sizes_to_their_limits),
        cmocka_unit_test(lets_a_refused_client_read_why),
        cmocka_unit_test(cuts_clients_that_are_too_slow),
        cmocka_unit_test(cuts_a_client_that_does_not_read),
        cmocka_unit_test(refuses_connections_past_the_limit_and_recovers),
        cmocka_unit_test(drains_without_losing_a_request),
        cmocka_unit_test(ends_the_drain_at_its_deadline),
        cmocka_unit_test(refuses_an_address_that_is_none),
    };
    return cmocka_run_group_tests_name("http_server", tests, start_default, stop);
}

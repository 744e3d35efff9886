/* What the server answers, to whom, and in which order. */
#include "http_routes.h"

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
    };
    return cmocka_run_group_tests_name("http_server", tests, start_default, stop);
}

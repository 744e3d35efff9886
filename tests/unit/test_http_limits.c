/* Clients that are too large, too slow, too many; and the end of a server. */
#include "http_routes.h"

#include <sys/resource.h>

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
        cmocka_unit_test(holds_sizes_to_their_limits),
        cmocka_unit_test(lets_a_refused_client_read_why),
        cmocka_unit_test(cuts_clients_that_are_too_slow),
        cmocka_unit_test(cuts_a_client_that_does_not_read),
        cmocka_unit_test(refuses_connections_past_the_limit_and_recovers),
        cmocka_unit_test(drains_without_losing_a_request),
        cmocka_unit_test(ends_the_drain_at_its_deadline),
        cmocka_unit_test(refuses_an_address_that_is_none),
    };
    return cmocka_run_group_tests_name("http_limits", tests, start_default, stop);
}

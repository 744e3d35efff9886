#include "check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/breaker.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_client.h"
#include "runtime/http_server.h"
#include "runtime/loop.h"

/* Client and target share the test's loop: everything happens on one thread, in order. The target
 * is runtime's own server where it should behave, and a scripted socket where it should not. */
struct script {
    struct loop *loop;
    struct loop_timer *timer;
    int listener;
    int fds[64];
    int count;        /* connections accepted */
    int requests;     /* reads that brought something */
    const char *say;  /* to every read; NULL: stay silent; "": close */
    const char *then; /* from the second read on, when set */
};

struct outcome {
    struct loop *loop;
    int fired, status, rc, left;
    char body[64], text[192];
};

static struct loop *l;
static struct script script;
static struct http_client *client;

static void on_script(void *arg)
{
    struct script *s = arg;
    int fd;
    while (s->count < 64 && (fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
        s->fds[s->count++] = fd;
    for (int i = 0; i < s->count; i++) {
        char in[4096];
        if (s->fds[i] < 0 || recv(s->fds[i], in, sizeof in, 0) <= 0)
            continue;
        s->requests++;
        const char *say = s->requests > 1 && s->then ? s->then : s->say;
        if (!say)
            continue;
        if (say[0])
            (void)send(s->fds[i], say, strlen(say), MSG_NOSIGNAL);
        if (!say[0] || strstr(say, "Connection: close")) {
            (void)close(s->fds[i]);
            s->fds[i] = -1;
        }
    }
}

static void open_client(uint16_t port, const struct http_client_options *o)
{
    char url[64];
    struct fault f;
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    if (http_client_open(l, url, o, &client, &f) != 0)
        fail_msg("%s", f.text);
}

static uint16_t bind_any(int *out_fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *out_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(*out_fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(*out_fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

static const struct http_client_options QUICK = {
    .connect_timeout_ms = 100, .read_timeout_ms = 100, .retry_ms = 10};

static void open_scripted(const char *say, const struct http_client_options *o)
{
    struct fault f;
    script = (struct script){.loop = l, .say = say};
    uint16_t port = bind_any(&script.listener);
    assert_int_equal(listen(script.listener, 64), 0);
    assert_int_equal(loop_timer_new(l, on_script, &script, &script.timer, &f), 0);
    loop_timer_start(script.timer, 1, 1);
    open_client(port, o ? o : &QUICK);
}

static int setup(void **state)
{
    (void)state;
    struct fault f;
    client = NULL;
    script = (struct script){.listener = -1};
    return loop_new(&l, &f);
}

static int teardown(void **state)
{
    (void)state;
    http_client_free(client);
    if (script.listener >= 0)
        (void)close(script.listener);
    for (int i = 0; i < script.count; i++)
        if (script.fds[i] >= 0)
            (void)close(script.fds[i]);
    loop_timer_free(script.timer);
    loop_free(l);
    return 0;
}

static void on_done(const struct http_reply *reply, const struct fault *f, void *arg)
{
    struct outcome *o = arg;
    o->fired++;
    o->status = reply ? http_reply_status(reply) : 0;
    o->rc = f ? f->rc : 0;
    (void)snprintf(o->text, sizeof o->text, "%s", f ? f->text : "");
    if (reply)
        (void)snprintf(o->body, sizeof o->body, "%s", http_reply_body(reply, NULL));
    if (--o->left <= 0)
        loop_stop(o->loop);
}

static struct outcome call(const char *method, const char *path, int64_t deadline_ms)
{
    struct outcome o = {.loop = l, .left = 1};
    struct fault f;
    struct http_call_spec spec = {.method = method, .path = path, .deadline_ms = deadline_ms};
    int rc = http_client_call(client, &spec, on_done, &o, NULL, &f);
    if (rc != 0) {
        o.rc = rc;
        (void)snprintf(o.text, sizeof o.text, "%s", f.text);
        return o;
    }
    assert_int_equal(o.fired, 0); /* never from inside the call */
    assert_int_equal(loop_run(l, &f), 0);
    assert_int_equal(o.fired, 1);
    return o;
}

static void echo(struct http_request *req, void *arg)
{
    (void)arg;
    size_t len;
    const char *body = http_body(req, &len), *h = http_header(req, "X-Test");
    if (h)
        (void)http_set_header(req, "X-Back", h);
    http_respond(req, len ? 201 : 200, "text/plain", len ? body : "hi", len ? len : 2);
}

static const struct http_route ROUTES[] = {
    {HTTP_GET, "/echo", echo, NULL}, {HTTP_POST, "/echo", echo, NULL}, {0}};

static void on_header(const struct http_reply *reply, const struct fault *f, void *arg)
{
    assert_non_null(reply);
    const char *back = http_reply_header(reply, "x-back");
    assert_string_equal(back ? back : "", "yes");
    assert_null(http_reply_header(reply, "x-none"));
    on_done(reply, f, arg);
}

static void calls_a_server_over_and_over_on_one_connection(void **state)
{
    (void)state;
    struct fault f;
    struct http_server *s = NULL;
    const struct http_route *const tables[] = {ROUTES, NULL};
    struct http_server_options o = {.address = "127.0.0.1", .routes = tables};
    assert_int_equal(http_server_open(l, &o, &s, &f), 0);
    open_client(http_server_port(s), NULL);
    for (int i = 0; i < 5; i++) {
        struct outcome a = call("GET", "/echo", 0);
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hi");
        assert_int_equal(call("HEAD", "/echo", 0).status, 200);
        assert_int_equal(call("GET", "/none", 0).status, 404);
    }
    struct outcome a = {.loop = l, .left = 1};
    const char *const headers[] = {"X-Test", "yes", NULL};
    struct http_call_spec post = {.method = "POST",
                                  .path = "/echo",
                                  .headers = headers,
                                  .content_type = "text/plain",
                                  .body = "body",
                                  .body_len = 4};
    assert_int_equal(http_client_call(client, &post, on_header, &a, NULL, &f), 0);
    assert_int_equal(loop_run(l, &f), 0);
    assert_int_equal(a.status, 201);
    assert_string_equal(a.body, "body");
    http_client_free(client);
    client = NULL;
    http_server_free(s);
}

static void refuses_requests_that_would_break_the_line(void **state)
{
    (void)state;
    open_scripted(NULL, NULL);
    assert_int_equal(call("GET", "/a b", 0).rc, RC_REJECT);
    assert_int_equal(call("GET", "/a\r\nX: y", 0).rc, RC_REJECT);
    assert_int_equal(call("G T", "/a", 0).rc, RC_REJECT);
    assert_int_equal(call("GET", "a", 0).rc, RC_REJECT);
    struct fault f;
    struct http_client *other = NULL;
    static const char *const BAD[] = {"https://a:1", "http://a", "http://a:1/x", "a:1",
                                      "http://:1"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(http_client_open(l, BAD[i], NULL, &other, &f), RC_FATAL);
}

static void retries_idempotent_calls_after_network_errors_only(void **state)
{
    (void)state;
    open_scripted("", NULL); /* closes on each request */
    struct outcome a = call("GET", "/", 0);
    assert_int_equal(a.rc, RC_RETRY);
    assert_int_equal(script.requests, 3);
    a = call("POST", "/", 0);
    assert_int_equal(a.rc, RC_RETRY);
    assert_int_equal(script.requests, 4);
}

static void succeeds_on_a_later_attempt(void **state)
{
    (void)state;
    open_scripted("", NULL);
    script.then = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    struct outcome a = call("GET", "/", 0);
    assert_int_equal(a.status, 200);
    assert_int_equal(script.requests, 2);
}

static void never_repeats_what_was_answered(void **state)
{
    (void)state;
    open_scripted("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", NULL);
    assert_int_equal(call("GET", "/", 0).status, 503);
    assert_int_equal(script.requests, 1);
    script.say = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    assert_int_equal(call("GET", "/", 0).status, 404);
    assert_int_equal(script.requests, 2);
}

static void reads_answers_of_every_framing(void **state)
{
    (void)state;
    open_scripted("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                  NULL);
    struct outcome a = call("GET", "/", 0);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "ok");
    script.say = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end";
    a = call("GET", "/", 0);
    assert_string_equal(a.body, "to the end");
    script.say = "HTTP/1.1 204 No Content\r\n\r\n";
    assert_int_equal(call("GET", "/", 0).status, 204);
    script.say = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nshort";
    assert_int_equal(call("POST", "/", 0).rc, RC_RETRY); /* cut: a network error */
    script.say = "SSH-2.0-OpenSSH\r\n";
    assert_int_equal(call("GET", "/", 0).rc, RC_REJECT);
}

static void bounds_the_answer(void **state)
{
    (void)state;
    struct http_client_options o = QUICK;
    o.max_response_bytes = 4;
    open_scripted("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345", &o);
    struct outcome a = call("GET", "/", 0);
    assert_int_equal(a.rc, RC_REJECT);
    assert_non_null(strstr(a.text, "too large"));
    assert_int_equal(script.requests, 1);
}

static void gives_up_on_silence(void **state)
{
    (void)state;
    open_scripted(NULL, NULL);
    int64_t start_ms = clock_mono_ms();
    struct outcome a = call("POST", "/", 0);
    assert_int_equal(a.rc, RC_RETRY);
    assert_non_null(strstr(a.text, "no answer in time"));
    assert_in_range(clock_mono_ms() - start_ms, 95, 1000);
}

static void gives_up_when_nobody_accepts(void **state)
{
    (void)state;
    /* A listener with a full backlog: further connections are neither taken nor refused. */
    int listener, fillers[8];
    uint16_t port = bind_any(&listener);
    assert_int_equal(listen(listener, 0), 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&at, sizeof at);
    }
    open_client(port, &QUICK);
    struct outcome a = call("POST", "/", 0);
    assert_int_equal(a.rc, RC_RETRY);
    assert_non_null(strstr(a.text, "no connection in time"));
    for (int i = 0; i < 8; i++)
        (void)close(fillers[i]);
    (void)close(listener);
}

static void keeps_the_deadline_through_retries(void **state)
{
    (void)state;
    struct http_client_options o = QUICK;
    o.retry_ms = 1000;
    open_scripted("", &o);
    int64_t start_ms = clock_mono_ms();
    struct outcome a = call("GET", "/", start_ms + 60);
    assert_int_equal(a.rc, RC_RETRY);
    assert_true(clock_mono_ms() - start_ms < 60);
    assert_int_equal(script.requests, 1); /* no time for a second */
    script.say = NULL;
    start_ms = clock_mono_ms();
    assert_int_equal(call("POST", "/", start_ms + 30).rc, RC_RETRY);
    assert_in_range(clock_mono_ms() - start_ms, 28, 90);
}

static void opens_the_breaker_and_recovers(void **state)
{
    (void)state;
    struct breaker_rules rules = BREAKER_RULES;
    rules.open_ms = 50;
    struct http_client_options o = QUICK;
    o.breaker = &rules;
    open_scripted("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", &o);
    for (int i = 0; i < 10; i++)
        assert_int_equal(call("GET", "/", 0).status, 500);
    struct outcome a = call("GET", "/", 0);
    assert_int_equal(a.rc, RC_RETRY);
    assert_int_equal(a.fired, 0);
    assert_non_null(strstr(a.text, "breaker is open"));
    assert_true(http_client_wait_ms(client) > 0);
    assert_int_equal(script.requests, 10);
    script.say = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    usleep(60000);
    for (int i = 0; i < 5; i++)
        assert_int_equal(call("GET", "/", 0).status, 200);
    assert_int_equal(http_client_wait_ms(client), 0);
}

static void shares_few_connections_among_many_calls(void **state)
{
    (void)state;
    struct http_client_options o = QUICK;
    o.max_connections = 2;
    o.max_calls = 20;
    o.read_timeout_ms = 2000;
    open_scripted("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", &o);
    struct outcome a = {.loop = l, .left = 20};
    struct http_call_spec spec = {.method = "GET", .path = "/"};
    struct fault f;
    for (int i = 0; i < 20; i++)
        assert_int_equal(http_client_call(client, &spec, on_done, &a, NULL, &f), 0);
    assert_int_equal(http_client_call(client, &spec, on_done, &a, NULL, &f), RC_RETRY);
    assert_int_equal(loop_run(l, &f), 0);
    assert_int_equal(a.fired, 20);
    assert_int_equal(a.status, 200);
    assert_int_equal(script.count, 2);
    assert_int_equal(script.requests, 20);
}

static void notices_that_an_idle_connection_was_closed(void **state)
{
    (void)state;
    open_scripted("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", NULL);
    assert_int_equal(call("GET", "/", 0).status, 200);
    (void)close(script.fds[0]);
    script.fds[0] = -1;
    assert_int_equal(call("POST", "/", 0).status, 200); /* on a new one, not lost on the old */
    assert_int_equal(script.count, 2);
}

static void fires_once_when_cancelled_or_closed(void **state)
{
    (void)state;
    struct http_client_options o = QUICK;
    o.max_connections = 2;
    open_scripted(NULL, &o);
    struct outcome a = {.loop = l, .left = 100};
    struct http_call_spec spec = {.method = "GET", .path = "/"};
    struct http_call *calls[5];
    struct fault f;
    for (int i = 0; i < 5; i++)
        assert_int_equal(http_client_call(client, &spec, on_done, &a, &calls[i], &f), 0);
    http_call_cancel(calls[0]); /* connecting */
    http_call_cancel(calls[4]); /* waiting for a connection */
    assert_int_equal(a.fired, 2);
    assert_int_equal(a.rc, RC_RETRY);
    assert_non_null(strstr(a.text, "cancelled"));
    http_client_free(client);
    client = NULL;
    assert_int_equal(a.fired, 5);
    assert_non_null(strstr(a.text, "closing"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(calls_a_server_over_and_over_on_one_connection),
        CASE(refuses_requests_that_would_break_the_line),
        CASE(retries_idempotent_calls_after_network_errors_only),
        CASE(succeeds_on_a_later_attempt),
        CASE(never_repeats_what_was_answered),
        CASE(reads_answers_of_every_framing),
        CASE(bounds_the_answer),
        CASE(gives_up_on_silence),
        CASE(gives_up_when_nobody_accepts),
        CASE(keeps_the_deadline_through_retries),
        CASE(opens_the_breaker_and_recovers),
        CASE(shares_few_connections_among_many_calls),
        CASE(notices_that_an_idle_connection_was_closed),
        CASE(fires_once_when_cancelled_or_closed),
    };
    return cmocka_run_group_tests_name("http_client", tests, NULL, NULL);
}

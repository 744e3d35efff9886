/* http_routes.h - the routes that tests of the HTTP server ask, and a server that has them. */
#ifndef HTTP_ROUTES_H
#define HTTP_ROUTES_H
#include "http_rig.h"

#include <stdatomic.h>
#include <stdio.h>

#include "runtime/buf.h"
#include "runtime/embed.h"

enum { BIG = 16 << 20 }; /* more than both sockets' buffers can ever grow to */

static char big[BIG + 1];
static const struct embed_file BIG_FILE = {"big.bin", big, big + BIG};
static const char PAGE[] = "<h1>hello</h1>";
static const struct embed_file PAGE_FILE = {"page.html", PAGE, PAGE + sizeof PAGE - 1};

static _Atomic(struct http_request *) held; /* by /later, until the test answers it */

static inline void hello(struct http_request *req, void *arg)
{
    (void)arg;
    http_respond(req, 200, "text/plain", "hello", 5);
}

static inline void echo(struct http_request *req, void *arg)
{
    (void)arg;
    size_t len;
    const char *body = http_body(req, &len);
    http_respond(req, 200, "text/plain", body, len);
}

static inline void describe(struct http_request *req, void *arg)
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

static inline void later(struct http_request *req, void *arg)
{
    (void)arg;
    atomic_store(&held, req);
}

static inline void answer_held(void *arg)
{
    (void)arg;
    struct http_request *req = atomic_exchange(&held, NULL);
    http_respond(req, 200, "text/plain", "late", 4);
}

static inline void send_big(struct http_request *req, void *arg)
{
    (void)arg;
    http_respond_file(req, &BIG_FILE, NULL, NULL);
}

static inline void send_page(struct http_request *req, void *arg)
{
    (void)arg;
    http_respond_file(req, &PAGE_FILE, NULL, "public, max-age=60");
}

static inline void fail_json(struct http_request *req, void *arg)
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

static inline int start_default(void **state)
{
    (void)state;
    rig_start(&rig, ROUTES, NULL, NULL);
    return 0;
}

static inline int stop(void **state)
{
    (void)state;
    rig_stop(&rig);
    return 0;
}

#define CLOSE "Host: a\r\nConnection: close\r\n"

#endif

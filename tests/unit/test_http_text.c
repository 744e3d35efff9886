#include "check.h"

#include <stdio.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/http_cookie.h"
#include "runtime/http_path.h"
#include "runtime/http_query.h"
#include "runtime/http_router.h"

static const char *decoded(const char *path)
{
    static char text[256];
    (void)snprintf(text, sizeof text, "%s", path);
    return http_path_decode(text, strlen(text)) > 0 ? text : NULL;
}

static void decodes_a_path_once(void **state)
{
    (void)state;
    assert_string_equal(decoded("/"), "/");
    assert_string_equal(decoded("/a%20b/c"), "/a b/c");
    assert_string_equal(decoded("/%ED%95%9C"), "/\xed\x95\x9c");
    assert_string_equal(decoded("/a/"), "/a/");
    assert_string_equal(decoded("/100%25"), "/100%");
    assert_string_equal(decoded("/..a/...b"), "/..a/...b");
}

static void refuses_paths_that_two_readers_could_read_differently(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",          "a",       "/..",    "/../a",   "/a/../b",    "/a/.",           "/./a",
        "/%2e%2e/a", "/%2E./a", "/.%2e",  "//",      "/a//b",      "/a%2fb",         "/a%2Fb",
        "/%00",      "/a%00b",  "/a;b",   "/a%3bb",  "/a\\b",      "/a%5cb",         "/%252e%252e/",
        "/%",        "/%2",     "/%zz",   "/%c0%af", "/%ed%a0%80", "/%ff",           "/a%0d%0ab",
        "/a%7f",     "/a#b",    "/a%23b", "/%e2%80", "/a%3fb",     "/%c0%ae%c0%ae/",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        if (decoded(BAD[i]))
            fail_msg("%s was taken as %s", BAD[i], decoded(BAD[i]));
}

static void reads_a_query(void **state)
{
    (void)state;
    char text[] = "a=1&b=x%20y+z&&c&a=2&%ed%95%9c=%25";
    struct http_pair pairs[8];
    size_t count = 99;
    assert_int_equal(http_query_decode(text, pairs, 8, &count), 0);
    assert_int_equal(count, 5);
    assert_string_equal(http_query_find(pairs, count, "a"), "1");
    assert_string_equal(http_query_find(pairs, count, "b"), "x y z");
    assert_string_equal(http_query_find(pairs, count, "c"), "");
    assert_string_equal(http_query_find(pairs, count, "\xed\x95\x9c"), "%");
    assert_null(http_query_find(pairs, count, "d"));
}

static void refuses_a_broken_query(void **state)
{
    (void)state;
    static const char *const BAD[] = {"a=%", "a=%2", "a=%zz", "a=%00", "%00=1", "a=%ff", "a&b&c"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char text[32];
        struct http_pair pairs[2];
        size_t count = 77;
        (void)snprintf(text, sizeof text, "%s", BAD[i]);
        assert_int_equal(http_query_decode(text, pairs, 2, &count), RC_REJECT);
        assert_int_equal(count, 77);
    }
}

static void reads_cookies_and_leaves_malformed_ones_out(void **state)
{
    (void)state;
    char text[] = "a=1;  b=\"2\" ;c; =3; d e=4; f=\x01; g=a=b; a=9; h=\"x";
    struct http_pair pairs[8];
    size_t count = http_cookie_split(text, pairs, 8);
    assert_int_equal(count, 4);
    assert_string_equal(http_query_find(pairs, count, "a"), "1");
    assert_string_equal(http_query_find(pairs, count, "b"), "2");
    assert_string_equal(http_query_find(pairs, count, "g"), "a=b");
    assert_null(http_query_find(pairs, count, "h"));
    char many[] = "a=1;b=2;c=3";
    assert_int_equal(http_cookie_split(many, pairs, 2), 2);
}

static void nothing(struct http_request *req, void *arg)
{
    (void)req;
    (void)arg;
}

static const struct http_route ROUTES[] = {
    {HTTP_GET, "/", nothing, NULL},
    {HTTP_GET, "/seats/{seatId}", nothing, NULL},
    {HTTP_DELETE, "/seats/{id}", nothing, NULL},
    {HTTP_GET, "/seats/free", nothing, NULL},
    {HTTP_POST, "/seats/{a}/locks/{b}", nothing, NULL},
    {HTTP_GET, "/seats/free/now", nothing, NULL},
    {HTTP_GET, "/web/{rest...}", nothing, NULL},
    {HTTP_GET, "/web/{page}/edit", nothing, NULL},
    {0},
};

static const char *pattern_of(struct http_router *r, const char *path, enum http_method method,
                              struct http_match *m)
{
    static char text[256];
    (void)snprintf(text, sizeof text, "%s", path);
    if (!http_router_find(r, text, m) || !m->endpoint->slots[method].route)
        return "";
    return m->endpoint->slots[method].route->path;
}

static void routes_literals_before_parameters_before_rests(void **state)
{
    (void)state;
    const struct http_route *const tables[] = {ROUTES, NULL};
    struct http_router *r = NULL;
    struct http_match m;
    struct fault f;
    assert_int_equal(http_router_new(tables, &r, &f), 0);
    assert_string_equal(pattern_of(r, "/", HTTP_GET, &m), "/");
    assert_string_equal(pattern_of(r, "/seats/free", HTTP_GET, &m), "/seats/free");
    assert_string_equal(pattern_of(r, "/seats/A1", HTTP_GET, &m), "/seats/{seatId}");
    assert_string_equal(m.values[0], "A1");
    assert_string_equal(m.endpoint->allow, "GET, HEAD, DELETE, OPTIONS");
    /* "free" leads to no lock: the parameter is tried next. */
    assert_string_equal(pattern_of(r, "/seats/free/locks/7", HTTP_POST, &m),
                        "/seats/{a}/locks/{b}");
    assert_string_equal(m.values[0], "free");
    assert_string_equal(m.values[1], "7");
    assert_string_equal(pattern_of(r, "/web/a/b/c.js", HTTP_GET, &m), "/web/{rest...}");
    assert_string_equal(m.values[0], "a/b/c.js");
    assert_string_equal(pattern_of(r, "/web/a/edit", HTTP_GET, &m), "/web/{page}/edit");
    assert_string_equal(m.values[0], "a");
    assert_string_equal(pattern_of(r, "/seats", HTTP_GET, &m), "");
    assert_string_equal(pattern_of(r, "/seats/", HTTP_GET, &m), "");
    assert_string_equal(pattern_of(r, "/seats/A1/", HTTP_GET, &m), "");
    assert_string_equal(pattern_of(r, "/nope", HTTP_GET, &m), "");
    http_router_free(r);
}

static void refuses_malformed_and_double_routes(void **state)
{
    (void)state;
    static const char *const BAD[] = {"a", "/a//b", "/{}", "/a{b}", "/{a", "/{a...}/b", ""};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        const struct http_route table[] = {{HTTP_GET, BAD[i], nothing, NULL}, {0}};
        const struct http_route *const tables[] = {table, NULL};
        struct http_router *r = NULL;
        struct fault f;
        assert_int_equal(http_router_new(tables, &r, &f), RC_FATAL);
        assert_null(r);
    }
    const struct http_route twice[] = {
        {HTTP_GET, "/a/{b}", nothing, NULL}, {HTTP_GET, "/a/{c}", nothing, NULL}, {0}};
    const struct http_route *const tables[] = {twice, NULL};
    struct http_router *r = NULL;
    struct fault f;
    assert_int_equal(http_router_new(tables, &r, &f), RC_FATAL);
    assert_non_null(strstr(f.text, "twice"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_a_path_once),
        cmocka_unit_test(refuses_paths_that_two_readers_could_read_differently),
        cmocka_unit_test(reads_a_query),
        cmocka_unit_test(refuses_a_broken_query),
        cmocka_unit_test(reads_cookies_and_leaves_malformed_ones_out),
        cmocka_unit_test(routes_literals_before_parameters_before_rests),
        cmocka_unit_test(refuses_malformed_and_double_routes),
    };
    return cmocka_run_group_tests_name("http_text", tests, NULL, NULL);
}

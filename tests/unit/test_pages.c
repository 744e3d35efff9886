/* test_pages.c - the pages as a browser gets them. */
#include "check.h"

#include <stdio.h>

#include "http_rig.h"
#include "queue-core/pages.h"
#include "runtime/embed.h"
#include "web_files.h"

static struct rig rig;

static int set_up(void **state)
{
    (void)state;
    rig_start(&rig, PAGE_ROUTES, NULL, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_stop(&rig);
    return 0;
}

static const char *get(const char *path, const char *more)
{
    char request[512];
    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: a\r\n%sConnection: close\r\n\r\n", path, more);
    return rig_ask(rig.port, request);
}

static const char *version(void)
{
    return embed_find(web_files, "version")->data;
}

static const char *asset_path(const char *release, const char *file)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "/vwr/static/%s/%s", release, file);
    return path;
}

static void every_page_is_there_and_may_load_only_our_files(void **state)
{
    static const char *const PAGES[] = {"/vwr/e1", "/queue/IU_2026-seoul", "/admin/queue"};
    (void)state;
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++) {
        const char *text = get(PAGES[i], "");
        assert_int_equal(rig_status(text), 200);
        assert_non_null(strstr(text, "\r\nContent-Type: text/html; charset=utf-8\r\n"));
        assert_non_null(strstr(text, "\r\nContent-Security-Policy: default-src 'none'; "));
        assert_null(strstr(text, "unsafe-"));
        assert_non_null(strstr(text, "\r\nX-Frame-Options: DENY\r\n"));
        assert_non_null(strstr(text, "\r\nCache-Control: no-cache\r\n"));
        assert_non_null(strstr(text, "<!doctype html>"));
        assert_non_null(strstr(text, asset_path(version(), "room.css")));
        assert_null(strchr(strstr(text, "<!doctype"), '@'));
        assert_null(strstr(text, "://"));
    }
}

static void a_page_that_did_not_change_is_not_sent_again(void **state)
{
    char etag[128];
    (void)state;
    const char *at = strstr(get("/queue/e1", ""), "\r\nETag: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\r\nETag: %100[^\r]", etag), 1);
    char header[160];
    (void)snprintf(header, sizeof header, "If-None-Match: %s\r\n", etag);
    const char *text = get("/queue/e2", header);
    assert_int_equal(rig_status(text), 304);
    assert_non_null(strstr(text, "\r\nContent-Security-Policy: "));
}

static void refuses_an_event_id_that_is_none(void **state)
{
    (void)state;
    assert_int_equal(rig_status(get("/queue/%7Be1%7D", "")), 400);
    assert_int_equal(rig_status(get("/vwr/a.b", "")), 400);
}

static void what_a_page_loads_is_kept_for_good_under_its_release(void **state)
{
    (void)state;
    const char *text = get(asset_path(version(), "room.js"), "");
    assert_int_equal(rig_status(text), 200);
    assert_non_null(strstr(text, "\r\nContent-Type: text/javascript; charset=utf-8\r\n"));
    assert_non_null(strstr(text, "\r\nCache-Control: public, max-age=31536000, immutable\r\n"));
}

static void another_releases_address_is_served_but_never_kept(void **state)
{
    (void)state;
    const char *text = get(asset_path("0123456789ab", "room.css"), "");
    assert_int_equal(rig_status(text), 200);
    assert_non_null(strstr(text, "\r\nCache-Control: no-store\r\n"));
}

static void only_what_pages_load_can_be_had(void **state)
{
    (void)state;
    assert_int_equal(rig_status(get(asset_path(version(), "room.html"), "")), 404);
    assert_int_equal(rig_status(get(asset_path(version(), "version"), "")), 404);
    assert_int_equal(rig_status(get(asset_path(version(), "nothing.js"), "")), 404);
}

static void all_pages_together_stay_below_40_kb(void **state)
{
    size_t sum = 0;
    (void)state;
    for (size_t i = 0; i < web_files_count; i++)
        sum += embed_len(&web_files[i]);
    assert_in_range(sum, 20000, 40 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_is_there_and_may_load_only_our_files),
        cmocka_unit_test(a_page_that_did_not_change_is_not_sent_again),
        cmocka_unit_test(refuses_an_event_id_that_is_none),
        cmocka_unit_test(what_a_page_loads_is_kept_for_good_under_its_release),
        cmocka_unit_test(another_releases_address_is_served_but_never_kept),
        cmocka_unit_test(only_what_pages_load_can_be_had),
        cmocka_unit_test(all_pages_together_stay_below_40_kb),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

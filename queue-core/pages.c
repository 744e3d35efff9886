/* pages.c - the waiting room's pages, with headers that allow them nothing but themselves. */
#include "queue-core/pages.h"

#include <string.h>

#include "queue-core/room.h"
#include "runtime/embed.h"
#include "web_files.h"

/* Scripts and styles come from files only, and no script can turn text into markup: a title or a
 * reason that an operator or a ticket service wrote stays text. */
static const char POLICY[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";
static const char FOREVER[] = "public, max-age=31536000, immutable";

static void send_page(struct http_request *req, const char *name)
{
    (void)http_set_header(req, "Content-Security-Policy", POLICY);
    (void)http_set_header(req, "Referrer-Policy", "same-origin");
    (void)http_set_header(req, "Cross-Origin-Opener-Policy", "same-origin");
    http_respond_file(req, embed_find(web_files, name), NULL, "no-cache");
}

static void event_page(struct http_request *req, void *arg)
{
    if (room_event_ok(http_param(req, "eventId")))
        send_page(req, arg);
    else
        http_error(req, 400, "BAD_EVENT_ID", "an event id is 1-64 of A-Z a-z 0-9 _ -");
}

static void admin_page(struct http_request *req, void *arg)
{
    send_page(req, arg);
}

static bool is_asset(const struct embed_file *file)
{
    const char *dot = file ? strrchr(file->name, '.') : NULL;
    return dot && strcmp(dot, ".html") != 0;
}

/* During a roll-out a page of one release may ask an instance of another: it gets what there is,
 * but must not keep it under that address. */
static void asset(struct http_request *req, void *arg)
{
    (void)arg;
    const struct embed_file *file = embed_find(web_files, http_param(req, "file"));
    if (!is_asset(file)) {
        http_error(req, 404, "NOT_FOUND", "no such file");
        return;
    }
    const char *version = embed_find(web_files, "version")->data;
    bool current = strcmp(http_param(req, "version"), version) == 0;
    http_respond_file(req, file, NULL, current ? FOREVER : "no-store");
}

const struct http_route PAGE_ROUTES[] = {
    {HTTP_GET, "/vwr/{eventId}", event_page, "room.html"},
    {HTTP_GET, "/queue/{eventId}", event_page, "room.html"},
    {HTTP_GET, "/admin/queue", admin_page, "admin-queue.html"},
    {HTTP_GET, "/vwr/static/{version}/{file}", asset, NULL},
    {HTTP_GET, NULL, NULL, NULL},
};

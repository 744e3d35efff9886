/* http_static.c - files that are part of the program: ETag, 304, cache headers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/embed.h"
#include "runtime/http_internal.h"

enum { MAX_ETAGS = 256 };

/* FNV-1a, twice with different seeds: names a version, guards nothing. */
static uint64_t hash(const struct embed_file *file, uint64_t h)
{
    for (const char *p = file->data; p < file->end; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
    return h;
}

static void write_etag(const struct embed_file *file, char out[40])
{
    (void)snprintf(out, 40, "\"%016llx%016llx\"",
                   (unsigned long long)hash(file, UINT64_C(14695981039346656037)),
                   (unsigned long long)hash(file, UINT64_C(88172645463325252)));
}

/* Hashes a file once per server; past MAX_ETAGS files, each time. `scratch` holds it then. */
static const char *etag_of(struct http_server *s, const struct embed_file *file, char scratch[40])
{
    for (size_t i = 0; i < s->etag_count; i++)
        if (s->etags[i].file == file)
            return s->etags[i].text;
    if (!s->etags)
        s->etags = calloc(MAX_ETAGS, sizeof *s->etags);
    if (!s->etags || s->etag_count == MAX_ETAGS) {
        write_etag(file, scratch);
        return scratch;
    }
    struct http_etag *e = &s->etags[s->etag_count++];
    e->file = file;
    write_etag(file, e->text);
    return e->text;
}

/* If-None-Match: "*", or a list of tags, each perhaps with W/ (the comparison is weak). */
static bool etag_listed(const char *list, const char *etag)
{
    size_t len = strlen(etag);
    if (strcmp(list, "*") == 0)
        return true;
    while (*list) {
        list += strspn(list, " \t,");
        if (strncmp(list, "W/", 2) == 0)
            list += 2;
        size_t item = strcspn(list, ",");
        while (item > 0 && (list[item - 1] == ' ' || list[item - 1] == '\t'))
            item--;
        if (item == len && memcmp(list, etag, len) == 0)
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

static const char *type_of(const char *name)
{
    static const char *const TYPES[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".json", "application/json"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".ico", "image/x-icon"},
        {".txt", "text/plain; charset=utf-8"},
        {".woff2", "font/woff2"},
    };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof TYPES / sizeof *TYPES; i++)
        if (strcmp(dot, TYPES[i][0]) == 0)
            return TYPES[i][1];
    return "application/octet-stream";
}

void http_respond_file(struct http_request *req, const struct embed_file *file,
                       const char *content_type, const char *cache_control)
{
    char scratch[40] = "";
    const char *etag = req->server ? etag_of(req->server, file, scratch) : scratch;
    (void)http_set_header(req, "ETag", etag);
    (void)http_set_header(req, "Cache-Control", cache_control ? cache_control : "no-cache");
    const char *match = http_header(req, "If-None-Match");
    if (match && etag_listed(match, etag)) {
        http_response_send(req, 304, NULL, NULL, 0, false);
        return;
    }
    const char *type = content_type ? content_type : type_of(file->name);
    if (strncmp(type, "text/html", 9) == 0)
        (void)http_set_header(req, "X-Frame-Options", "DENY");
    http_response_send(req, 200, type, file->data, embed_len(file), true);
}

/* http_request.c - one request: its pool, its routing, and what handlers may ask of it. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/fault.h"
#include "runtime/http_cookie.h"
#include "runtime/http_internal.h"
#include "runtime/http_path.h"

enum { MAX_SPARE = 64, MAX_ANSWER_HEADERS = 16384 };

struct http_cookies {
    size_t count;
    struct http_pair pairs[HTTP_MAX_COOKIES];
    char text[];
};

struct http_request *http_request_take(struct http_server *s)
{
    struct http_request *req = TAILQ_FIRST(&s->spare);
    if (req) {
        TAILQ_REMOVE(&s->spare, req, link);
        s->spare_count--;
    } else {
        req = calloc(1, sizeof *req);
        if (!req)
            return NULL;
        http_message_init(&req->message, &s->parse_limits);
        buf_init(&req->headers, MAX_ANSWER_HEADERS);
    }
    req->server = s;
    req->loop = s->loop;
    req->server_arg = s->arg;
    return req;
}

static void destroy(struct http_request *req)
{
    http_message_done(&req->message);
    buf_done(&req->headers);
    free(req->cookies);
    free(req);
}

void http_request_release(struct http_request *req)
{
    struct http_server *s = req->server;
    if (!s || s->spare_count >= MAX_SPARE) {
        destroy(req);
        return;
    }
    http_message_reset(&req->message);
    buf_reset(&req->headers);
    free(req->cookies);
    req->cookies = NULL;
    req->conn = NULL;
    req->slot = NULL;
    req->path = NULL;
    req->query_count = 0;
    req->match.count = 0;
    req->has_cache_control = false;
    req->id[0] = req->client[0] = '\0';
    TAILQ_INSERT_HEAD(&s->spare, req, link);
    s->spare_count++;
}

static bool id_ok(const char *id)
{
    size_t len = strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.");
    return len > 0 && len <= HTTP_ID_LEN && id[len] == '\0';
}

static void put_hex(char *out, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--, value >>= 4)
        out[i] = "0123456789abcdef"[value & 15];
}

void http_request_identify(struct http_request *req)
{
    struct http_server *s = req->server;
    const char *given = http_message_field(&req->message, "x-request-id", 12);
    if (given && id_ok(given)) {
        memcpy(req->id, given, strlen(given) + 1);
        return;
    }
    put_hex(req->id, s->id_prefix, 16);
    put_hex(req->id + 16, ++s->id_count, 10);
    req->id[26] = '\0';
}

/* "http://host/path": the path of it, when the host is the one in Host. NULL otherwise. */
static char *origin_form(struct http_request *req, char *target)
{
    if (target[0] == '/' || strncasecmp(target, "http://", 7) != 0)
        return target;
    const char *host = http_message_field(&req->message, "host", 4);
    size_t len = strcspn(target + 7, "/?");
    if (!host || strlen(host) != len || strncasecmp(host, target + 7, len) != 0)
        return NULL;
    if (target[7 + len] == '/')
        return target + 7 + len;
    target[6 + len] = '/'; /* "http://host?q": the host's last byte makes room */
    return target + 6 + len;
}

/* Splits the target into path and query, both decoded in place, and keeps a second copy of the path
 * for the router to cut. NULL: refused. */
static char *split_target(struct http_request *req)
{
    struct buf *text = &req->message.text;
    if (buf_reserve(text, req->message.target_len + 1) != 0)
        return NULL;
    char *target = origin_form(req, text->data);
    if (!target)
        return NULL;
    char *query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    size_t len = http_path_decode(target, strlen(target));
    if (len == 0)
        return NULL;
    if (query && http_query_decode(query, req->query, HTTP_MAX_QUERY, &req->query_count) != 0)
        return NULL;
    req->path = target;
    char *copy = text->data + text->len;
    memcpy(copy, target, len + 1);
    return copy;
}

static void answer_options(struct http_request *req, const char *allow)
{
    (void)http_set_header(req, "Allow", allow);
    http_response_send(req, 204, NULL, NULL, 0, false);
}

static const int METHOD_OF[] = {
    [HTTP_VERB_GET] = HTTP_GET,         [HTTP_VERB_HEAD] = HTTP_GET,
    [HTTP_VERB_POST] = HTTP_POST,       [HTTP_VERB_PUT] = HTTP_PUT,
    [HTTP_VERB_PATCH] = HTTP_PATCH,     [HTTP_VERB_DELETE] = HTTP_DELETE,
    [HTTP_VERB_OPTIONS] = HTTP_METHODS, [HTTP_VERB_OTHER] = HTTP_METHODS};

void http_request_dispatch(struct http_request *req)
{
    const struct http_message *m = &req->message;
    http_request_identify(req);
    if (m->verb == HTTP_VERB_OPTIONS && m->target_len == 1 && m->text.data[0] == '*') {
        req->path = "*";
        answer_options(req, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        return;
    }
    char *copy = split_target(req);
    if (!copy) {
        http_error(req, 400, "BAD_TARGET", "The path or the query is malformed.");
        return;
    }
    if (!http_router_find(req->server->router, copy, &req->match)) {
        http_error(req, 404, "NOT_FOUND", "There is nothing at this path.");
        return;
    }
    struct http_endpoint *endpoint = req->match.endpoint;
    int method = METHOD_OF[m->verb];
    if (method < HTTP_METHODS && endpoint->slots[method].route) {
        req->slot = &endpoint->slots[method];
        const struct http_route *route = req->slot->route;
        route->handle(req, route->arg ? route->arg : req->server_arg);
    } else if (m->verb == HTTP_VERB_OPTIONS) {
        answer_options(req, endpoint->allow);
    } else {
        (void)http_set_header(req, "Allow", endpoint->allow);
        http_error(req, 405, "METHOD_NOT_ALLOWED", "This path does not take that method.");
    }
}

enum http_method http_method(const struct http_request *req)
{
    return req->slot ? req->slot->route->method : HTTP_GET;
}

const char *http_method_name(const struct http_request *req)
{
    static const char *const NAMES[] = {"GET",   "HEAD",   "POST",    "PUT",
                                        "PATCH", "DELETE", "OPTIONS", "OTHER"};
    return NAMES[req->message.verb];
}

const char *http_path(const struct http_request *req)
{
    return req->path ? req->path : "";
}

const char *http_param(const struct http_request *req, const char *name)
{
    const char *at = req->slot ? req->slot->names : NULL;
    for (size_t i = 0; at && i < req->slot->name_count; i++, at += strlen(at) + 1)
        if (strcmp(at, name) == 0)
            return req->match.values[i];
    return NULL;
}

const char *http_query(const struct http_request *req, const char *name)
{
    return http_query_find(req->query, req->query_count, name);
}

const char *http_header(const struct http_request *req, const char *name)
{
    return http_message_field(&req->message, name, strlen(name));
}

/* Copies all Cookie fields, joined as one, and splits the copy. */
static struct http_cookies *read_cookies(const struct http_message *m)
{
    size_t len = 0;
    for (uint32_t i = 0; i < m->field_count; i++)
        if (strcasecmp(m->text.data + m->fields[i].name, "cookie") == 0)
            len += m->fields[i].value_len + 1;
    struct http_cookies *c = malloc(sizeof *c + len + 1);
    if (!c)
        return NULL;
    char *at = c->text;
    for (uint32_t i = 0; i < m->field_count; i++)
        if (strcasecmp(m->text.data + m->fields[i].name, "cookie") == 0) {
            memcpy(at, m->text.data + m->fields[i].value, m->fields[i].value_len);
            at += m->fields[i].value_len;
            *at++ = ';';
        }
    *at = '\0';
    c->count = http_cookie_split(c->text, c->pairs, HTTP_MAX_COOKIES);
    return c;
}

const char *http_cookie(const struct http_request *req, const char *name)
{
    if (!req->cookies)
        ((struct http_request *)req)->cookies = read_cookies(&req->message); /* a cache */
    return req->cookies ? http_query_find(req->cookies->pairs, req->cookies->count, name) : NULL;
}

const char *http_body(const struct http_request *req, size_t *out_len)
{
    if (out_len)
        *out_len = req->message.body.len;
    return buf_text(&req->message.body);
}

const char *http_request_id(const struct http_request *req)
{
    return req->id;
}

const char *http_client_address(const struct http_request *req)
{
    return req->client;
}

struct loop *http_loop(const struct http_request *req)
{
    return req->loop;
}

void *http_server_arg(const struct http_request *req)
{
    return req->server_arg;
}

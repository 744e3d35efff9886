/* http_response.c - composes answers: head and body go into one buffer, and out in one call. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/http_internal.h"
#include "runtime/json.h"
#include "runtime/log.h"

enum { MAX_ERROR_BODY = 4096, HEAD_ROOM = 512 };

struct reason {
    int status;
    const char *text;
};

static const struct reason REASONS[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {425, "Too Early"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *http_response_reason(int status)
{
    for (size_t i = 0; i < sizeof REASONS / sizeof *REASONS; i++)
        if (REASONS[i].status == status)
            return REASONS[i].text;
    return "Other";
}

const char *http_response_date(struct http_server *s)
{
    time_t now = time(NULL);
    if (now != s->date_second) {
        struct tm tm;
        s->date_second = now;
        if (!gmtime_r(&now, &tm) ||
            strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
            s->date[0] = '\0';
    }
    return s->date;
}

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

static char *put_number(char *at, size_t number)
{
    char digits[20];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

static char *put_status(char *at, int status)
{
    at = PUT(at, "HTTP/1.1 ");
    at = put_number(at, (size_t)status);
    *at++ = ' ';
    const char *reason = http_response_reason(status);
    at = put(at, reason, strlen(reason));
    return PUT(at, "\r\n");
}

/* Everything but Content-Length and the empty line. Room for HEAD_ROOM + strings is reserved. */
static char *put_fields(struct http_request *req, char *at, const char *content_type)
{
    at = PUT(at, "Date: ");
    at = put(at, http_response_date(req->conn->server), HTTP_DATE_LEN);
    if (content_type) {
        at = PUT(at, "\r\nContent-Type: ");
        at = put(at, content_type, strlen(content_type));
        at = PUT(at, "\r\nX-Content-Type-Options: nosniff");
    }
    at = PUT(at, "\r\nX-Request-Id: ");
    at = put(at, req->id, strlen(req->id));
    at = PUT(at, "\r\n");
    return put(at, buf_text(&req->headers), req->headers.len);
}

static char *reserve(struct http_request *req, struct buf *out, const char *content_type,
                     size_t more)
{
    size_t room = HEAD_ROOM + req->headers.len + more;
    if (content_type)
        room += strlen(content_type);
    return buf_reserve(out, room) == 0 ? out->data + out->len : NULL;
}

static void finish(struct buf *out, char *at)
{
    *at = '\0';
    out->len = (size_t)(at - out->data);
}

void http_response_head(struct http_request *req, struct buf *out, int status,
                        const char *content_type)
{
    char *at = reserve(req, out, content_type, 0);
    if (!at)
        return;
    at = put_status(at, status);
    at = put_fields(req, at, content_type);
    at = PUT(at, "Connection: close\r\n\r\n");
    finish(out, at);
}

static bool has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

/* False: it does not fit HTTP_OUT_BYTES, or there is no memory. */
static bool compose(struct http_request *req, int status, const char *content_type,
                    const char *data, size_t len, bool copy)
{
    struct http_conn *c = req->conn;
    struct buf *out = http_conn_out(c);
    char *at = reserve(req, out, content_type, copy ? len : 0);
    if (!at)
        return false;
    at = put_status(at, status);
    at = put_fields(req, at, content_type);
    if (has_body(status)) {
        at = PUT(at, "Content-Length: ");
        at = put_number(at, len);
        at = PUT(at, "\r\n");
    }
    if (!req->message.keep_alive || c->close_after || c->server->draining) {
        c->close_after = true;
        at = PUT(at, "Connection: close\r\n");
    } else if (req->message.minor == 0) {
        at = PUT(at, "Connection: keep-alive\r\n");
    }
    at = PUT(at, "\r\n");
    if (copy && len > 0)
        at = put(at, data, len);
    finish(out, at);
    return true;
}

void http_response_record(struct http_request *req, int status, size_t len)
{
    int64_t took_us = clock_mono_us() - req->start_us;
    http_metrics_request(req->slot, status, took_us);
    if (req->server->access_log)
        LOG_INFO("request", LOG_STR("method", http_method_name(req)),
                 LOG_STR("path", http_path(req)), LOG_INT("status", status), LOG_INT("bytes", len),
                 LOG_INT("took_us", took_us), LOG_STR("request_id", req->id),
                 LOG_STR("client", req->client));
}

void http_response_send(struct http_request *req, int status, const char *content_type,
                        const char *data, size_t len, bool immortal)
{
    struct http_server *s = req->server;
    struct http_conn *c = req->conn;
    bool body = has_body(status) && req->message.verb != HTTP_VERB_HEAD;
    if (s) {
        http_response_record(req, status, len);
        TAILQ_REMOVE(&s->under_way, req, link);
    }
    if (c) {
        bool fits = compose(req, status, content_type, data, len, body && !immortal);
        if (fits && body && immortal) {
            c->tail = data;
            c->tail_len = len;
        }
        c->under_way = NULL;
        http_request_release(req);
        if (fits)
            http_conn_answered(c);
        else
            http_conn_close(c);
    } else {
        http_request_release(req);
    }
    if (s && s->draining)
        http_server_check_drained(s);
}

static bool is_token(const char *name)
{
    return name[0] != '\0' &&
           name[strspn(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

int http_set_header(struct http_request *req, const char *name, const char *value)
{
    if (!is_token(name) || value[strcspn(value, "\r\n")] != '\0')
        return RC_REJECT;
    struct buf *b = &req->headers;
    size_t before = b->len;
    if (buf_puts(b, name) != 0 || buf_puts(b, ": ") != 0 || buf_puts(b, value) != 0 ||
        buf_puts(b, "\r\n") != 0) {
        b->len = before;
        b->failed = false;
        return RC_REJECT;
    }
    if (strcasecmp(name, "cache-control") == 0)
        req->has_cache_control = true;
    return 0;
}

void http_respond(struct http_request *req, int status, const char *content_type, const void *data,
                  size_t len)
{
    http_response_send(req, status, content_type, data, len, false);
}

/* What an API says about a buyer is never kept by a cache unless the handler says otherwise. */
static void send_json(struct http_request *req, int status, const char *data, size_t len)
{
    if (!req->has_cache_control)
        (void)http_set_header(req, "Cache-Control", "no-store");
    http_response_send(req, status, "application/json", data, len, false);
}

void http_respond_json(struct http_request *req, int status, const struct buf *json)
{
    if (json->failed)
        http_error(req, 500, "INTERNAL", "The answer could not be written.");
    else
        send_json(req, status, buf_text(json), json->len);
}

static void write_error(struct buf *body, const char *code, const char *message)
{
    struct json_out j;
    json_begin(&j, body);
    json_object(&j, NULL);
    json_object(&j, "error");
    json_put_str(&j, "code", code);
    json_put_str(&j, "message", message);
    json_end(&j);
    json_end(&j);
}

void http_error(struct http_request *req, int status, const char *code, const char *message)
{
    struct buf body;
    buf_init(&body, MAX_ERROR_BODY);
    write_error(&body, code, message);
    if (body.failed) { /* a message of kilobytes: the code alone still tells */
        buf_reset(&body);
        write_error(&body, code, "");
    }
    send_json(req, status, buf_text(&body), body.len);
    buf_done(&body);
}

void http_response_bare(struct http_server *s, struct buf *out, int status, const char *code,
                        const char *message)
{
    struct buf body;
    buf_init(&body, MAX_ERROR_BODY);
    write_error(&body, code, message);
    (void)buf_printf(
        out,
        "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: application/json\r\n"
        "Cache-Control: no-store\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
        status, http_response_reason(status), http_response_date(s), body.len,
        status == 503 ? "Retry-After: 1\r\n" : "");
    (void)buf_append(out, buf_text(&body), body.len);
    buf_done(&body);
}

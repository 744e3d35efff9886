/* http_parse.c - bytes to HTTP messages: llhttp in strict mode, and the refusals it lacks.
 *
 * llhttp 8.1 accepts folded header lines, a missing or second Host, an empty field name, blanks in
 * a row, trailers, upgrades and HTTP/2.0; two servers that read such a request differently can be
 * played against each other. Folded lines are found by looking at the first byte of each line
 * before llhttp sees it, because its callbacks do not tell a folded value from one that was split
 * between two reads.
 */
#include "runtime/http_parse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <llhttp.h>

#include "runtime/fault.h"

enum {
    KEEP_BYTES = 16384, /* a reused message keeps buffers up to this size */
    FIRST_TEXT = 1024,
    FIRST_FIELDS = 16,
    MAX_FRAMING = 4096, /* chunk extensions and trailers of one message */
    RAW_FACTOR = 8      /* a body in one-byte chunks takes six bytes each */
};

_Static_assert(sizeof(llhttp_t) <= sizeof(((struct http_parse *)0)->llhttp), "room for llhttp");

static llhttp_t *parser_of(struct http_parse *p)
{
    return (llhttp_t *)p->llhttp;
}

/* Ends parsing with that status; the callbacks return its value to llhttp. */
static int refuse(struct http_parse *p, uint16_t status, const char *reason)
{
    if (p->bad_status == 0) {
        p->bad_status = status;
        p->reason = reason;
    }
    return HPE_USER;
}

static int append(struct http_parse *p, const char *at, size_t len)
{
    struct buf *text = &p->message->text;
    if (text->len + len > p->limits->max_header_bytes || buf_append(text, at, len) != 0)
        return refuse(p, 431, "the request's header fields are too large");
    return 0;
}

static int on_url(llhttp_t *h, const char *at, size_t len)
{
    return append(h->data, at, len);
}

static int on_url_complete(llhttp_t *h)
{
    struct http_parse *p = h->data;
    p->message->target_len = (uint32_t)p->message->text.len;
    return append(p, "", 1);
}

static int add_framing(struct http_parse *p, size_t len)
{
    p->framing += len;
    return p->framing > MAX_FRAMING ? refuse(p, 431, "the trailers are too large") : 0;
}

/* Opens a field whose name starts at the end of the text. */
static int open_field(struct http_parse *p)
{
    struct http_message *m = p->message;
    if (m->field_count >= p->limits->max_headers)
        return refuse(p, 431, "the request has too many header fields");
    if (m->field_count == m->field_room) {
        uint32_t room = m->field_room ? m->field_room * 2 : FIRST_FIELDS;
        struct http_field *fields = realloc(m->fields, room * sizeof *fields);
        if (!fields)
            return refuse(p, 503, "out of memory");
        m->fields = fields;
        m->field_room = room;
    }
    m->fields[m->field_count] = (struct http_field){.name = (uint32_t)m->text.len};
    p->value_start = 0;
    return 0;
}

/* fields[field_count] is the field being read; it counts once its value is complete. */
static int on_field(llhttp_t *h, const char *at, size_t len)
{
    struct http_parse *p = h->data;
    if (p->head_done)
        return add_framing(p, len); /* a trailer: dropped, so that it can override nothing */
    if (p->value_start != UINT32_MAX)
        return append(p, at, len);
    int rc = open_field(p);
    return rc ? rc : append(p, at, len);
}

static int on_field_complete(llhttp_t *h)
{
    struct http_parse *p = h->data;
    if (p->head_done)
        return 0;
    struct http_message *m = p->message;
    if (p->value_start == UINT32_MAX || m->text.len == m->fields[m->field_count].name)
        return refuse(p, 400, "a header field has no name");
    m->fields[m->field_count].name_len = (uint32_t)m->text.len - m->fields[m->field_count].name;
    int rc = append(p, "", 1);
    p->value_start = (uint32_t)m->text.len;
    return rc;
}

static int on_value(llhttp_t *h, const char *at, size_t len)
{
    struct http_parse *p = h->data;
    return p->head_done ? add_framing(p, len) : append(p, at, len);
}

static bool named(const struct http_message *m, const struct http_field *field, const char *name,
                  size_t len)
{
    return field->name_len == len && strncasecmp(m->text.data + field->name, name, len) == 0;
}

static int check_host(struct http_parse *p, const char *value)
{
    if (++p->hosts > 1)
        return refuse(p, 400, "Host appears twice");
    if (value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "-._~:[]")] != '\0')
        return refuse(p, 400, "Host is malformed");
    return 0;
}

/* The fields that decide where a message ends or whom it is for. */
static int check_field(struct http_parse *p, const struct http_field *field)
{
    struct http_message *m = p->message;
    const char *value = m->text.data + field->value;
    if (named(m, field, "host", 4))
        return p->response ? 0 : check_host(p, value);
    if (named(m, field, "transfer-encoding", 17)) {
        if (++p->codings > 1 || strcasecmp(value, "chunked") != 0)
            return refuse(p, 400, "the transfer coding is not chunked");
    } else if (named(m, field, "expect", 6) && !p->response) {
        if (strcasecmp(value, "100-continue") != 0)
            return refuse(p, 417, "this expectation cannot be met");
        m->expects_continue = true;
    }
    return 0;
}

static int on_value_complete(llhttp_t *h)
{
    struct http_parse *p = h->data;
    if (p->head_done)
        return 0;
    struct http_message *m = p->message;
    struct buf *text = &m->text;
    while (text->len > p->value_start &&
           (text->data[text->len - 1] == ' ' || text->data[text->len - 1] == '\t'))
        text->len--;
    struct http_field *field = &m->fields[m->field_count];
    field->value = p->value_start;
    field->value_len = (uint32_t)text->len - p->value_start;
    p->value_start = UINT32_MAX; /* the next name opens a field */
    int rc = append(p, "", 1);
    if (rc != 0)
        return rc;
    m->field_count++;
    return check_field(p, field);
}

static enum http_verb verb_of(unsigned method)
{
    switch (method) {
    case HTTP_GET:
        return HTTP_VERB_GET;
    case HTTP_HEAD:
        return HTTP_VERB_HEAD;
    case HTTP_POST:
        return HTTP_VERB_POST;
    case HTTP_PUT:
        return HTTP_VERB_PUT;
    case HTTP_PATCH:
        return HTTP_VERB_PATCH;
    case HTTP_DELETE:
        return HTTP_VERB_DELETE;
    case HTTP_OPTIONS:
        return HTTP_VERB_OPTIONS;
    default:
        return HTTP_VERB_OTHER;
    }
}

static int check_request(struct http_parse *p, const llhttp_t *h)
{
    if (h->method == HTTP_CONNECT || h->method == HTTP_SOURCE || h->method >= HTTP_DESCRIBE)
        return refuse(p, 501, "this method is not served"); /* tunnels, ICE, RTSP */
    if (h->http_minor == 1 && p->hosts == 0)
        return refuse(p, 400, "Host is missing");
    if (h->http_minor == 0 && p->codings > 0)
        return refuse(p, 400, "HTTP/1.0 has no transfer coding");
    p->message->verb = verb_of(h->method);
    return 0;
}

static int on_headers_complete(llhttp_t *h)
{
    struct http_parse *p = h->data;
    struct http_message *m = p->message;
    p->head_done = true;
    if (h->http_major != 1 || h->http_minor > 1)
        return refuse(p, 505, "only HTTP/1.0 and HTTP/1.1 are served");
    m->minor = h->http_minor;
    m->status = h->status_code;
    h->upgrade = 0; /* offers of another protocol are declined by silence */
    int rc = p->response ? 0 : check_request(p, h);
    if (rc != 0)
        return rc;
    if (h->flags & F_CONTENT_LENGTH && !p->no_body && h->content_length > p->limits->max_body_bytes)
        return refuse(p, 413, "the body is too large");
    return p->no_body ? 1 : 0;
}

static int on_body(llhttp_t *h, const char *at, size_t len)
{
    struct http_parse *p = h->data;
    struct buf *body = &p->message->body;
    if (body->len == 0 && h->flags & F_CONTENT_LENGTH)
        (void)buf_reserve(body, len + h->content_length);
    if (buf_append(body, at, len) != 0)
        return refuse(p, 413, "the body is too large");
    return 0;
}

static int on_extension(llhttp_t *h, const char *at, size_t len)
{
    (void)at;
    return add_framing(h->data, len);
}

static int on_message_complete(llhttp_t *h)
{
    struct http_parse *p = h->data;
    p->message->keep_alive = llhttp_should_keep_alive(h);
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_url = on_url,
    .on_url_complete = on_url_complete,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_extension_name = on_extension,
    .on_chunk_extension_value = on_extension,
    .on_message_complete = on_message_complete,
};

/* Looks at the request line byte by byte: llhttp skips blanks that repeat. Returns where to go on.
 */
static const char *scan_request_line(struct http_parse *p, const char *at, const char *end)
{
    for (; at < end && *at != '\n'; at++) {
        bool blank = *at == ' ';
        if (blank && p->after_blank)
            (void)refuse(p, 400, "the request line has two blanks in a row");
        p->after_blank = blank;
    }
    return at;
}

/* Looks at the head's raw bytes up to the empty line that ends it, for what llhttp does not report.
 */
static void scan_head(struct http_parse *p, const char *at, const char *end)
{
    while (at < end && p->bad_status == 0) {
        if (p->line_start) {
            bool empty = *at == '\r' || *at == '\n';
            if (p->started && empty)
                return; /* line_start stays: whatever follows is not the head's */
            if (p->started && (*at == ' ' || *at == '\t'))
                (void)refuse(p, 400, "a header line is folded");
            p->first_line = !p->started && !empty && !p->response;
            p->started = p->started || !empty;
            p->line_start = false;
        }
        if (p->first_line)
            at = scan_request_line(p, at, end);
        at = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        if (!at)
            return;
        at++;
        p->line_start = true;
    }
}

static uint16_t status_of(int error)
{
    switch (error) {
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        return 505;
    default:
        return 400;
    }
}

static enum http_parse_event bad(struct http_parse *p, uint16_t status, const char *reason)
{
    (void)refuse(p, status, reason);
    return HTTP_PARSE_BAD;
}

/* Bytes that llhttp skips without a callback (blanks, zeros of a chunk size) are bounded here. */
static enum http_parse_event account(struct http_parse *p, size_t len)
{
    if (!p->head_done) {
        p->head_bytes += len;
        if (p->head_bytes > p->limits->max_header_bytes)
            return bad(p, 431, "the request's header fields are too large");
    } else if (p->codings > 0) {
        p->body_raw += len;
        if (p->body_raw / RAW_FACTOR > p->limits->max_body_bytes + (uint64_t)MAX_FRAMING)
            return bad(p, 413, "the body's chunks are too small");
    }
    return HTTP_PARSE_MORE;
}

void http_message_init(struct http_message *m, const struct http_parse_limits *limits)
{
    *m = (struct http_message){0};
    /* Twice the limit: routing appends a copy of the path. */
    buf_init(&m->text, 2 * (size_t)limits->max_header_bytes + 2);
    buf_init(&m->body, limits->max_body_bytes);
}

static void reset_buf(struct buf *b)
{
    if (b->cap > KEEP_BYTES)
        buf_done(b);
    else
        buf_reset(b);
}

void http_message_reset(struct http_message *m)
{
    reset_buf(&m->text);
    reset_buf(&m->body);
    m->field_count = m->target_len = 0;
    m->status = 0;
    m->expects_continue = false;
}

void http_message_done(struct http_message *m)
{
    buf_done(&m->text);
    buf_done(&m->body);
    free(m->fields);
    *m = (struct http_message){0};
}

const char *http_message_field(const struct http_message *m, const char *name, size_t name_len)
{
    for (uint32_t i = 0; i < m->field_count; i++)
        if (named(m, &m->fields[i], name, name_len))
            return m->text.data + m->fields[i].value;
    return NULL;
}

void http_parse_init(struct http_parse *p, const struct http_parse_limits *limits, bool response)
{
    *p = (struct http_parse){.limits = limits, .response = response};
    llhttp_init(parser_of(p), response ? HTTP_RESPONSE : HTTP_REQUEST, &SETTINGS);
    parser_of(p)->data = p;
}

void http_parse_into(struct http_parse *p, struct http_message *message)
{
    p->message = message;
    p->head_bytes = p->framing = p->body_raw = 0;
    p->hosts = p->codings = 0;
    p->head_done = p->started = p->after_blank = p->first_line = false;
    p->line_start = true;
    p->value_start = UINT32_MAX;
    (void)buf_reserve(&message->text, FIRST_TEXT);
    message->text.failed = false; /* a small limit: appends will find out */
}

enum http_parse_event http_parse_feed(struct http_parse *p, const char *data, size_t len,
                                      size_t *out_used)
{
    *out_used = len;
    if (!p->head_done)
        scan_head(p, data, data + len);
    if (p->bad_status != 0)
        return HTTP_PARSE_BAD;
    llhttp_t *h = parser_of(p);
    llhttp_errno_t error = llhttp_execute(h, data, len);
    if (error == HPE_OK)
        return account(p, len);
    if (error == HPE_PAUSED) {
        *out_used = (size_t)(llhttp_get_error_pos(h) - data);
        llhttp_resume(h);
        return HTTP_PARSE_DONE;
    }
    return bad(p, status_of((int)error), llhttp_get_error_reason(h));
}

enum http_parse_event http_parse_eof(struct http_parse *p)
{
    if (!p->message || !p->head_done)
        return bad(p, 400, "the connection closed inside the head");
    llhttp_errno_t error = llhttp_finish(parser_of(p));
    if (error == HPE_PAUSED || error == HPE_OK)
        return HTTP_PARSE_DONE;
    return bad(p, 400, "the connection closed inside the body");
}

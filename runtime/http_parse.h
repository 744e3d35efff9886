/* http_parse.h - bytes to HTTP messages: llhttp in strict mode, and the refusals it lacks.
 *
 * Private to runtime's HTTP server and client. Pure: no sockets, no clock. The parser stops after
 * each message, so that whoever feeds it decides when the next one is looked at. llhttp.h stays
 * inside http_parse.c: its HTTP_GET is another number than ours. */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/buf.h"

/* Places in `text`; the strings there end with a NUL. */
struct http_field {
    uint32_t name;
    uint32_t value;
    uint32_t name_len;
    uint32_t value_len;
};

enum http_verb { /* what came, before routing */
                 HTTP_VERB_GET,
                 HTTP_VERB_HEAD,
                 HTTP_VERB_POST,
                 HTTP_VERB_PUT,
                 HTTP_VERB_PATCH,
                 HTTP_VERB_DELETE,
                 HTTP_VERB_OPTIONS,
                 HTTP_VERB_OTHER
};

struct http_message {
    struct buf text; /* target, then the fields' names and values */
    struct buf body;
    struct http_field *fields;
    uint32_t field_count, field_room;
    uint32_t target_len; /* requests: text.data up to here */
    uint16_t status;     /* responses */
    enum http_verb verb; /* requests */
    uint8_t minor;       /* HTTP/1.minor */
    bool keep_alive;
    bool expects_continue;
};

struct http_parse_limits {
    uint32_t max_header_bytes;
    uint32_t max_headers;
    uint32_t max_body_bytes;
};

/* Caller's memory; the fields are the module's own, except those said to be readable. */
struct http_parse {
    uint64_t llhttp[16];
    const struct http_parse_limits *limits;
    struct http_message *message;
    uint64_t head_bytes;    /* fed before the head was complete */
    uint64_t framing;       /* bytes of chunk extensions and trailers */
    uint64_t body_raw;      /* fed after the head */
    const char *reason;     /* readable after HTTP_PARSE_BAD */
    uint32_t value_start;   /* of the field being read */
    uint16_t bad_status;    /* readable after HTTP_PARSE_BAD: 400, 413, 417, 431, 501, 505 */
    uint8_t hosts, codings; /* Host and Transfer-Encoding fields seen */
    bool head_done;         /* readable: the message's head is complete */
    bool line_start, started, first_line, after_blank, response;
    bool no_body; /* set before feeding: the response to a HEAD */
};

enum http_parse_event {
    HTTP_PARSE_MORE, /* all bytes taken, the message goes on */
    HTTP_PARSE_DONE, /* a message is complete; *out_used bytes were taken */
    HTTP_PARSE_BAD   /* never feed it again */
};

void http_message_init(struct http_message *m, const struct http_parse_limits *limits);
void http_message_reset(struct http_message *m); /* empties it, keeps memory of modest size */
void http_message_done(struct http_message *m);
/* The value of the first field of that name (case ignored), or NULL. */
const char *http_message_field(const struct http_message *m, const char *name, size_t name_len);

/* `limits` is borrowed for the parser's life. */
void http_parse_init(struct http_parse *p, const struct http_parse_limits *limits, bool response);
/* Where the next message goes; call before its first byte is fed. */
void http_parse_into(struct http_parse *p, struct http_message *message);
enum http_parse_event http_parse_feed(struct http_parse *p, const char *data, size_t len,
                                      size_t *out_used);
/* Responses: the peer has closed. HTTP_PARSE_DONE when that ends the message properly. */
enum http_parse_event http_parse_eof(struct http_parse *p);

#endif

/* log.c - builds each line on the stack and hands it to the kernel in one write.
 *
 * A line that would be longer than LOG_LINE_MAX stays well-formed: the value that does not fit is
 * cut at a character, the fields after it are left out and cut=true says so. TAIL bytes are kept
 * free for that. LOG_LINE_MAX is PIPE_BUF on Linux, so lines of several threads never mix on a
 * pipe. */
#include "runtime/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/utf8.h"

enum { TAIL = 16 }; /* closing quote, ,"cut":true or " cut=true", brace, newline */

struct line {
    enum log_format format;
    bool cut;
    size_t len;
    char text[LOG_LINE_MAX];
};

static struct {
    const char *daemon;
    atomic_int level;
    enum log_format format;
    int fd;
} sink = {.daemon = NULL, .level = LOG_LEVEL_INFO, .format = LOG_FORMAT_LOGFMT, .fd = 2};

static const char *const LEVELS[] = {"debug", "info", "warn", "error"};

static size_t room(const struct line *l)
{
    size_t end = sizeof l->text - TAIL;
    return l->len < end ? end - l->len : 0;
}

static bool put(struct line *l, const char *text, size_t len)
{
    if (len > room(l)) {
        l->cut = true;
        return false;
    }
    memcpy(l->text + l->len, text, len);
    l->len += len;
    return true;
}

static void put_tail(struct line *l, const char *text)
{
    size_t len = strlen(text);
    memcpy(l->text + l->len, text, len);
    l->len += len;
}

/* What could end a line or hide in a terminal: C0, DEL, C1, the Unicode line and paragraph
 * separators. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029;
}

static bool put_character(struct line *l, const char *p, size_t n, uint32_t code)
{
    char escape[8];
    if (n == 0)
        return put(l, "\xef\xbf\xbd", 3); /* a stray byte becomes U+FFFD */
    if (code == '"' || code == '\\') {
        escape[0] = '\\';
        escape[1] = (char)code;
        return put(l, escape, 2);
    }
    if (code == '\n')
        return put(l, "\\n", 2);
    if (is_control(code)) {
        int len = snprintf(escape, sizeof escape, "\\u%04" PRIx32, code & 0xffff);
        return put(l, escape, (size_t)len);
    }
    return put(l, p, n);
}

static void put_quoted(struct line *l, const char *text)
{
    if (!put(l, "\"", 1))
        return;
    size_t len = strlen(text);
    for (size_t i = 0; i < len && !l->cut;) {
        uint32_t code = 0;
        size_t n = utf8_next(text + i, len - i, &code);
        (void)put_character(l, text + i, n, code);
        i += n ? n : 1;
    }
    put_tail(l, "\"");
}

static bool is_plain(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\')
            return false;
    }
    return true;
}

/* Writes the key; false when there is no room left for it and a short value. */
static bool put_key(struct line *l, const char *key)
{
    if (l->cut)
        return false;
    size_t start = l->len;
    bool json = l->format == LOG_FORMAT_JSON;
    bool ok = json ? put(l, start == 0 ? "{\"" : ",\"", 2) : start == 0 || put(l, " ", 1);
    ok = ok && put(l, key, strlen(key)) && put(l, json ? "\":" : "=", json ? 2 : 1);
    if (!ok || room(l) < 32) {
        l->len = start;
        l->cut = true;
        return false;
    }
    return true;
}

static void put_str(struct line *l, const char *key, const char *value)
{
    if (!value || !put_key(l, key))
        return;
    if (l->format == LOG_FORMAT_LOGFMT && is_plain(value) && put(l, value, strlen(value)))
        return;
    l->cut = false; /* a plain value too long to copy whole is cut like a quoted one */
    put_quoted(l, value);
}

static void put_int(struct line *l, const char *key, int64_t value)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%" PRId64, value);
    if (put_key(l, key))
        (void)put(l, text, (size_t)len);
}

static void put_float(struct line *l, const char *key, double value)
{
    char text[32] = "null";
    int len = 4;
    if (isfinite(value))
        len = snprintf(text, sizeof text, "%.6g", value);
    if (put_key(l, key))
        (void)put(l, text, (size_t)len);
}

static void put_field(struct line *l, const struct log_field *field)
{
    if (field->kind == LOG_KIND_STR)
        put_str(l, field->key, field->str);
    else if (field->kind == LOG_KIND_INT)
        put_int(l, field->key, field->num);
    else
        put_float(l, field->key, field->real);
}

static void finish(struct line *l)
{
    bool json = l->format == LOG_FORMAT_JSON;
    if (l->cut)
        put_tail(l, json ? ",\"cut\":true" : " cut=true");
    put_tail(l, json ? "}\n" : "\n");
}

/* A log that cannot be written has nowhere to say so: the line is dropped. */
static void send_line(const struct line *l)
{
    for (size_t done = 0; done < l->len;) {
        ssize_t n = write(sink.fd, l->text + done, l->len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        done += (size_t)n;
    }
}

void log_init(const char *daemon, enum log_level level, enum log_format format, int fd)
{
    sink.daemon = daemon;
    sink.format = format;
    sink.fd = fd;
    atomic_store(&sink.level, (int)level);
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&sink.level, memory_order_relaxed);
}

void log_write(enum log_level level, const char *msg, ...)
{
    if (!log_enabled(level))
        return;
    int saved_errno = errno;
    struct line l;
    l.format = sink.format;
    l.cut = false;
    l.len = 0;
    char now[CLOCK_ISO_LEN + 1];
    clock_format_iso(clock_wall_ms(), now);
    put_str(&l, "ts", now);
    put_str(&l, "level", LEVELS[level]);
    put_str(&l, "daemon", sink.daemon);
    put_str(&l, "msg", msg);
    va_list args;
    va_start(args, msg);
    for (;;) {
        struct log_field field = va_arg(args, struct log_field);
        if (field.kind == LOG_KIND_END)
            break;
        put_field(&l, &field);
    }
    va_end(args);
    finish(&l);
    send_line(&l);
    errno = saved_errno;
}

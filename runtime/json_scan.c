/* json_scan.c - RFC 8259 by the letter, with limits. No recursion: a stack of closing brackets. */
#include "runtime/json_scan.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/utf8.h"

enum {
    MAX_NUMBER = 48,      /* bytes of a literal; cJSON cuts at 63 */
    MAX_SIGNIFICANT = 17, /* digits; what a double can tell apart */
    INT_DIGITS = 16       /* of 2^53 */
};

struct scan {
    const char *text;
    size_t len;
    size_t at;
    unsigned depth;
    char close[JSON_MAX_DEPTH];
    bool loose;        /* numbers that would lose their value pass */
    char *patch;       /* loose: where to overwrite them, or NULL */
    size_t inexact;    /* loose: how many there were */
    const char *wrong; /* NULL while all is well */
};

/* Stands for an inexact number. No literal that loses its value is shorter: the shortest is 1e16.
 */
static const char INEXACT[] = "9e99";

static bool refuse(struct scan *s, const char *what)
{
    if (!s->wrong)
        s->wrong = what;
    return false;
}

static int peek(const struct scan *s)
{
    return s->at < s->len ? (unsigned char)s->text[s->at] : -1;
}

static void skip_space(struct scan *s)
{
    while (s->at < s->len && s->text[s->at] != '\0' && strchr(" \t\r\n", s->text[s->at]))
        s->at++;
}

static bool scan_hex4(struct scan *s, unsigned *out)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        int c = peek(s);
        if (c >= '0' && c <= '9')
            value = value << 4 | (unsigned)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            value = value << 4 | (unsigned)((c | 32) - 'a' + 10);
        else
            return refuse(s, "a broken \\u escape");
    }
    *out = value;
    return true;
}

/* After "\u": a character, or a whole surrogate pair. */
static bool scan_unicode(struct scan *s)
{
    unsigned high, low;
    if (!scan_hex4(s, &high))
        return false;
    if (high == 0)
        return refuse(s, "a NUL inside a string");
    if (high >= 0xdc00 && high <= 0xdfff)
        return refuse(s, "half a surrogate pair");
    if (high < 0xd800 || high > 0xdbff)
        return true;
    if (s->len - s->at < 2 || memcmp(s->text + s->at, "\\u", 2) != 0)
        return refuse(s, "half a surrogate pair");
    s->at += 2;
    if (!scan_hex4(s, &low))
        return false;
    return (low >= 0xdc00 && low <= 0xdfff) || refuse(s, "half a surrogate pair");
}

static bool scan_escape(struct scan *s)
{
    int c = peek(s);
    s->at++;
    if (c == 'u')
        return scan_unicode(s);
    return (c > 0 && strchr("\"\\/bfnrt", c)) || refuse(s, "an unknown escape");
}

static bool scan_string(struct scan *s)
{
    s->at++; /* the opening quote */
    for (;;) {
        int c = peek(s);
        if (c < 0)
            return refuse(s, "a string without its end");
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c < 0x20)
            return refuse(s, c == 0 ? "a NUL inside a string" : "a control character in a string");
        if (c == '\\') {
            s->at++;
            if (!scan_escape(s))
                return false;
            continue;
        }
        uint32_t code;
        size_t n = utf8_next(s->text + s->at, s->len - s->at, &code);
        if (n == 0)
            return refuse(s, "bytes that are no UTF-8");
        s->at += n;
    }
}

static size_t skip_digits(struct scan *s)
{
    size_t start = s->at;
    while (s->at < s->len && s->text[s->at] >= '0' && s->text[s->at] <= '9')
        s->at++;
    return s->at - start;
}

/* Digits between the first and the last that is not zero, over the literal's mantissa. */
static size_t significant_digits(const char *number)
{
    size_t count = 0, last = 0;
    for (const char *p = number; *p && (*p | 32) != 'e'; p++) {
        if (*p < '0' || *p > '9' || (count == 0 && *p == '0'))
            continue;
        count++;
        if (*p != '0')
            last = count;
    }
    return last;
}

static bool keeps_its_value(const char *number, bool whole)
{
    const char *digits = number + (number[0] == '-');
    if (whole) {
        if (strlen(digits) > INT_DIGITS)
            return false;
        return strtoll(digits, NULL, 10) <= JSON_MAX_INT;
    }
    size_t significant = significant_digits(digits);
    double value = fabs(strtod(number, NULL));
    return significant <= MAX_SIGNIFICANT && value < (double)JSON_MAX_INT &&
           (significant == 0 || value > 0);
}

static bool lose_value(struct scan *s, size_t start)
{
    if (!s->loose)
        return refuse(s, "a number that would lose its value");
    s->inexact++;
    if (s->patch) {
        memset(s->patch + start, ' ', s->at - start);
        memcpy(s->patch + start, INEXACT, sizeof INEXACT - 1);
    }
    return true;
}

static bool scan_number(struct scan *s)
{
    size_t start = s->at;
    bool whole = true;
    if (peek(s) == '-')
        s->at++;
    bool zero = peek(s) == '0';
    size_t digits = skip_digits(s);
    if (digits == 0 || (zero && digits > 1))
        return refuse(s, "a malformed number");
    if (peek(s) == '.') {
        whole = false;
        s->at++;
        if (skip_digits(s) == 0)
            return refuse(s, "a malformed number");
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        whole = false;
        s->at++;
        if (peek(s) == '+' || peek(s) == '-')
            s->at++;
        if (skip_digits(s) == 0)
            return refuse(s, "a malformed number");
    }
    char number[MAX_NUMBER + 1];
    size_t len = s->at - start;
    if (len > MAX_NUMBER)
        return lose_value(s, start);
    memcpy(number, s->text + start, len);
    number[len] = '\0';
    return keeps_its_value(number, whole) || lose_value(s, start);
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t len = strlen(word);
    if (s->len - s->at < len || memcmp(s->text + s->at, word, len) != 0)
        return refuse(s, "something that is no JSON value");
    s->at += len;
    return true;
}

static bool scan_key(struct scan *s)
{
    skip_space(s);
    if (peek(s) != '"')
        return refuse(s, "a key was expected");
    if (!scan_string(s))
        return false;
    skip_space(s);
    if (peek(s) != ':')
        return refuse(s, "a colon was expected");
    s->at++;
    return true;
}

/* Opens an object or array. *out_value tells whether a value must follow now (it is not empty). */
static bool scan_open(struct scan *s, char close, bool *out_value)
{
    s->at++;
    skip_space(s);
    *out_value = peek(s) != close;
    if (!*out_value) {
        s->at++;
        return true;
    }
    if (s->depth == JSON_MAX_DEPTH)
        return refuse(s, "nesting too deep");
    s->close[s->depth++] = close;
    return close == ']' || scan_key(s);
}

/* After a value: closes what ends here. *out_value: a comma came, so another value follows. */
static bool scan_after(struct scan *s, bool *out_value)
{
    *out_value = false;
    while (s->depth > 0) {
        skip_space(s);
        int c = peek(s);
        char close = s->close[s->depth - 1];
        if (c == ',') {
            s->at++;
            *out_value = true;
            return close == ']' || scan_key(s);
        }
        if (c != close)
            return refuse(s, c < 0 ? "the text ends too early" : "a comma or an end was expected");
        s->at++;
        s->depth--;
    }
    return true;
}

/* One value; for a non-empty object or array only its beginning. */
static bool scan_value(struct scan *s, bool *out_inner)
{
    skip_space(s);
    *out_inner = false;
    int c = peek(s);
    if (c == '{')
        return scan_open(s, '}', out_inner);
    if (c == '[')
        return scan_open(s, ']', out_inner);
    if (c == '"')
        return scan_string(s);
    if (c == '-' || (c >= '0' && c <= '9'))
        return scan_number(s);
    if (c == 't')
        return scan_word(s, "true");
    if (c == 'f')
        return scan_word(s, "false");
    if (c == 'n')
        return scan_word(s, "null");
    return refuse(s, c < 0 ? "the text ends too early" : "something that is no JSON value");
}

static int scan_text(struct scan *s, struct fault *f)
{
    bool more = true;
    while (more && !s->wrong) {
        bool inner;
        if (scan_value(s, &inner) && !inner)
            (void)scan_after(s, &more);
    }
    if (!s->wrong) {
        skip_space(s);
        if (s->at < s->len)
            (void)refuse(s, "bytes after the value");
    }
    if (s->wrong)
        return fault_set(f, RC_REJECT, "JSON: %s at byte %zu", s->wrong, s->at);
    return 0;
}

int json_scan(const char *text, size_t len, struct fault *f)
{
    struct scan s = {.text = text, .len = len};
    return scan_text(&s, f);
}

int json_scan_loose(const char *text, size_t len, char *patch, size_t *out_inexact, struct fault *f)
{
    struct scan s = {.text = text, .len = len, .loose = true, .patch = patch};
    int rc = scan_text(&s, f);
    if (rc == 0)
        *out_inexact = s.inexact;
    return rc;
}

/* config_check.c - one small judge per type of setting. */
#include "runtime/config_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base64.h"
#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/config_file.h"
#include "runtime/fault.h"
#include "runtime/utf8.h"

enum { DEFAULT_STRING_MAX = 4096 };

/* Is `word` (of len bytes) one of choices, separated by | ? */
static bool is_choice(const char *choices, const char *word, size_t len)
{
    for (const char *at = choices; at && *at;) {
        size_t n = strcspn(at, "|");
        if (n == len && strncmp(at, word, len) == 0)
            return true;
        at += n + (at[n] == '|');
    }
    return false;
}

static bool has_bounds(const struct config_item *item)
{
    return item->min != 0 || item->max != 0;
}

static int refuse(const struct config_item *item, const char *value, struct fault *f)
{
    struct buf want;
    buf_init(&want, 120);
    config_check_bounds(item, &want);
    (void)fault_set(f, RC_FATAL, "%s: \"%.40s\" is not %s", item->name, value, buf_text(&want));
    buf_done(&want);
    return RC_FATAL;
}

static int check_int(const struct config_item *item, const char *value, struct fault *f)
{
    char *end;
    errno = 0;
    const char *digits = value + (*value == '-');
    long long n = strtoll(value, &end, 10);
    bool number = *digits >= '0' && *digits <= '9' && *end == '\0' && errno == 0;
    if (!number || (has_bounds(item) && (n < item->min || n > item->max)))
        return refuse(item, value, f);
    return 0;
}

static int bool_of(const char *value)
{
    static const char *const WORDS[] = {"false", "true", "0", "1", "off", "on"};
    for (int i = 0; i < 6; i++)
        if (strcasecmp(value, WORDS[i]) == 0)
            return i % 2;
    return -1;
}

static int check_string(const struct config_item *item, const char *value, struct fault *f)
{
    size_t max = has_bounds(item) ? (size_t)item->max : DEFAULT_STRING_MAX, len = strlen(value);
    if (len > max || (has_bounds(item) && len < (size_t)item->min))
        return refuse(item, value, f);
    return 0;
}

static int check_secret(const struct config_item *item, const char *value, struct fault *f)
{
    size_t len = strlen(value);
    const char *after = "";
    if (len > CONFIG_VALUE_MAX)
        return fault_set(f, RC_FATAL, "%s: longer than %d bytes", item->name, CONFIG_VALUE_MAX);
    if (item->flags & CONFIG_BASE64) {
        unsigned char bytes[CONFIG_VALUE_MAX];
        if (base64_decode(value, len, bytes, sizeof bytes, &len) == 0)
            after = " after Base64 decoding";
        explicit_bzero(bytes, sizeof bytes);
    }
    if (len < CONFIG_SECRET_MIN)
        return fault_set(f, RC_FATAL, "%s: must be at least %d bytes%s, this one has %zu",
                         item->name, CONFIG_SECRET_MIN, after, len);
    return 0;
}

static int check_url(const struct config_item *item, const char *value, struct fault *f)
{
    const char *colon = strstr(value, "://");
    if (!colon || !is_choice(item->choices, value, (size_t)(colon - value)))
        return fault_set(f, RC_FATAL, "%s: must be a URL that begins with %s://", item->name,
                         item->choices);
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return fault_set(f, RC_FATAL, "%s: holds a space or control character: write %%20",
                             item->name);
    if (colon[3] == '\0')
        return fault_set(f, RC_FATAL, "%s: names no server after ://", item->name);
    return 0;
}

int config_check(const struct config_item *item, const char *value, struct fault *f)
{
    if (!utf8_valid(value, strlen(value)))
        return fault_set(f, RC_FATAL, "%s: is not UTF-8", item->name);
    switch (item->type) {
    case CONFIG_INT:
        return check_int(item, value, f);
    case CONFIG_BOOL:
        return bool_of(value) >= 0 ? 0 : refuse(item, value, f);
    case CONFIG_CHOICE:
        return is_choice(item->choices, value, strlen(value)) ? 0 : refuse(item, value, f);
    case CONFIG_SECRET:
        return check_secret(item, value, f);
    case CONFIG_URL:
        return check_url(item, value, f);
    case CONFIG_STRING:
        break;
    }
    return check_string(item, value, f);
}

int64_t config_check_int(const char *value)
{
    return strtoll(value, NULL, 10);
}

bool config_check_bool(const char *value)
{
    return bool_of(value) == 1;
}

void config_check_bounds(const struct config_item *item, struct buf *out)
{
    switch (item->type) {
    case CONFIG_INT:
        if (has_bounds(item))
            (void)buf_printf(out, "%" PRId64 "..%" PRId64, item->min, item->max);
        else
            (void)buf_puts(out, "a whole number");
        break;
    case CONFIG_BOOL:
        (void)buf_puts(out, "true|false");
        break;
    case CONFIG_CHOICE:
        (void)buf_puts(out, item->choices);
        break;
    case CONFIG_SECRET:
        (void)buf_printf(out, "a secret of at least %d bytes%s", CONFIG_SECRET_MIN,
                         item->flags & CONFIG_BASE64 ? ", Base64 if it decodes" : "");
        break;
    case CONFIG_URL:
        (void)buf_printf(out, "a URL (%s)", item->choices);
        break;
    case CONFIG_STRING:
        (void)buf_puts(out, "text");
        if (has_bounds(item))
            (void)buf_printf(out, " of %" PRId64 "..%" PRId64 " bytes", item->min, item->max);
        break;
    }
}

/* Hides what stands between "user:" and the last "@" (a password may hold an unescaped / or @:
 * rather hide too much), and the value of any password= in the query. */
static void print_url(const char *url, struct buf *out)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    const char *at = strrchr(host, '@');
    const char *colon = at ? memchr(host, ':', (size_t)(at - host)) : NULL;
    if (colon) {
        (void)buf_append(out, url, (size_t)(colon + 1 - url));
        (void)buf_puts(out, "***");
        url = at;
    }
    const char *secret;
    while ((secret = strcasestr(url, "password="))) {
        secret += strlen("password=");
        (void)buf_append(out, url, (size_t)(secret - url));
        (void)buf_puts(out, "***");
        url = secret + strcspn(secret, "&#");
    }
    (void)buf_puts(out, url);
}

void config_check_print(const struct config_item *item, const char *value, struct buf *out)
{
    if (item->type == CONFIG_SECRET)
        (void)buf_puts(out, "(set)");
    else if (item->type == CONFIG_URL)
        print_url(value, out);
    else
        (void)buf_puts(out, value);
}

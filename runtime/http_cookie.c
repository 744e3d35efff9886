/* http_cookie.c - the Cookie header into names and values. */
#include "runtime/http_cookie.h"

#include <stdbool.h>
#include <string.h>

#define TOKEN "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* RFC 6265 cookie-octet: printable ASCII without blanks, quotes, comma, semicolon, backslash. */
static bool value_ok(const char *value)
{
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        if (c <= 0x20 || c >= 0x7f || c == '"' || c == ',' || c == ';' || c == '\\')
            return false;
    }
    return true;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        text[--len] = '\0';
    return text;
}

static char *unquote(char *value)
{
    size_t len = strlen(value);
    if (len < 2 || value[0] != '"' || value[len - 1] != '"')
        return value;
    value[len - 1] = '\0';
    return value + 1;
}

size_t http_cookie_split(char *text, struct http_pair *pairs, size_t max)
{
    size_t count = 0;
    while (text && count < max) {
        char *next = strchr(text, ';');
        if (next)
            *next++ = '\0';
        char *name = trim(text);
        char *value = strchr(name, '=');
        text = next;
        if (!value || value == name)
            continue;
        *value++ = '\0';
        value = unquote(value);
        if (name[strspn(name, TOKEN)] == '\0' && value_ok(value))
            pairs[count++] = (struct http_pair){name, value};
    }
    return count;
}

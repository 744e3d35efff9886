/* fault.c - fills fault texts. */
#include "runtime/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fault_set(struct fault *f, int rc, const char *fmt, ...)
{
    if (!f)
        return rc;
    f->rc = rc;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(f->text, sizeof f->text, fmt, args);
    va_end(args);
    return rc;
}

/* Puts as much of `more` behind the text as fits. */
static void append(struct fault *f, const char *more)
{
    size_t at = strlen(f->text);
    while (*more && at < sizeof f->text - 1)
        f->text[at++] = *more++;
    f->text[at] = '\0';
}

int fault_wrap(struct fault *f, const char *fmt, ...)
{
    if (!f)
        return RC_FATAL;
    char inner[sizeof f->text];
    memcpy(inner, f->text, sizeof inner);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(f->text, sizeof f->text, fmt, args);
    va_end(args);
    append(f, ": ");
    append(f, inner);
    return f->rc;
}

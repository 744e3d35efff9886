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

int fault_wrap(struct fault *f, const char *fmt, ...)
{
    if (!f)
        return RC_FATAL;
    char inner[sizeof f->text];
    memcpy(inner, f->text, sizeof inner);
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(f->text, sizeof f->text, fmt, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof f->text)
        (void)snprintf(f->text + used, sizeof f->text - (size_t)used, ": %s", inner);
    return f->rc;
}

/* buf.c - a growing byte buffer whose maximum is given at birth. */
#include "runtime/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"

enum { FIRST_CAPACITY = 64 };

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_done(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

static int fail(struct buf *b)
{
    b->failed = true;
    return RC_REJECT;
}

int buf_reserve(struct buf *b, size_t more)
{
    if (b->failed || more > b->max - b->len)
        return fail(b);
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return 0;
    size_t cap = b->cap ? b->cap : FIRST_CAPACITY;
    while (cap < need)
        cap *= 2;
    if (cap > b->max + 1)
        cap = b->max + 1;
    char *data = realloc(b->data, cap);
    if (!data)
        return fail(b);
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
    if (buf_reserve(b, len) != 0)
        return RC_REJECT;
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int buf_puts(struct buf *b, const char *text)
{
    return buf_append(b, text, strlen(text));
}

int buf_putc(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int need = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    int rc = need < 0 ? fail(b) : buf_reserve(b, (size_t)need);
    if (rc == 0) {
        (void)vsnprintf(b->data + b->len, (size_t)need + 1, fmt, again);
        b->len += (size_t)need;
    }
    va_end(again);
    return rc;
}

void buf_consume(struct buf *b, size_t n)
{
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    char *data = b->data;
    *b = (struct buf){.max = b->max};
    return data;
}

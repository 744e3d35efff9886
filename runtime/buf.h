/* buf.h - a growing byte buffer whose maximum is given at birth. */
#ifndef BUF_H
#define BUF_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Caller's memory. `failed` is sticky: after the first append that did not fit (or found no
 * memory) nothing more is appended, so an encoder may check once, at its end. The bytes are always
 * followed by a NUL that `len` does not count (data is NULL only before the first append). */
struct buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max;
    bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);  /* frees; accepts a zeroed struct */
void buf_reset(struct buf *b); /* empties, keeps the memory, clears `failed` */

/* Each returns 0, or RC_REJECT with the content unchanged and `failed` set. */
int buf_reserve(struct buf *b, size_t more);
int buf_append(struct buf *b, const void *data, size_t len);
int buf_puts(struct buf *b, const char *text);
int buf_putc(struct buf *b, char c);
__attribute__((format(printf, 2, 3))) int buf_printf(struct buf *b, const char *fmt, ...);

/* Drops the first n bytes (n <= len). */
void buf_consume(struct buf *b, size_t n);

/* The text so far, never NULL. */
const char *buf_text(const struct buf *b);

/* Moves the memory to the caller, who frees it with free(); the buffer is empty afterwards. */
char *buf_take(struct buf *b);

#endif

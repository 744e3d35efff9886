/* base64.h - RFC 4648: the standard alphabet leniently, the URL alphabet strictly. */
#ifndef BASE64_H
#define BASE64_H
#include <stddef.h>

#define BASE64_URL_LEN(n) (((n)*4 + 2) / 3) /* characters for n bytes, without padding */

/* Standard alphabet, padding optional, as the Base64 decoders of other platforms take it. Writes at
 * most cap bytes. RC_REJECT: not Base64, or longer; *out_len untouched, *out undefined. */
int base64_decode(const char *text, size_t len, void *out, size_t cap, size_t *out_len);

/* URL alphabet without padding, and only the one spelling of a value: unused bits must be zero. */
int base64_url_decode(const char *text, size_t len, void *out, size_t cap, size_t *out_len);

/* Writes BASE64_URL_LEN(len) characters and a NUL. */
void base64_url_encode(const void *data, size_t len, char *out);

#endif

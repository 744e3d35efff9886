/* hmac.h - HMAC-SHA256 (RFC 2104) on OpenSSL's digest: its own one-call HMAC looks its algorithms
 * up by name each time, which takes three times as long as the hashing. Any thread. */
#ifndef RUNTIME_HMAC_H
#define RUNTIME_HMAC_H
#include <stdbool.h>
#include <stddef.h>

enum { HMAC_SHA256_LEN = 32 };

/* False: no memory, or OpenSSL has no SHA-256; *out is undefined then. */
bool hmac_sha256(const void *key, size_t key_len, const void *text, size_t len,
                 unsigned char out[HMAC_SHA256_LEN]);

#endif

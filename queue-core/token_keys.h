/* token_keys.h - one or two secrets of a kind of token; the first signs, both verify.
 *
 * Tokens are JWTs under HS256 (runtime/jwt.h). A key's id ("kid") is derived from its secret, so
 * that both sides agree on it without a setting: a token names its key, and a secret can be changed
 * while tokens of the old one live. */
#ifndef TOKEN_KEYS_H
#define TOKEN_KEYS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>

struct fault;
struct token_keys; /* opaque, immutable: any thread may use it */

enum { TOKEN_KID_LEN = 8 };

/* Secrets are UTF-8 text of 32..1024 bytes; `previous` may be NULL or "". Copies both. RC_FATAL: a
 * secret of another length, two equal ones, no memory. */
int token_keys_new(const char *secret, const char *previous, struct token_keys **out,
                   struct fault *f);
void token_keys_free(struct token_keys *k); /* wipes the secrets; accepts NULL */

/* The id that tokens of the first key carry, and of a given secret. */
const char *token_keys_kid(const struct token_keys *k);
void token_keys_kid_of(const char *secret, char out[TOKEN_KID_LEN + 1]);

/* The token of `claims` (JSON text, `len` bytes) and a NUL. RC_REJECT: more than cap bytes; *out
 * undefined. It costs one HMAC: callers pass JSON they wrote themselves from checked ids. */
int token_keys_sign(const struct token_keys *k, const char *claims, size_t len, char *out,
                    size_t cap, struct fault *f);

/* jwt_verify(), and the claims must say sub = event. RC_REJECT as there. */
int token_keys_verify(const struct token_keys *k, const char *token, const char *event,
                      int64_t now_s, cJSON **out, struct fault *f);

/* 1..max characters of A-Z a-z 0-9 . _ @ + : -, which JSON and Base64url carry as they are. */
bool token_keys_id_ok(const char *text, size_t max);

#endif

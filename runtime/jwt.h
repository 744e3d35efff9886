/* jwt.h - signed tokens: JSON claims under HMAC-SHA256, on libjwt (whose header is <jwt.h>).
 *
 * Only HS256 exists here: a token that says "none", another HMAC size or a public-key algorithm is
 * refused before its signature is looked at. Claims are read by json.h's strict reader, so nothing
 * that two parsers could understand differently gets through. */
#ifndef RUNTIME_JWT_H
#define RUNTIME_JWT_H
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>

struct buf;
struct fault;
struct jwt_keys; /* opaque, immutable: any thread may use it */

enum {
    JWT_MAX_LEN = 4096,  /* bytes of a token */
    JWT_MIN_SECRET = 32, /* bytes, after decoding */
    JWT_MAX_SECRET = 1024,
    JWT_MAX_KID = 64,
    JWT_SKEW_S = 60 /* how far ahead of ours the issuer's clock may run (iat, nbf) */
};

struct jwt_key {
    const char *kid; /* NULL: none; else 1-64 bytes, which tokens signed with it carry */
    const void *secret;
    size_t len;
};

/* The first key signs; both verify, so that a secret can be changed while old tokens live.
 * `previous` may be NULL. Copies everything. RC_FATAL: a secret too short or too long, no memory.
 */
int jwt_keys_new(const struct jwt_key *current, const struct jwt_key *previous,
                 struct jwt_keys **out, struct fault *f);
void jwt_keys_free(struct jwt_keys *keys); /* wipes the secrets; accepts NULL */

enum jwt_secret_form {
    JWT_SECRET_TEXT,  /* its UTF-8 bytes */
    JWT_SECRET_BASE64 /* Base64-decoded if it decodes, else its UTF-8 bytes */
};
/* The same from the values of settings, without kid; `previous` may be NULL. */
int jwt_keys_load(const char *secret, const char *previous, enum jwt_secret_form form,
                  struct jwt_keys **out, struct fault *f);
/* The bytes that a setting of that form stands for. RC_REJECT: more than JWT_MAX_SECRET. */
int jwt_secret_bytes(const char *setting, enum jwt_secret_form form,
                     unsigned char out[JWT_MAX_SECRET], size_t *out_len);

/* Checks form, algorithm, kid, signature (in constant time) and time: exp must be there and later
 * than now_s; iat and nbf, where present, not past now_s + JWT_SKEW_S. All three are whole seconds.
 * A kid selects its key; without one (in the token, or in our keys) both are tried. RC_REJECT: do
 * not honour it; *f says why, without any of the token. On 0 *out is the object of claims: read it
 * with json.h, free it with cJSON_Delete(). What the token is for (sub, tier …) is the caller's to
 * check. */
int jwt_verify(const struct jwt_keys *keys, const char *token, int64_t now_s, cJSON **out,
               struct fault *f);

/* Appends the token of `claims`, the text of a JSON object that must hold a whole number "exp".
 * RC_REJECT: it does not, or the token would be longer than JWT_MAX_LEN or than `out` takes. */
int jwt_sign(const struct jwt_keys *keys, const char *claims, struct buf *out, struct fault *f);

#endif

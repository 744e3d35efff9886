/* token_keys.c - writes tokens by hand, which is quick; reads them with runtime/jwt, which is
 * strict. */
#include "queue-core/token_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base64.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/hmac.h"
#include "runtime/jwt.h"

enum { MAC_BYTES = 32, HEADER_MAX = 128 };

struct token_keys {
    struct jwt_keys *jwt;
    size_t secret_len, header_len;
    char kid[TOKEN_KID_LEN + 1];
    char header[HEADER_MAX]; /* encoded, with its dot */
    unsigned char secret[JWT_MAX_SECRET];
};

static bool mac(const void *secret, size_t secret_len, const void *text, size_t len,
                unsigned char out[MAC_BYTES])
{
    return hmac_sha256(secret, secret_len, text, len, out);
}

void token_keys_kid_of(const char *secret, char out[TOKEN_KID_LEN + 1])
{
    static const char purpose[] = "urr key id 1";
    unsigned char digest[MAC_BYTES] = {0};
    (void)mac(secret, strlen(secret), purpose, sizeof purpose - 1, digest);
    base64_url_encode(digest, TOKEN_KID_LEN * 3 / 4, out);
}

static void set_header(struct token_keys *k)
{
    char text[64];
    int len =
        snprintf(text, sizeof text, "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"%s\"}", k->kid);
    base64_url_encode(text, (size_t)len, k->header);
    k->header_len = BASE64_URL_LEN((size_t)len);
    k->header[k->header_len++] = '.';
}

int token_keys_new(const char *secret, const char *previous, struct token_keys **out,
                   struct fault *f)
{
    bool two = previous && previous[0];
    char previous_kid[TOKEN_KID_LEN + 1];
    if (two && strcmp(secret, previous) == 0)
        return fault_set(f, RC_FATAL, "the present and the previous token secret are the same");
    struct token_keys *k = calloc(1, sizeof *k);
    if (!k)
        return fault_set(f, RC_FATAL, "no memory for token keys");
    token_keys_kid_of(secret, k->kid);
    struct jwt_key now = {k->kid, secret, strlen(secret)}, before = {0};
    if (two) {
        token_keys_kid_of(previous, previous_kid);
        before = (struct jwt_key){previous_kid, previous, strlen(previous)};
    }
    int rc = jwt_keys_new(&now, two ? &before : NULL, &k->jwt, f);
    if (rc != 0) {
        token_keys_free(k);
        return rc;
    }
    memcpy(k->secret, secret, now.len);
    k->secret_len = now.len;
    set_header(k);
    *out = k;
    return 0;
}

void token_keys_free(struct token_keys *k)
{
    if (!k)
        return;
    jwt_keys_free(k->jwt);
    explicit_bzero(k, sizeof *k);
    free(k);
}

const char *token_keys_kid(const struct token_keys *k)
{
    return k->kid;
}

int token_keys_sign(const struct token_keys *k, const char *claims, size_t len, char *out,
                    size_t cap, struct fault *f)
{
    size_t signed_len = k->header_len + BASE64_URL_LEN(len);
    size_t total = signed_len + 1 + BASE64_URL_LEN(MAC_BYTES);
    unsigned char digest[MAC_BYTES];
    if (total >= cap || total > JWT_MAX_LEN)
        return fault_set(f, RC_REJECT, "a token of %zu bytes is too long", total);
    memcpy(out, k->header, k->header_len);
    base64_url_encode(claims, len, out + k->header_len);
    if (!mac(k->secret, k->secret_len, out, signed_len, digest))
        return fault_set(f, RC_RETRY, "OpenSSL cannot compute HMAC-SHA256");
    out[signed_len] = '.';
    base64_url_encode(digest, MAC_BYTES, out + signed_len + 1);
    return 0;
}

int token_keys_verify(const struct token_keys *k, const char *token, const char *event,
                      int64_t now_s, cJSON **out, struct fault *f)
{
    cJSON *claims = NULL;
    int rc = jwt_verify(k->jwt, token, now_s, &claims, f);
    if (rc != 0)
        return rc;
    const char *sub = json_str(claims, "sub");
    if (!sub || strcmp(sub, event) != 0) {
        cJSON_Delete(claims);
        return fault_set(f, RC_REJECT, "token refused: for another event");
    }
    *out = claims;
    return 0;
}

bool token_keys_id_ok(const char *text, size_t max)
{
    static const char ALLOWED[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._@+:-";
    size_t len = text ? strspn(text, ALLOWED) : 0;
    return len >= 1 && len <= max && text[len] == '\0';
}

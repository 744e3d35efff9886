/* jwt.c - decides what libjwt leaves open: algorithm, key, time, and how claims are read. */
#include "runtime/jwt.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jwt.h>

#include "runtime/base64.h"
#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"

struct key {
    char kid[JWT_MAX_KID + 1]; /* "": none */
    unsigned char secret[JWT_MAX_SECRET];
    int len;
};

struct jwt_keys {
    size_t count;
    struct key key[2];
};

/* A token cut at its dots. */
struct parts {
    const char *header, *payload, *signature;
    size_t header_len, payload_len, signature_len;
};

static int set_key(struct key *key, const struct jwt_key *from, struct fault *f)
{
    size_t kid_len = from->kid ? strlen(from->kid) : 0;
    if (from->len < JWT_MIN_SECRET || from->len > JWT_MAX_SECRET)
        return fault_set(f, RC_FATAL, "a token secret has %zu bytes, %d..%d are right", from->len,
                         JWT_MIN_SECRET, JWT_MAX_SECRET);
    if (kid_len > JWT_MAX_KID)
        return fault_set(f, RC_FATAL, "a key id is longer than %d bytes", JWT_MAX_KID);
    if (kid_len > 0)
        memcpy(key->kid, from->kid, kid_len);
    memcpy(key->secret, from->secret, from->len);
    key->len = (int)from->len;
    return 0;
}

int jwt_keys_new(const struct jwt_key *current, const struct jwt_key *previous,
                 struct jwt_keys **out, struct fault *f)
{
    struct jwt_keys *keys = calloc(1, sizeof *keys);
    if (!keys)
        return fault_set(f, RC_FATAL, "no memory for token keys");
    int rc = set_key(&keys->key[0], current, f);
    if (rc == 0 && previous)
        rc = set_key(&keys->key[1], previous, f);
    if (rc != 0) {
        jwt_keys_free(keys);
        return rc;
    }
    keys->count = previous ? 2 : 1;
    *out = keys;
    return 0;
}

void jwt_keys_free(struct jwt_keys *keys)
{
    if (!keys)
        return;
    explicit_bzero(keys, sizeof *keys);
    free(keys);
}

int jwt_secret_bytes(const char *setting, enum jwt_secret_form form,
                     unsigned char out[JWT_MAX_SECRET], size_t *out_len)
{
    size_t len = strlen(setting);
    if (form == JWT_SECRET_BASE64 && base64_decode(setting, len, out, JWT_MAX_SECRET, out_len) == 0)
        return 0;
    if (len > JWT_MAX_SECRET)
        return RC_REJECT;
    memcpy(out, setting, len);
    *out_len = len;
    return 0;
}

int jwt_keys_load(const char *secret, const char *previous, enum jwt_secret_form form,
                  struct jwt_keys **out, struct fault *f)
{
    unsigned char now[JWT_MAX_SECRET], before[JWT_MAX_SECRET];
    struct jwt_key key = {.secret = now}, old = {.secret = before};
    int rc = jwt_secret_bytes(secret, form, now, &key.len);
    if (rc == 0 && previous)
        rc = jwt_secret_bytes(previous, form, before, &old.len);
    if (rc == 0)
        rc = jwt_keys_new(&key, previous ? &old : NULL, out, f);
    else
        rc = fault_set(f, RC_FATAL, "a token secret is longer than %d bytes", JWT_MAX_SECRET);
    explicit_bzero(now, sizeof now);
    explicit_bzero(before, sizeof before);
    return rc;
}

static int refuse(struct fault *f, const char *why)
{
    return fault_set(f, RC_REJECT, "token refused: %s", why);
}

static bool split(const char *token, struct parts *out)
{
    size_t len = strnlen(token, JWT_MAX_LEN + 1);
    const char *first = len <= JWT_MAX_LEN ? memchr(token, '.', len) : NULL;
    if (!first)
        return false;
    const char *second = strchr(first + 1, '.');
    if (!second || strchr(second + 1, '.'))
        return false;
    *out = (struct parts){token,
                          first + 1,
                          second + 1,
                          (size_t)(first - token),
                          (size_t)(second - first - 1),
                          (size_t)(token + len - second - 1)};
    return true;
}

/* Decodes one part into a JSON object, which the caller frees. */
static int read_part(const char *part, size_t len, cJSON **out, struct fault *f)
{
    char text[JWT_MAX_LEN];
    size_t text_len;
    cJSON *object = NULL;
    if (base64_url_decode(part, len, text, sizeof text, &text_len) != 0)
        return refuse(f, "not Base64url");
    struct fault inner;
    if (json_parse(text, text_len, &object, &inner) != 0)
        return refuse(f, inner.text);
    if (!cJSON_IsObject(object)) {
        cJSON_Delete(object);
        return refuse(f, "not a JSON object");
    }
    *out = object;
    return 0;
}

/* The header may hold alg, typ and kid as we know them; an unknown "crit" must be refused (RFC
 * 7515). */
static const char *header_fault(const cJSON *header)
{
    const char *alg = json_str(header, "alg"), *typ = json_str(header, "typ");
    if (!alg || strcmp(alg, "HS256") != 0)
        return "algorithm is not HS256";
    if (json_get(header, "typ") && (!typ || strcasecmp(typ, "JWT") != 0))
        return "type is not JWT";
    if (json_get(header, "crit"))
        return "has a critical header";
    if (json_get(header, "kid") && !json_str(header, "kid"))
        return "kid is not text";
    return NULL;
}

/* libjwt recomputes the HMAC and compares it in constant time; its alg must be the one we pinned.
 */
static bool signed_with(const char *token, const struct key *key)
{
    jwt_t *jwt = NULL;
    bool good =
        jwt_decode(&jwt, token, key->secret, key->len) == 0 && jwt_get_alg(jwt) == JWT_ALG_HS256;
    jwt_free(jwt);
    return good;
}

static bool may_try(const struct key *key, const char *kid)
{
    return !kid || !key->kid[0] || strcmp(key->kid, kid) == 0;
}

static bool check_signature(const struct jwt_keys *keys, const char *token, const char *kid)
{
    for (size_t i = 0; i < keys->count; i++)
        if (may_try(&keys->key[i], kid) && signed_with(token, &keys->key[i]))
            return true;
    return false;
}

/* A time claim: absent leaves *out, present must be whole seconds. */
static bool read_time(const cJSON *claims, const char *name, int64_t *out)
{
    return !json_get(claims, name) || json_int(claims, name, out);
}

static const char *time_fault(const cJSON *claims, int64_t now_s)
{
    int64_t exp, nbf = INT64_MIN, iat = INT64_MIN;
    if (!json_int(claims, "exp", &exp))
        return "has no expiry";
    if (!read_time(claims, "nbf", &nbf) || !read_time(claims, "iat", &iat))
        return "a time is not whole seconds";
    if (now_s >= exp)
        return "expired";
    if (nbf > now_s + JWT_SKEW_S)
        return "not valid yet";
    return iat > now_s + JWT_SKEW_S ? "issued in the future" : NULL;
}

int jwt_verify(const struct jwt_keys *keys, const char *token, int64_t now_s, cJSON **out,
               struct fault *f)
{
    struct parts parts;
    cJSON *header = NULL, *claims = NULL;
    if (!split(token, &parts))
        return refuse(f, "not three parts, or too long");
    int rc = read_part(parts.header, parts.header_len, &header, f);
    if (rc != 0)
        return rc;
    const char *wrong = header_fault(header);
    if (!wrong && !check_signature(keys, token, json_str(header, "kid")))
        wrong = "wrong signature";
    cJSON_Delete(header);
    if (wrong)
        return refuse(f, wrong);
    rc = read_part(parts.payload, parts.payload_len, &claims, f);
    if (rc != 0)
        return rc;
    wrong = time_fault(claims, now_s);
    if (wrong) {
        cJSON_Delete(claims);
        return refuse(f, wrong);
    }
    *out = claims;
    return 0;
}

/* The text of a signed token, to be freed with free(); NULL: no memory. */
static char *encode(const struct key *key, const char *claims)
{
    jwt_t *jwt = NULL;
    char *text = NULL;
    if (jwt_new(&jwt) == 0 && jwt_add_grants_json(jwt, claims) == 0 &&
        jwt_set_alg(jwt, JWT_ALG_HS256, key->secret, key->len) == 0 &&
        (!key->kid[0] || jwt_add_header(jwt, "kid", key->kid) == 0))
        text = jwt_encode_str(jwt);
    jwt_free(jwt);
    return text;
}

int jwt_sign(const struct jwt_keys *keys, const char *claims, struct buf *out, struct fault *f)
{
    cJSON *object = NULL;
    int rc = json_parse(claims, strlen(claims), &object, f);
    if (rc != 0)
        return rc;
    int64_t exp;
    bool good = json_int(object, "exp", &exp);
    cJSON_Delete(object);
    if (!good)
        return fault_set(f, RC_REJECT, "claims need a whole number \"exp\"");
    char *text = encode(&keys->key[0], claims);
    if (!text)
        return fault_set(f, RC_RETRY, "no memory for a token");
    size_t len = strlen(text);
    rc = len <= JWT_MAX_LEN ? buf_append(out, text, len) : RC_REJECT;
    free(text);
    return rc == 0 ? 0 : fault_set(f, rc, "a token of %zu bytes is too long", len);
}

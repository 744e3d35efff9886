/* signed_number.c - a number on an event's line that its owner carries. */
#include "queue-core/signed_number.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "runtime/base64.h"
#include "runtime/fault.h"
#include "runtime/hmac.h"

enum { MAC_BYTES = 16, DIGITS_MAX = 13, MESSAGE_MAX = 384, FUTURE_S = 60 };

static const char KIND_LETTER[] = {[SIGNED_REQUEST_ID] = 'r', [SIGNED_PLACE] = 'p'};

static int derive(const char *secret, unsigned char out[32])
{
    static const unsigned char purpose[] = "urr signed number 1";
    unsigned int len = 0;
    return HMAC(EVP_sha256(), secret, (int)strlen(secret), purpose, sizeof purpose - 1, out, &len)
               ? 0
               : -1;
}

int signed_keys_init(struct signed_keys *k, const char *secret, const char *previous,
                     struct fault *f)
{
    memset(k, 0, sizeof *k);
    k->has_previous = previous && previous[0];
    if (derive(secret, k->current) != 0 ||
        (previous && previous[0] && derive(previous, k->previous) != 0))
        return fault_set(f, RC_FATAL, "OpenSSL cannot compute HMAC-SHA256");
    return 0;
}

void signed_keys_done(struct signed_keys *k)
{
    OPENSSL_cleanse(k, sizeof *k);
}

/* Base 36, most significant digit first; returns the end. */
static char *put36(char *at, int64_t value)
{
    char digits[DIGITS_MAX];
    int n = 0;
    do {
        digits[n++] = "0123456789abcdefghijklmnopqrstuvwxyz"[value % 36];
        value /= 36;
    } while (value > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

/* Reads up to the dot; NULL when it is no number in its one spelling, below 2^53. */
static const char *get36(const char *at, int64_t *out)
{
    int64_t value = 0;
    const char *start = at;
    for (; *at != '.'; at++) {
        int digit = *at >= '0' && *at <= '9'   ? *at - '0'
                    : *at >= 'a' && *at <= 'z' ? *at - 'a' + 10
                                               : -1;
        if (digit < 0 || at - start > 10 || (at > start && *start == '0'))
            return NULL;
        value = value * 36 + digit;
    }
    if (at == start || value >= INT64_C(1) << 53)
        return NULL;
    *out = value;
    return at + 1;
}

/* The MAC covers everything the text says and what it is about; lengths first, so that no two
 * different messages have the same bytes. */
static bool mac(const unsigned char key[32], const char *event, const char *user, const char *text,
                size_t text_len, unsigned char out[MAC_BYTES])
{
    char message[MESSAGE_MAX];
    int len = snprintf(message, sizeof message, "%zu %zu %s %s %.*s", strlen(event), strlen(user),
                       event, user, (int)text_len, text);
    if (len < 0 || (size_t)len >= sizeof message)
        return false;
    unsigned char full[HMAC_SHA256_LEN];
    if (!hmac_sha256(key, 32, message, (size_t)len, full))
        return false;
    memcpy(out, full, MAC_BYTES);
    return true;
}

void signed_number_encode(const struct signed_keys *k, enum signed_kind kind, const char *event,
                          const char *user, const struct signed_number *n,
                          char out[SIGNED_NUMBER_LEN + 1])
{
    char *at = out;
    *at++ = KIND_LETTER[kind];
    *at++ = '.';
    at = put36(at, n->epoch);
    *at++ = '.';
    at = put36(at, n->number);
    *at++ = '.';
    at = put36(at, n->issued_s);
    unsigned char tag[MAC_BYTES] = {0};
    (void)mac(k->current, event, user, out, (size_t)(at - out), tag);
    *at++ = '.';
    base64_url_encode(tag, MAC_BYTES, at);
}

static bool matches(const unsigned char key[32], const char *event, const char *user,
                    const char *text, size_t len, const unsigned char tag[MAC_BYTES])
{
    unsigned char expected[MAC_BYTES];
    return mac(key, event, user, text, len, expected) &&
           CRYPTO_memcmp(expected, tag, MAC_BYTES) == 0;
}

int signed_number_verify(const struct signed_keys *k, enum signed_kind kind, const char *event,
                         const char *user, const char *text, int64_t now_s,
                         struct signed_number *out)
{
    struct signed_number n;
    if (strnlen(text, SIGNED_NUMBER_LEN + 1) > SIGNED_NUMBER_LEN || text[0] != KIND_LETTER[kind] ||
        text[1] != '.')
        return RC_REJECT;
    const char *at = get36(text + 2, &n.epoch);
    at = at ? get36(at, &n.number) : NULL;
    at = at ? get36(at, &n.issued_s) : NULL;
    unsigned char tag[MAC_BYTES];
    size_t tag_len = 0;
    if (!at || base64_url_decode(at, strlen(at), tag, sizeof tag, &tag_len) != 0 ||
        tag_len != MAC_BYTES)
        return RC_REJECT;
    size_t len = (size_t)(at - 1 - text);
    if (!matches(k->current, event, user, text, len, tag) &&
        !(k->has_previous && matches(k->previous, event, user, text, len, tag)))
        return RC_REJECT;
    if (n.issued_s + SIGNED_NUMBER_LIFE_S < now_s || n.issued_s > now_s + FUTURE_S)
        return RC_REJECT;
    *out = n;
    return 0;
}

#include "check.h"

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "runtime/base64.h"
#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"
#include "runtime/jwt.h"

#define SECRET "0123456789-0123456789-0123456789-A"
#define OLD_SECRET "0123456789-0123456789-0123456789-B"
#define GOOD_HEADER "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"
#define GOOD_CLAIMS "{\"sub\":\"e1\",\"exp\":1100}"
enum { NOW = 1000 };

static struct jwt_keys *keys_of(const char *kid, const char *secret, const char *old_kid,
                                const char *old)
{
    struct jwt_keys *keys = NULL;
    struct jwt_key a = {kid, secret, strlen(secret)}, b = {old_kid, old, old ? strlen(old) : 0};
    assert_int_equal(jwt_keys_new(&a, old ? &b : NULL, &keys, NULL), 0);
    return keys;
}

/* A token made by hand, so that nothing it says is checked on the way in. */
static void forge(const char *header, const char *claims, const char *secret, const EVP_MD *md,
                  char out[2048])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    base64_url_encode(header, strlen(header), out);
    (void)strcat(out, ".");
    base64_url_encode(claims, strlen(claims), out + strlen(out));
    (void)HMAC(md, secret, (int)strlen(secret), (unsigned char *)out, strlen(out), mac, &mac_len);
    (void)strcat(out, ".");
    base64_url_encode(mac, mac_len, out + strlen(out));
}

static int verify(const struct jwt_keys *keys, const char *token)
{
    cJSON *claims = NULL;
    int rc = jwt_verify(keys, token, NOW, &claims, NULL);
    cJSON_Delete(claims);
    return rc;
}

static const struct {
    const char *header, *claims, *why;
} FORGED[] = {
    {"{\"alg\":\"none\"}", GOOD_CLAIMS, "not HS256"},
    {"{\"alg\":\"HS384\"}", GOOD_CLAIMS, "not HS256"},
    {"{\"alg\":\"HS512\"}", GOOD_CLAIMS, "not HS256"},
    {"{\"alg\":\"RS256\"}", GOOD_CLAIMS, "not HS256"},
    {"{\"alg\":\"hs256\"}", GOOD_CLAIMS, "not HS256"},
    {"{\"typ\":\"JWT\"}", GOOD_CLAIMS, "not HS256"},
    {"{\"alg\":\"none\",\"alg\":\"HS256\"}", GOOD_CLAIMS, "twice"},
    {"{\"alg\":\"HS256\",\"typ\":\"JWE\"}", GOOD_CLAIMS, "type"},
    {"{\"alg\":\"HS256\",\"crit\":[\"x\"]}", GOOD_CLAIMS, "critical"},
    {"{\"alg\":\"HS256\",\"kid\":7}", GOOD_CLAIMS, "kid"},
    {"[]", GOOD_CLAIMS, "not a JSON object"},
    {GOOD_HEADER, "{\"exp\":1000}", "expired"},
    {GOOD_HEADER, "{\"sub\":\"e1\"}", "no expiry"},
    {GOOD_HEADER, "{\"exp\":\"1100\"}", "no expiry"},
    {GOOD_HEADER, "{\"exp\":1100.5}", "no expiry"},
    {GOOD_HEADER, "{\"exp\":1100,\"nbf\":1061}", "not valid yet"},
    {GOOD_HEADER, "{\"exp\":1100,\"iat\":1061}", "future"},
    {GOOD_HEADER, "{\"exp\":1100,\"iat\":null}", "whole seconds"},
    {GOOD_HEADER, "{\"exp\":1100,\"sub\":\"a\",\"sub\":\"b\"}", ""},
    {GOOD_HEADER, "{\"exp\":1100,\"sub\":\"a\\u0000b\"}", ""},
};

static void refuses_every_forged_token(void **state)
{
    (void)state;
    struct jwt_keys *keys = keys_of(NULL, SECRET, NULL, NULL);
    for (size_t i = 0; i < sizeof FORGED / sizeof FORGED[0]; i++) {
        char token[2048];
        cJSON *claims = NULL;
        struct fault f = {0};
        forge(FORGED[i].header, FORGED[i].claims, SECRET, EVP_sha256(), token);
        int rc = jwt_verify(keys, token, NOW, &claims, &f);
        if (rc != RC_REJECT || claims || !strstr(f.text, FORGED[i].why))
            fail_msg("%s %s: %d \"%s\"", FORGED[i].header, FORGED[i].claims, rc, f.text);
    }
    jwt_keys_free(keys);
}

static void refuses_a_changed_or_misshapen_token(void **state)
{
    (void)state;
    struct jwt_keys *keys = keys_of(NULL, SECRET, NULL, NULL);
    char token[2048], big[JWT_MAX_LEN + 2];
    forge(GOOD_HEADER, GOOD_CLAIMS, SECRET, EVP_sha256(), token);
    assert_int_equal(verify(keys, token), 0);
    size_t len = strlen(token);
    for (size_t i = 0; i < len; i++) {
        char kept = token[i];
        token[i] = kept == 'A' ? 'B' : 'A';
        assert_int_equal(verify(keys, token), RC_REJECT);
        token[i] = kept;
    }
    token[len] = '.';
    token[len + 1] = '\0';
    assert_int_equal(verify(keys, token), RC_REJECT);
    *strrchr(token, '.') = '\0';
    strrchr(token, '.')[1] = '\0';
    assert_int_equal(verify(keys, token), RC_REJECT);
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_int_equal(verify(keys, big), RC_REJECT);
    assert_int_equal(verify(keys, ""), RC_REJECT);
    assert_int_equal(verify(keys, ".."), RC_REJECT);
    forge(GOOD_HEADER, GOOD_CLAIMS, OLD_SECRET, EVP_sha256(), token);
    assert_int_equal(verify(keys, token), RC_REJECT);
    forge(GOOD_HEADER, GOOD_CLAIMS, SECRET, EVP_sha512(), token);
    assert_int_equal(verify(keys, token), RC_REJECT);
    jwt_keys_free(keys);
}

static void the_current_secret_signs_and_both_verify(void **state)
{
    (void)state;
    struct jwt_keys *before = keys_of("k1", OLD_SECRET, NULL, NULL);
    struct jwt_keys *both = keys_of("k2", SECRET, "k1", OLD_SECRET);
    struct jwt_keys *after = keys_of("k2", SECRET, NULL, NULL);
    struct buf old, new;
    buf_init(&old, JWT_MAX_LEN);
    buf_init(&new, JWT_MAX_LEN);
    assert_int_equal(jwt_sign(before, GOOD_CLAIMS, &old, NULL), 0);
    assert_int_equal(jwt_sign(both, GOOD_CLAIMS, &new, NULL), 0);
    assert_int_equal(verify(both, buf_text(&old)), 0);
    assert_int_equal(verify(both, buf_text(&new)), 0);
    assert_int_equal(verify(after, buf_text(&old)), RC_REJECT);
    assert_int_equal(verify(after, buf_text(&new)), 0);
    buf_done(&old);
    buf_done(&new);
    jwt_keys_free(before);
    jwt_keys_free(both);
    jwt_keys_free(after);
}

static void a_kid_selects_its_key_alone(void **state)
{
    (void)state;
    struct jwt_keys *keys = keys_of("k2", SECRET, "k1", OLD_SECRET);
    char token[2048];
    forge("{\"alg\":\"HS256\",\"kid\":\"k1\"}", GOOD_CLAIMS, SECRET, EVP_sha256(), token);
    assert_int_equal(verify(keys, token), RC_REJECT);
    forge("{\"alg\":\"HS256\",\"kid\":\"k9\"}", GOOD_CLAIMS, SECRET, EVP_sha256(), token);
    assert_int_equal(verify(keys, token), RC_REJECT);
    forge(GOOD_HEADER, GOOD_CLAIMS, OLD_SECRET, EVP_sha256(), token);
    assert_int_equal(verify(keys, token), 0);
    jwt_keys_free(keys);
}

static void a_secret_is_base64_if_it_decodes_else_text(void **state)
{
    (void)state;
    unsigned char out[JWT_MAX_SECRET];
    size_t len = 0;
    assert_int_equal(jwt_secret_bytes("YWJj", JWT_SECRET_BASE64, out, &len), 0);
    assert_int_equal(len, 3);
    assert_memory_equal(out, "abc", 3);
    assert_int_equal(jwt_secret_bytes("YWJj", JWT_SECRET_TEXT, out, &len), 0);
    assert_int_equal(len, 4);
    assert_int_equal(jwt_secret_bytes("a-b!", JWT_SECRET_BASE64, out, &len), 0);
    assert_memory_equal(out, "a-b!", 4);
    struct jwt_keys *keys = NULL;
    assert_int_equal(jwt_keys_load("short", NULL, JWT_SECRET_TEXT, &keys, NULL), RC_FATAL);
}

static void signs_only_claims_that_expire(void **state)
{
    (void)state;
    struct jwt_keys *keys = keys_of(NULL, SECRET, NULL, NULL);
    struct buf out;
    buf_init(&out, JWT_MAX_LEN);
    assert_int_equal(jwt_sign(keys, "{\"sub\":\"x\"}", &out, NULL), RC_REJECT);
    assert_int_equal(jwt_sign(keys, "nonsense", &out, NULL), RC_REJECT);
    assert_int_equal(out.len, 0);
    buf_done(&out);
    jwt_keys_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_every_forged_token),
        cmocka_unit_test(refuses_a_changed_or_misshapen_token),
        cmocka_unit_test(the_current_secret_signs_and_both_verify),
        cmocka_unit_test(a_kid_selects_its_key_alone),
        cmocka_unit_test(a_secret_is_base64_if_it_decodes_else_text),
        cmocka_unit_test(signs_only_claims_that_expire),
    };
    return cmocka_run_group_tests_name("jwt", tests, NULL, NULL);
}

/* Entry tokens: only ours, only for the slot's user and event, only until its end. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "queue-core/entry_token.h"
#include "queue-core/token_keys.h"
#include "runtime/fault.h"
#include "token_kit.h"

static const char SECRET[] = "the entry secret, at least 32 bytes";
static const char OTHER[] = "another secret, also with 32 bytes..";
static const int64_t NOW = 1795000000;
#define HS256 "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"
#define TIMES ",\"iat\":1795000000,\"exp\":1795000600}"
#define GOOD "{\"sub\":\"ev-1\",\"uid\":\"anna\"" TIMES

static struct token_keys *keys(const char *secret, const char *previous)
{
    struct token_keys *k = NULL;
    struct fault f;
    assert_int_equal(token_keys_new(secret, previous, &k, &f), 0);
    return k;
}

static void sign(const struct token_keys *k, char out[ENTRY_TOKEN_MAX])
{
    struct fault f;
    assert_int_equal(entry_token_sign(k, "ev-1", "anna", NOW, NOW + 600, out, ENTRY_TOKEN_MAX, &f),
                     0);
}

/* Verifies for anna in ev-1; the reason of a refusal is in *f. */
static int verify(const struct token_keys *k, const char *token, int64_t now_s, struct fault *f)
{
    int64_t exp_s = -1;
    int rc = entry_token_verify(k, token, "ev-1", "anna", now_s, &exp_s, f);
    assert_int_equal(exp_s, rc == 0 ? NOW + 600 : -1);
    return rc;
}

static void a_token_is_good_until_the_slot_ends(void **state)
{
    (void)state;
    struct token_keys *k = keys(SECRET, NULL);
    struct fault f;
    char token[ENTRY_TOKEN_MAX];
    sign(k, token);
    assert_int_equal(verify(k, token, NOW, &f), 0);
    assert_int_equal(verify(k, token, NOW + 599, &f), 0);
    assert_int_equal(verify(k, token, NOW + 600, &f), RC_REJECT);
    assert_non_null(strstr(f.text, "expired"));
    token_keys_free(k);
}

static void is_refused_for_another_event_or_user(void **state)
{
    (void)state;
    struct token_keys *k = keys(SECRET, NULL);
    struct fault f;
    char token[ENTRY_TOKEN_MAX];
    sign(k, token);
    assert_int_equal(entry_token_verify(k, token, "ev-2", "anna", NOW, NULL, &f), RC_REJECT);
    assert_non_null(strstr(f.text, "another event"));
    assert_int_equal(entry_token_verify(k, token, "ev-1", "bert", NOW, NULL, &f), RC_REJECT);
    assert_non_null(strstr(f.text, "another user"));
    assert_int_equal(entry_token_verify(k, token, "ev-1", "ann", NOW, NULL, &f), RC_REJECT);
    assert_int_equal(entry_token_verify(k, token, "ev-1", "annaa", NOW, NULL, &f), RC_REJECT);
    token_keys_free(k);
}

static void strangers_tokens_are_refused(void **state)
{
    (void)state;
    static const struct {
        const EVP_MD *(*digest)(void);
        const char *header, *claims, *secret;
        int rc;
    } cases[] = {
        {EVP_sha256, HS256, GOOD, SECRET, 0},
        {EVP_sha256, HS256, GOOD, OTHER, RC_REJECT},
        {NULL, "{\"alg\":\"none\"}", GOOD, SECRET, RC_REJECT},
        {NULL, HS256, GOOD, SECRET, RC_REJECT},
        {EVP_sha512, "{\"alg\":\"HS512\"}", GOOD, SECRET, RC_REJECT},
        {EVP_sha512, HS256, GOOD, SECRET, RC_REJECT},
        {EVP_sha256, "{\"alg\":\"hs256\"}", GOOD, SECRET, RC_REJECT},
        {EVP_sha256, "{\"typ\":\"JWT\"}", GOOD, SECRET, RC_REJECT},
        {EVP_sha256, "{\"alg\":\"HS256\",\"kid\":\"unknown\"}", GOOD, SECRET, RC_REJECT},
        {EVP_sha256, HS256, "{\"uid\":\"anna\"" TIMES, SECRET, RC_REJECT},
        {EVP_sha256, HS256, "{\"sub\":\"ev-1\"" TIMES, SECRET, RC_REJECT},
        {EVP_sha256, HS256, "{\"sub\":\"ev-1\",\"uid\":\"anna\"}", SECRET, RC_REJECT},
        {EVP_sha256, HS256, "{\"sub\":\"ev-1\",\"uid\":\"anna\",\"exp\":\"1795000600\"}", SECRET,
         RC_REJECT},
        {EVP_sha256, HS256, "{\"sub\":[\"ev-1\"],\"uid\":\"anna\"" TIMES, SECRET, RC_REJECT},
        {EVP_sha256, HS256, "{\"sub\":\"ev-1\",\"uid\":null" TIMES, SECRET, RC_REJECT},
        {EVP_sha256, HS256, "{\"sub\":\"ev-1\",\"uid\":\"anna\",\"tier\":1" TIMES, SECRET,
         RC_REJECT},
        {EVP_sha256, HS256, "{\"sub\":\"ev-1\",\"uid\":\"anna\",\"tier\":null" TIMES, SECRET,
         RC_REJECT},
        {EVP_sha256, HS256, "{\"sub\":\"ev-1\",\"uid\":\"bert\",\"uid\":\"anna\"" TIMES, SECRET,
         RC_REJECT},
        {EVP_sha256, HS256,
         "{\"sub\":\"ev-1\",\"uid\":\"anna\",\"iat\":1795000061,\"exp\":1795000600}", SECRET,
         RC_REJECT},
    };
    struct token_keys *k = keys(SECRET, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char token[KIT_TOKEN_MAX];
        struct fault f;
        forge(cases[i].digest ? cases[i].digest() : NULL, cases[i].header, cases[i].claims,
              cases[i].secret, token);
        if (verify(k, token, NOW, &f) != cases[i].rc)
            fail_msg("%s %s", cases[i].header, cases[i].claims);
    }
    token_keys_free(k);
}

static void any_changed_or_cut_byte_is_refused(void **state)
{
    (void)state;
    struct token_keys *k = keys(SECRET, NULL);
    struct fault f;
    char token[ENTRY_TOKEN_MAX], bad[ENTRY_TOKEN_MAX];
    sign(k, token);
    for (size_t i = 0; i < strlen(token); i++) {
        memcpy(bad, token, sizeof bad);
        bad[i] = bad[i] == 'A' ? 'B' : 'A';
        assert_int_equal(verify(k, bad, NOW, &f), RC_REJECT);
        assert_null(strstr(f.text, token + 60));
        memcpy(bad, token, sizeof bad);
        bad[i] = '\0';
        assert_int_equal(verify(k, bad, NOW, &f), RC_REJECT);
    }
    token_keys_free(k);
}

static void a_secret_can_be_changed_while_old_tokens_live(void **state)
{
    (void)state;
    struct token_keys *old = keys(SECRET, NULL), *both = keys(OTHER, SECRET),
                      *new = keys(OTHER, NULL);
    char before[ENTRY_TOKEN_MAX], after[ENTRY_TOKEN_MAX], kid[TOKEN_KID_LEN + 1];
    struct fault f;
    sign(old, before);
    sign(both, after);
    assert_int_equal(verify(both, before, NOW, &f), 0);
    assert_int_equal(verify(both, after, NOW, &f), 0);
    assert_int_equal(verify(new, after, NOW, &f), 0);
    assert_int_equal(verify(new, before, NOW, &f), RC_REJECT);
    assert_int_equal(verify(old, after, NOW, &f), RC_REJECT);
    token_keys_kid_of(OTHER, kid);
    assert_string_equal(token_keys_kid(both), kid);
    assert_string_not_equal(token_keys_kid(old), kid);
    token_keys_free(old);
    token_keys_free(both);
    token_keys_free(new);
}

static void keys_that_protect_nothing_are_refused(void **state)
{
    (void)state;
    struct token_keys *k = NULL;
    struct fault f;
    assert_int_equal(token_keys_new("short", NULL, &k, &f), RC_FATAL);
    assert_int_equal(token_keys_new(SECRET, "short", &k, &f), RC_FATAL);
    assert_int_equal(token_keys_new(SECRET, SECRET, &k, &f), RC_FATAL);
    assert_null(strstr(f.text, SECRET));
    assert_null(k);
    assert_int_equal(token_keys_new(SECRET, "", &k, &f), 0);
    token_keys_free(k);
    token_keys_free(NULL);
}

static void nothing_odd_is_signed(void **state)
{
    (void)state;
    struct token_keys *k = keys(SECRET, NULL);
    struct fault f;
    char out[ENTRY_TOKEN_MAX], event[66], user[130];
    memset(event, 'e', sizeof event);
    memset(user, 'u', sizeof user);
    event[64] = user[128] = '\0';
    assert_int_equal(
        entry_token_sign(k, event, user, INT64_MAX - 1, INT64_MAX, out, sizeof out, &f), 0);
    assert_int_equal(entry_token_sign(k, "e", "u", NOW, NOW, out, sizeof out, &f), RC_REJECT);
    assert_int_equal(entry_token_sign(k, "e", "u", NOW, NOW + 1, out, 40, &f), RC_REJECT);
    assert_int_equal(entry_token_sign(k, "e\"", "u", NOW, NOW + 1, out, sizeof out, &f), RC_REJECT);
    assert_int_equal(entry_token_sign(k, "e", "u\\", NOW, NOW + 1, out, sizeof out, &f), RC_REJECT);
    assert_int_equal(entry_token_sign(k, "", "u", NOW, NOW + 1, out, sizeof out, &f), RC_REJECT);
    event[64] = user[128] = 'x';
    event[65] = user[129] = '\0';
    assert_int_equal(entry_token_sign(k, event, "u", NOW, NOW + 1, out, sizeof out, &f), RC_REJECT);
    assert_int_equal(entry_token_sign(k, "e", user, NOW, NOW + 1, out, sizeof out, &f), RC_REJECT);
    token_keys_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_good_until_the_slot_ends),
        cmocka_unit_test(is_refused_for_another_event_or_user),
        cmocka_unit_test(strangers_tokens_are_refused),
        cmocka_unit_test(any_changed_or_cut_byte_is_refused),
        cmocka_unit_test(a_secret_can_be_changed_while_old_tokens_live),
        cmocka_unit_test(keys_that_protect_nothing_are_refused),
        cmocka_unit_test(nothing_odd_is_signed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* HMAC-SHA256 against OpenSSL's own, for keys and texts of every length around the block size. */
#include "check.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "runtime/hmac.h"

static void equals_openssls_for_every_length(void **state)
{
    (void)state;
    unsigned char key[200], text[300], ours[HMAC_SHA256_LEN], theirs[EVP_MAX_MD_SIZE];
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (unsigned char)(i * 7 + 1);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 13 + 5);
    for (size_t k = 1; k < sizeof key; k++)
        for (size_t t = 0; t < sizeof text; t += t < 70 ? 1 : 37) {
            unsigned int len = 0;
            assert_non_null(HMAC(EVP_sha256(), key, (int)k, text, t, theirs, &len));
            assert_true(hmac_sha256(key, k, text, t, ours));
            assert_memory_equal(ours, theirs, HMAC_SHA256_LEN);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_openssls_for_every_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

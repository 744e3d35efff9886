/* hmac.c - the two hashes of HMAC, with an algorithm that is looked up once. */
#include "runtime/hmac.h"

#include <pthread.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { BLOCK = 64 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256; /* for the process's life */

static void fetch(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

static bool hash(EVP_MD_CTX *c, const unsigned char *block, const void *text, size_t len,
                 unsigned char out[HMAC_SHA256_LEN])
{
    return EVP_DigestInit_ex2(c, sha256, NULL) == 1 &&
           (!block || EVP_DigestUpdate(c, block, BLOCK) == 1) &&
           EVP_DigestUpdate(c, text, len) == 1 && EVP_DigestFinal_ex(c, out, NULL) == 1;
}

bool hmac_sha256(const void *key, size_t key_len, const void *text, size_t len,
                 unsigned char out[HMAC_SHA256_LEN])
{
    unsigned char block[BLOCK] = {0};
    (void)pthread_once(&once, fetch);
    EVP_MD_CTX *c = sha256 ? EVP_MD_CTX_new() : NULL;
    bool good = c != NULL;
    if (good && key_len > BLOCK)
        good = hash(c, NULL, key, key_len, block);
    else if (good)
        memcpy(block, key, key_len);
    for (size_t i = 0; i < BLOCK; i++)
        block[i] ^= 0x36;
    good = good && hash(c, block, text, len, out);
    for (size_t i = 0; i < BLOCK; i++)
        block[i] ^= 0x36 ^ 0x5c;
    good = good && hash(c, block, out, HMAC_SHA256_LEN, out);
    OPENSSL_cleanse(block, sizeof block);
    EVP_MD_CTX_free(c);
    return good;
}

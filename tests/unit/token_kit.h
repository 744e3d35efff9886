/* token_kit.h - tokens as a stranger would write them: any header, claims, secret and HMAC size. */
#ifndef TOKEN_KIT_H
#define TOKEN_KIT_H
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "runtime/base64.h"
#include "runtime/jwt.h"

enum { KIT_TOKEN_MAX = JWT_MAX_LEN };

/* digest NULL: no signature, as "alg":"none" has it. */
static inline void forge(const EVP_MD *digest, const char *header, const char *claims,
                         const char *secret, char out[KIT_TOKEN_MAX])
{
    unsigned char tag[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    base64_url_encode(header, strlen(header), out);
    strcat(out, ".");
    base64_url_encode(claims, strlen(claims), out + strlen(out));
    if (digest)
        assert_non_null(HMAC(digest, secret, (int)strlen(secret), (const unsigned char *)out,
                             strlen(out), tag, &len));
    strcat(out, ".");
    base64_url_encode(tag, len, out + strlen(out));
}

#endif

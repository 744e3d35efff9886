/* fuzz_jwt.c - any bytes as a token are refused: nobody guesses the signature. The same bytes as
 * claims under a good signature: refused, or verified with exactly these claims. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/identity.h"
#include "runtime/json.h"
#include "runtime/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NOW = 1000 };

static struct jwt_keys *keys;

static void check_token(const char *token)
{
    cJSON *claims = NULL;
    struct identity id;
    struct fault f;
    if (jwt_verify(keys, token, NOW, &claims, &f) != RC_REJECT || claims ||
        identity_of_token(keys, token, NOW, &id, &f) != RC_REJECT)
        abort();
}

static void check_claims(const char *text)
{
    struct fault f;
    struct buf token;
    struct identity id;
    cJSON *claims = NULL, *wanted = NULL;
    buf_init(&token, JWT_MAX_LEN);
    if (jwt_sign(keys, text, &token, &f) == 0) {
        if (json_parse(text, strlen(text), &wanted, &f) != 0)
            abort();
        if (jwt_verify(keys, buf_text(&token), NOW, &claims, &f) == 0 &&
            !cJSON_Compare(claims, wanted, true))
            abort();
        if (identity_of_token(keys, buf_text(&token), NOW, &id, &f) == 0 &&
            !identity_is_user_id(id.user_id))
            abort();
    }
    cJSON_Delete(claims);
    cJSON_Delete(wanted);
    buf_done(&token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!keys && jwt_keys_load("a secret that no fuzzer will ever guess", NULL, JWT_SECRET_TEXT,
                               &keys, NULL) != 0)
        abort();
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_token(text);
    check_claims(text);
    free(text);
    return 0;
}

/* entry_token.c - signed proof that a user holds a slot of an event. */
#include "queue-core/entry_token.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "queue-core/token_keys.h"
#include "runtime/fault.h"
#include "runtime/json.h"

enum { EVENT_MAX = 64, USER_MAX = 128, CLAIMS_MAX = 320 };

int entry_token_sign(const struct token_keys *k, const char *event, const char *user, int64_t iat_s,
                     int64_t exp_s, char *out, size_t cap, struct fault *f)
{
    char claims[CLAIMS_MAX];
    if (!token_keys_id_ok(event, EVENT_MAX) || !token_keys_id_ok(user, USER_MAX))
        return fault_set(f, RC_REJECT, "not an id of an event or a user");
    if (exp_s <= iat_s)
        return fault_set(f, RC_REJECT, "the slot is over");
    int len = snprintf(claims, sizeof claims,
                       "{\"sub\":\"%s\",\"uid\":\"%s\",\"iat\":%" PRId64 ",\"exp\":%" PRId64 "}",
                       event, user, iat_s, exp_s);
    return token_keys_sign(k, claims, (size_t)len, out, cap, f);
}

static const char *claims_fault(const cJSON *claims, const char *user)
{
    const char *uid = json_str(claims, "uid");
    if (json_get(claims, "tier"))
        return "not an entry token";
    return uid && strcmp(uid, user) == 0 ? NULL : "another user's";
}

int entry_token_verify(const struct token_keys *k, const char *token, const char *event,
                       const char *user, int64_t now_s, int64_t *exp_s, struct fault *f)
{
    cJSON *claims = NULL;
    int rc = token_keys_verify(k, token, event, now_s, &claims, f);
    if (rc != 0)
        return rc;
    const char *wrong = claims_fault(claims, user);
    if (!wrong && exp_s)
        (void)json_int(claims, "exp", exp_s); /* there: jwt_verify() has looked at it */
    cJSON_Delete(claims);
    return wrong ? fault_set(f, RC_REJECT, "token refused: %s", wrong) : 0;
}

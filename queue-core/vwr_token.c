/* vwr_token.c - signed proof that a visitor has passed Tier 1. */
#include "queue-core/vwr_token.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "queue-core/signed_number.h"
#include "queue-core/token_keys.h"
#include "runtime/fault.h"
#include "runtime/json.h"

enum { EVENT_MAX = 64, USER_MAX = 128, CLAIMS_MAX = 448 };

int vwr_token_sign(const struct token_keys *k, const char *event, const char *user, int64_t pos,
                   const char *rid, int64_t iat_s, int64_t exp_s, char *out, size_t cap,
                   struct fault *f)
{
    char claims[CLAIMS_MAX];
    if (!token_keys_id_ok(event, EVENT_MAX) || !token_keys_id_ok(user, USER_MAX) ||
        !token_keys_id_ok(rid, SIGNED_NUMBER_LEN))
        return fault_set(f, RC_REJECT, "not an id of an event, a user or a request");
    if (exp_s <= iat_s)
        return fault_set(f, RC_REJECT, "a token must end after its start");
    int len = snprintf(claims, sizeof claims,
                       "{\"sub\":\"%s\",\"uid\":\"%s\",\"tier\":1,\"pos\":%" PRId64
                       ",\"rid\":\"%s\",\"iat\":%" PRId64 ",\"exp\":%" PRId64 "}",
                       event, user, pos, rid, iat_s, exp_s);
    return token_keys_sign(k, claims, (size_t)len, out, cap, f);
}

static bool read_claims(const cJSON *claims, const struct signed_keys *numbers, const char *event,
                        int64_t now_s, struct vwr_claim *out)
{
    struct signed_number n;
    int64_t tier, pos, exp;
    const char *uid = json_str(claims, "uid"), *rid = json_str(claims, "rid");
    if (!uid || !rid || !json_int(claims, "tier", &tier) || tier != 1 ||
        !json_int(claims, "pos", &pos) || !json_int(claims, "exp", &exp) ||
        !token_keys_id_ok(uid, USER_MAX))
        return false;
    if (signed_number_verify(numbers, SIGNED_REQUEST_ID, event, uid, rid, now_s, &n) != 0 ||
        n.number != pos)
        return false;
    *out = (struct vwr_claim){.number = n.number, .epoch = n.epoch, .exp_s = exp};
    return true;
}

int vwr_token_verify(const struct token_keys *k, const struct signed_keys *numbers,
                     const char *token, const char *event, int64_t now_s, struct vwr_claim *out,
                     struct fault *f)
{
    cJSON *claims = NULL;
    int rc = token_keys_verify(k, token, event, now_s, &claims, f);
    if (rc != 0)
        return rc;
    bool good = read_claims(claims, numbers, event, now_s, out);
    cJSON_Delete(claims);
    return good ? 0 : fault_set(f, RC_REJECT, "token refused: not a Tier 1 token of ours");
}

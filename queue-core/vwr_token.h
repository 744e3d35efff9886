/* vwr_token.h - signed proof that a visitor has passed Tier 1, with the number to keep in Tier 2.
 *
 * HS256 with a secret of its own; sub = event, uid = the anonymous id given to assign, tier = 1,
 * pos = the number, rid = the requestId, iat, exp (600 s). Whoever signs in with it need not be
 * called uid: the number goes to the first account that brings it (pos-owner). */
#ifndef VWR_TOKEN_H
#define VWR_TOKEN_H
#include <stddef.h>
#include <stdint.h>

struct fault;
struct signed_keys; /* queue-core/signed_number.h, which wrote the rid */
struct token_keys;  /* queue-core/token_keys.h, of VWR_TOKEN_SECRET */

enum {
    VWR_TOKEN_MAX = 768, /* bytes that hold any of them, with the NUL */
    VWR_TOKEN_TTL_S = 600
};

/* `rid` must be the requestId of that number, event and user. RC_REJECT as in entry_token.h. */
int vwr_token_sign(const struct token_keys *k, const char *event, const char *user, int64_t pos,
                   const char *rid, int64_t iat_s, int64_t exp_s, char *out, size_t cap,
                   struct fault *f);

struct vwr_claim {
    int64_t number, epoch; /* on the event's number line; of the rid, which agrees with pos */
    int64_t exp_s;
};
/* Checks the token and the requestId inside it. RC_REJECT: it opens nothing; *out untouched. */
int vwr_token_verify(const struct token_keys *k, const struct signed_keys *numbers,
                     const char *token, const char *event, int64_t now_s, struct vwr_claim *out,
                     struct fault *f);

#endif

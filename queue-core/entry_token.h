/* entry_token.h - signed proof that a user holds a slot of an event: what the shop asks for.
 *
 * HS256; sub = event, uid = user, iat, exp = the slot's end and never later. A token with `tier` in
 * it is a Tier 1 token and no entry, whoever signed it. */
#ifndef ENTRY_TOKEN_H
#define ENTRY_TOKEN_H
#include <stddef.h>
#include <stdint.h>

struct fault;
struct token_keys; /* queue-core/token_keys.h, of QUEUE_ENTRY_TOKEN_SECRET */

enum { ENTRY_TOKEN_MAX = 512 }; /* bytes that hold any of them, with the NUL */

/* exp_s: the end of the slot in whole seconds, rounded down by the caller. RC_REJECT: an id that is
 * none, exp_s not after iat_s, or cap too small; *out undefined. */
int entry_token_sign(const struct token_keys *k, const char *event, const char *user, int64_t iat_s,
                     int64_t exp_s, char *out, size_t cap, struct fault *f);

/* Checks form, algorithm, kid, signature, exp, and that it is this user's for this event.
 * RC_REJECT: no entry; *f says why without the token. *exp_s (may be NULL) is written only on 0. */
int entry_token_verify(const struct token_keys *k, const char *token, const char *event,
                       const char *user, int64_t now_s, int64_t *exp_s, struct fault *f);

#endif

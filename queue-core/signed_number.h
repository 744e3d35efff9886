/* signed_number.h - a number on an event's line that its owner carries, so that nobody has to keep
 * it.
 *
 * Tier 1's requestId and Tier 2's place are the same thing for different rooms: epoch, number and
 * time of issue, under a MAC that also covers the kind, the event and the user. Text:
 * k.epoch.number.issued.mac, the numbers in base 36, the MAC 16 bytes of HMAC-SHA256 in Base64url.
 */
#ifndef SIGNED_NUMBER_H
#define SIGNED_NUMBER_H
#include <stdint.h>

struct fault;

enum signed_kind { SIGNED_REQUEST_ID, SIGNED_PLACE };

enum { SIGNED_NUMBER_LEN = 72, SIGNED_NUMBER_LIFE_S = 86400 };

/* Two keys, so that a secret can be changed while old numbers live. Caller's memory; wiped by done.
 */
struct signed_keys {
    unsigned char current[32];
    unsigned char previous[32];
    int has_previous;
};
/* Derived from a daemon's secret for this one purpose. `previous` may be NULL. RC_FATAL: OpenSSL.
 */
int signed_keys_init(struct signed_keys *k, const char *secret, const char *previous,
                     struct fault *f);
void signed_keys_done(struct signed_keys *k);

struct signed_number {
    int64_t epoch;
    int64_t number;
    int64_t issued_s; /* wall clock */
};

/* Writes the text and a NUL. Numbers must not be negative. */
void signed_number_encode(const struct signed_keys *k, enum signed_kind kind, const char *event,
                          const char *user, const struct signed_number *n,
                          char out[SIGNED_NUMBER_LEN + 1]);

/* RC_REJECT: not ours, another event's or user's, older than a day, or from the future; *out
 * untouched. */
int signed_number_verify(const struct signed_keys *k, enum signed_kind kind, const char *event,
                         const char *user, const char *text, int64_t now_s,
                         struct signed_number *out);

#endif

/* urr_entry.h - for ticket services: may this user buy for this event now?
 *
 *   struct urr_entry *e;
 *   char why[URR_ENTRY_ERROR];
 *   if (urr_entry_open(getenv("QUEUE_ENTRY_TOKEN_SECRET"), NULL, &e, why)) …
 *   if (urr_entry_verify(e, token, event_id, user_id, 0, NULL, why)) …  // answer 403
 *   urr_entry_close(e);
 *
 * The token is the request's header x-queue-entry-token, else its cookie urr-entry-token. The user
 * is the one your own sign-in says: a token shown by somebody else is refused. Verifies only; any
 * number of threads may use one struct urr_entry. */
#ifndef URR_ENTRY_H
#define URR_ENTRY_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URR_ENTRY_API __attribute__((visibility("default")))

struct urr_entry;

enum { URR_ENTRY_ERROR = 192 }; /* size of `why`: one sentence, written on failure; may be NULL */
enum {
    URR_ENTRY_REFUSED = -2, /* not an entry: answer 403 and send the user to the queue */
    URR_ENTRY_BROKEN = -3   /* a secret that is none, or no memory */
};

/* The secret as urr-queue has it in QUEUE_ENTRY_TOKEN_SECRET (32..1024 bytes). `previous`: the
 * other one that counts while the secret is being changed, or NULL. Copies both. */
URR_ENTRY_API int urr_entry_open(const char *secret, const char *previous, struct urr_entry **out,
                                 char *why);

/* 0: let in, until *expires_s (epoch seconds; may be NULL; written on 0 only). now_s: the time in
 * epoch seconds, 0 for the system's. NULL for token, event or user is refused. `why` holds nothing
 * of the token and may be logged. */
URR_ENTRY_API int urr_entry_verify(const struct urr_entry *e, const char *token,
                                   const char *event_id, const char *user_id, int64_t now_s,
                                   int64_t *expires_s, char *why);

URR_ENTRY_API void urr_entry_close(struct urr_entry *e); /* wipes the secrets; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif

/* urr_entry.c - entry_token.h for the world outside. */
#include "queue-core/urr_entry.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "queue-core/entry_token.h"
#include "queue-core/token_keys.h"
#include "runtime/fault.h"

/* struct urr_entry is never defined: the pointer is that of the keys. */
static const struct token_keys *keys_of(const struct urr_entry *e)
{
    return (const struct token_keys *)(const void *)e;
}

static int tell(const struct fault *f, int code, char *why)
{
    if (why)
        (void)snprintf(why, URR_ENTRY_ERROR, "%s", f->text);
    return code;
}

int urr_entry_open(const char *secret, const char *previous, struct urr_entry **out, char *why)
{
    struct token_keys *keys = NULL;
    struct fault f = {0};
    if (token_keys_new(secret ? secret : "", previous, &keys, &f) != 0)
        return tell(&f, URR_ENTRY_BROKEN, why);
    *out = (struct urr_entry *)(void *)keys;
    return 0;
}

int urr_entry_verify(const struct urr_entry *e, const char *token, const char *event_id,
                     const char *user_id, int64_t now_s, int64_t *expires_s, char *why)
{
    struct fault f = {0};
    int64_t now = now_s != 0 ? now_s : (int64_t)time(NULL);
    if (!token || !token[0] || !event_id || !user_id) {
        (void)fault_set(&f, RC_REJECT, "no entry token, event or user");
        return tell(&f, URR_ENTRY_REFUSED, why);
    }
    if (entry_token_verify(keys_of(e), token, event_id, user_id, now, expires_s, &f) != 0)
        return tell(&f, URR_ENTRY_REFUSED, why);
    return 0;
}

void urr_entry_close(struct urr_entry *e)
{
    token_keys_free((struct token_keys *)(void *)e);
}

/* identity_cache.c - one slot per hash, the newest token wins. */
#include "queue-core/identity_cache.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "runtime/fault.h"
#include "runtime/identity.h"

struct slot {
    size_t len;
    int64_t exp_s;
    bool admin;
    char role[IDENTITY_MAX_ROLE + 1];
    char *text; /* user's id, NUL, e-mail, NUL, token */
};

struct identity_cache {
    uint64_t seed[2];
    struct slot slots[IDENTITY_CACHE_ENTRIES];
};

int identity_cache_new(struct identity_cache **out, struct fault *f)
{
    struct identity_cache *c = calloc(1, sizeof *c);
    if (!c || RAND_bytes((unsigned char *)c->seed, sizeof c->seed) != 1) {
        free(c);
        return fault_set(f, RC_FATAL, "no memory for verified tokens");
    }
    *out = c;
    return 0;
}

static void empty(struct slot *s)
{
    if (s->text) {
        char *token = strchr(strchr(s->text, '\0') + 1, '\0') + 1;
        OPENSSL_cleanse(token, s->len);
    }
    free(s->text);
    s->text = NULL;
}

void identity_cache_free(struct identity_cache *c)
{
    for (size_t i = 0; c && i < IDENTITY_CACHE_ENTRIES; i++)
        empty(&c->slots[i]);
    free(c);
}

/* The signature's end is as good as random; the seed keeps slots from being chosen. */
static size_t slot_of(const struct identity_cache *c, const char *token, size_t len)
{
    uint64_t hash = c->seed[0], word;
    for (size_t i = len > 40 ? len - 40 : 0; i + sizeof word <= len; i += sizeof word) {
        memcpy(&word, token + i, sizeof word);
        hash = (hash ^ word) * (c->seed[1] | 1);
        hash ^= hash >> 29;
    }
    return (size_t)(hash >> 17) % IDENTITY_CACHE_ENTRIES;
}

bool identity_cache_find(const struct identity_cache *c, const char *token, int64_t now_s,
                         struct identity *out)
{
    size_t len = strnlen(token, IDENTITY_CACHE_TOKEN_MAX + 1);
    const struct slot *s = &c->slots[slot_of(c, token, len)];
    if (!s->text || s->len != len || s->exp_s <= now_s)
        return false;
    const char *user = s->text, *email = user + strlen(user) + 1;
    if (CRYPTO_memcmp(email + strlen(email) + 1, token, len) != 0)
        return false;
    memcpy(out->user_id, user, strlen(user) + 1);
    memcpy(out->email, email, strlen(email) + 1);
    memcpy(out->role, s->role, sizeof out->role);
    out->exp_s = s->exp_s;
    out->admin = s->admin;
    out->from_cookie = false;
    return true;
}

void identity_cache_add(struct identity_cache *c, const char *token, const struct identity *id)
{
    size_t len = strnlen(token, IDENTITY_CACHE_TOKEN_MAX + 1);
    size_t user = strlen(id->user_id) + 1, email = strlen(id->email) + 1;
    if (len > IDENTITY_CACHE_TOKEN_MAX)
        return;
    struct slot *s = &c->slots[slot_of(c, token, len)];
    char *text = malloc(user + email + len + 1);
    if (!text)
        return;
    memcpy(text, id->user_id, user);
    memcpy(text + user, id->email, email);
    memcpy(text + user + email, token, len + 1);
    empty(s);
    *s = (struct slot){.len = len, .exp_s = id->exp_s, .admin = id->admin, .text = text};
    memcpy(s->role, id->role, sizeof s->role);
}

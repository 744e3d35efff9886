/* redis_script.c - Lua scripts by their SHA-1, and the slot rule that a cluster would enforce. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "runtime/embed.h"
#include "runtime/fault.h"
#include "runtime/redis_private.h"

void redis_script_init(struct redis_script *s, const char *name, const char *source, size_t len)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int digest_len = 0;
    *s = (struct redis_script){.name = name, .source = source, .len = len};
    /* Without SHA-1 (a strict FIPS provider) the SHA stays all zero: Redis knows no such script,
     * and every call is sent in full. Slow, but right. */
    memset(s->sha1, '0', sizeof s->sha1 - 1);
    if (EVP_Digest(source, len, digest, &digest_len, EVP_sha1(), NULL) != 1)
        return;
    for (size_t i = 0; i < 20; i++)
        (void)snprintf(s->sha1 + 2 * i, 3, "%02x", digest[i]);
}

int redis_script_load(struct redis_script *s, const struct embed_file *table, const char *name,
                      struct fault *f)
{
    const struct embed_file *file = embed_find(table, name);
    if (!file)
        return fault_set(f, RC_FATAL, "the program holds no script %s", name);
    redis_script_init(s, file->name, file->data, embed_len(file));
    return 0;
}

/* CRC-16/XMODEM, bit by bit: keys are short, and only test builds come here for each command. */
static uint16_t crc16(const char *data, size_t len)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc = (uint16_t)(crc ^ (uint16_t)((unsigned char)data[i] << 8));
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
    return crc;
}

uint16_t redis_slot(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    if (open) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', len - (size_t)(tag - key));
        if (close && close > tag) /* {} is no tag */
            return crc16(tag, (size_t)(close - tag)) % 16384;
    }
    return crc16(key, len) % 16384;
}

#ifdef URR_TEST_HOOKS
static int check_slots(const struct redis_script *s, const char *routing_key,
                       const struct redis_arg *keys, struct fault *f)
{
    if (!routing_key)
        return 0;
    uint16_t slot = redis_slot(routing_key, strlen(routing_key));
    for (; keys && keys->kind == REDIS_ARG_BYTES && keys->data; keys++) {
        size_t len = keys->len == SIZE_MAX ? strlen(keys->data) : keys->len;
        if (redis_slot(keys->data, len) != slot)
            return fault_set(f, RC_REJECT, "script %s: key %.*s is not in the slot of %s", s->name,
                             (int)len, keys->data, routing_key);
    }
    return 0;
}
#endif

int redis_eval(struct redis *r, const struct redis_script *s, const char *routing_key,
               const struct redis_arg *keys, const struct redis_arg *args, int64_t timeout_ms,
               redis_fn fn, void *arg, struct fault *f)
{
#ifdef URR_TEST_HOOKS
    int rc = check_slots(s, routing_key, keys, f);
    if (rc)
        return rc;
#else
    (void)routing_key; /* one server: every key lives there */
    int rc;
#endif
    struct redis_call *call;
    rc = redis_frame_build(&(struct redis_frame_parts){s, keys, args}, r->options.max_command_bytes,
                           &call, f);
    return rc ? rc : redis_call_submit(r, call, timeout_ms, fn, arg, f);
}

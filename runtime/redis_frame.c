/* redis_frame.c - arguments to bytes: one allocation holds a call and its frame. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/redis_private.h"

enum { NUMBER_MAX = 24 }; /* digits of an int64_t, sign and NUL */

struct text {
    const char *data;
    size_t len;
};

/* The argument as bytes; numbers are written to `scratch`. data is NULL for a NULL string. */
static struct text text_of(const struct redis_arg *arg, char scratch[NUMBER_MAX])
{
    static const char no_run_id[] = "0000000000000000000000000000000000000000";
    switch (arg->kind) {
    case REDIS_ARG_INT:
        return (struct text){scratch, (size_t)snprintf(scratch, NUMBER_MAX, "%" PRId64, arg->num)};
    case REDIS_ARG_RUN_ID:
        return (struct text){no_run_id, REDIS_RUN_ID_LEN};
    case REDIS_ARG_BYTES:
    case REDIS_ARG_END:
    default:
        if (!arg->data)
            return (struct text){arg->len == 0 ? "" : NULL, 0};
        return (struct text){arg->data, arg->len == SIZE_MAX ? strlen(arg->data) : arg->len};
    }
}

static size_t digits(size_t n)
{
    size_t count = 1;
    for (; n >= 10; n /= 10)
        count++;
    return count;
}

static size_t bulk_size(size_t len)
{
    return 1 + digits(len) + 2 + len + 2; /* $len\r\n data \r\n */
}

/* Adds the count and size of a list. False: one of its arguments is NULL. */
static bool measure(const struct redis_arg *list, uint32_t *count, size_t *size)
{
    char scratch[NUMBER_MAX];
    for (; list && list->kind != REDIS_ARG_END; list++) {
        struct text t = text_of(list, scratch);
        if (!t.data)
            return false;
        (*count)++;
        *size += bulk_size(t.len);
    }
    return true;
}

static char *put_number(char *to, char mark, size_t n)
{
    *to++ = mark;
    size_t count = digits(n);
    for (size_t i = count; i-- > 0; n /= 10)
        to[i] = (char)('0' + n % 10);
    to += count;
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

static char *put_bulk(char *to, struct text t)
{
    to = put_number(to, '$', t.len);
    memcpy(to, t.data, t.len);
    to += t.len;
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

static char *put_list(struct redis_call *call, char *to, const struct redis_arg *list)
{
    char scratch[NUMBER_MAX];
    for (; list && list->kind != REDIS_ARG_END; list++) {
        to = put_bulk(to, text_of(list, scratch));
        if (list->kind == REDIS_ARG_RUN_ID)
            call->run_id_at = (uint32_t)(to - call->frame) - REDIS_RUN_ID_LEN - 2;
    }
    return to;
}

/* "*parts", EVALSHA, the SHA-1 */
static char *put_evalsha(char *to, uint32_t parts, const struct redis_script *script)
{
    to = put_number(to, '*', parts);
    to = put_bulk(to, (struct text){"EVALSHA", 7});
    return put_bulk(to, (struct text){script->sha1, 40});
}

int redis_frame_build(const struct redis_frame_parts *parts, size_t max_bytes,
                      struct redis_call **out, struct fault *f)
{
    uint32_t keys = 0;
    uint32_t count = 0;
    size_t size = 0;
    if (!measure(parts->keys, &keys, &size) || !measure(parts->args, &count, &size))
        return fault_set(f, RC_REJECT, "a Redis command with a NULL argument");
    count += keys;
    struct text key_count = {NULL, 0};
    char scratch[NUMBER_MAX];
    if (parts->script) {
        key_count = text_of(&REDIS_INT(keys), scratch);
        count += 3;
        size += bulk_size(7) + bulk_size(40) + bulk_size(key_count.len);
    }
    size += 1 + digits(count) + 2;
    if (count == 0 || size > max_bytes)
        return fault_set(f, RC_REJECT, "a Redis command of %zu bytes; the limit is %zu", size,
                         max_bytes);
    struct redis_call *call = malloc(sizeof *call + size + 1);
    if (!call)
        return fault_set(f, RC_RETRY, "no memory for a Redis command");
    memset(call, 0, sizeof *call);
    char *to = call->frame;
    if (parts->script) {
        to = put_evalsha(to, count, parts->script);
        call->body_at = (uint32_t)(to - call->frame);
        to = put_bulk(to, key_count);
    } else {
        to = put_number(to, '*', count);
    }
    to = put_list(call, to, parts->keys);
    to = put_list(call, to, parts->args);
    call->script = parts->script;
    call->parts = count;
    call->frame_len = (uint32_t)(to - call->frame);
    *to = '\0'; /* hiredis looks for (un)subscribe with strchr() */
    *out = call;
    return 0;
}

char *redis_frame_eval(const struct redis_call *call, size_t *out_len)
{
    const struct redis_script *s = call->script;
    size_t rest = call->frame_len - call->body_at;
    size_t size = 1 + digits(call->parts) + 2 + bulk_size(4) + bulk_size(s->len) + rest;
    char *frame = malloc(size + 1);
    if (!frame)
        return NULL;
    char *to = put_number(frame, '*', call->parts);
    to = put_bulk(to, (struct text){"EVAL", 4});
    to = put_bulk(to, (struct text){s->source, s->len});
    memcpy(to, call->frame + call->body_at, rest + 1);
    *out_len = size;
    return frame;
}

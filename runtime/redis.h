/* redis.h - an asynchronous Redis client on the loop: pipelined, bounded, with deadlines.
 *
 * Commands issued in one round of the loop travel in one write. Each accepted command's callback
 * fires exactly once, never from inside the call that issued it: with the reply, or with the reason
 * why there is none (past its deadline, connection lost, client closed). A command that waits for a
 * connection is sent as soon as there is one; a command that was sent is never sent again, because
 * nobody knows whether it was executed: the caller decides.
 *
 * Between accepted commands the order is kept, with one exception: a script that Redis did not know
 * (NOSCRIPT) runs after what was pipelined behind it.
 *
 * A client belongs to one loop and its thread. One server, or later a cluster behind the same
 * calls: hence the routing key with each command. */
#ifndef REDIS_H
#define REDIS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/metrics.h"

struct embed_file;
struct fault;
struct loop;
struct redis;
struct redisReply; /* <hiredis/hiredis.h>; redis_reply_*() below are enough for most callers */

enum redis_state {
    REDIS_DOWN,    /* no connection; attempts go on with backoff */
    REDIS_REFUSED, /* the same, but an operator must act: wrong password, a cluster, a replica */
    REDIS_UNSAFE,  /* serving, but `require_durable` does not hold */
    REDIS_UP
};

/* Fires on each change of state or reason; `reason` is "" when up, else one plain sentence. */
typedef void (*redis_state_fn)(enum redis_state state, const char *reason, void *arg);

struct redis_options { /* 0 = the default in brackets */
    const char *url;   /* redis://[[user]:password@]host[:port][/db], percent-encoded; copied */
    uint32_t max_in_flight;      /* [4096] accepted and not yet answered, timed-out ones included */
    uint32_t max_command_bytes;  /* [1048576] longer ones are refused */
    uint32_t connect_timeout_ms; /* [2000] from the connection's start to its greeting */
    uint32_t stall_ms;           /* [2000] silence for so long, with a command past its deadline:
                                  * the connection is dropped and made anew */
    uint32_t probe_ms;           /* [1000] a PING this often finds out about silent servers */
    uint32_t backoff_max_ms;     /* [2000] between connection attempts */
    bool require_durable; /* REDIS_UNSAFE unless `appendonly yes` and `maxmemory-policy noeviction`
                           */
    redis_state_fn on_state; /* may be NULL */
    void *arg;
};

/* Starts connecting and returns. RC_REJECT: the URL is no good (*f says why; never the password).
 */
int redis_open(struct loop *l, const struct redis_options *o, struct redis **out, struct fault *f);

/* Every outstanding callback fires (REDIS_CLOSED) before this returns; none after it, on_state
 * included. Fine inside a callback of the same client. Accepts NULL. */
void redis_close(struct redis *r);

enum redis_state redis_state(const struct redis *r);
/* The run_id of the server connected last, 40 hex digits; "" before the first connection. */
const char *redis_run_id(const struct redis *r);
uint32_t redis_in_flight(const struct redis *r);
/* How long a refused caller should wait before the next try, for Retry-After. At least 1. */
int64_t redis_retry_after_ms(const struct redis *r);

/* Arguments: REDIS_ARGS(REDIS_STR("ZADD"), REDIS_STR(key), REDIS_INT(score), REDIS_BYTES(id, 16)).
 * Everything is copied before the call returns. */
enum redis_arg_kind { REDIS_ARG_END, REDIS_ARG_BYTES, REDIS_ARG_INT, REDIS_ARG_RUN_ID };
struct redis_arg {
    enum redis_arg_kind kind;
    const char *data; /* NULL with kind BYTES and length SIZE_MAX: refused, see REDIS_STR */
    size_t len;       /* SIZE_MAX: data is a C string */
    int64_t num;
};
#define REDIS_STR(s) ((struct redis_arg){REDIS_ARG_BYTES, (s), SIZE_MAX, 0})
#define REDIS_BYTES(p, n) ((struct redis_arg){REDIS_ARG_BYTES, (p), (n), 0})
#define REDIS_INT(n) ((struct redis_arg){REDIS_ARG_INT, NULL, 0, (int64_t)(n)})
/* The run_id of the server that executes the command, also when it waited for another connection.
 */
#define REDIS_RUN_ID ((struct redis_arg){REDIS_ARG_RUN_ID, NULL, 0, 0})
#define REDIS_END ((struct redis_arg){REDIS_ARG_END, NULL, 0, 0})
#define REDIS_ARGS(...) ((const struct redis_arg[]){__VA_ARGS__, REDIS_END})
#define REDIS_KEYS(...) REDIS_ARGS(__VA_ARGS__)

enum redis_outcome {
    REDIS_ANSWERED, /* rc 0 */
    REDIS_ERROR, /* an error reply: RC_REJECT, or RC_RETRY for passing ones (LOADING, BUSY, OOM …)
                  */
    REDIS_TIMED_OUT, /* RC_RETRY; it may have been executed, or may still be */
    REDIS_LOST,      /* RC_RETRY; the connection broke: it may have been executed */
    REDIS_CLOSED     /* RC_RETRY; redis_close() */
};

struct redis_result {
    int rc;
    enum redis_outcome outcome;
    const struct redisReply
        *reply;       /* ANSWERED and ERROR, for the time of the callback; else NULL */
    const char *text; /* what went wrong; "" when rc is 0 */
};
typedef void (*redis_fn)(const struct redis_result *res, void *arg);

/* 0: accepted, fn will fire once. Otherwise fn never fires: RC_RETRY (max_in_flight reached,
 * breaker open, no memory) or RC_REJECT (too long, a NULL argument, a command that does not belong
 * here such as SUBSCRIBE). `routing_key` is a key of the command, NULL for commands without one. */
int redis_command(struct redis *r, const char *routing_key, const struct redis_arg *args,
                  int64_t timeout_ms, redis_fn fn, void *arg, struct fault *f);

/* A Lua script: EVALSHA, and EVAL once where Redis does not know it. The source is borrowed for as
 * long as the script is used; scripts may be shared by clients and threads. */
struct redis_script {
    const char *name;
    const char *source;
    size_t len;
    char sha1[41];
};
void redis_script_init(struct redis_script *s, const char *name, const char *source, size_t len);
/* From an embedded file; RC_FATAL when the table has none of that name. */
int redis_script_load(struct redis_script *s, const struct embed_file *table, const char *name,
                      struct fault *f);

/* Every key the script touches is in `keys` (NULL: none), and all live in routing_key's slot: test
 * builds refuse others with RC_REJECT, since a cluster would. Otherwise as redis_command(). */
int redis_eval(struct redis *r, const struct redis_script *s, const char *routing_key,
               const struct redis_arg *keys, const struct redis_arg *args, int64_t timeout_ms,
               redis_fn fn, void *arg, struct fault *f);

/* The cluster slot of a key: CRC16 of its {hash tag}, or of all of it. */
uint16_t redis_slot(const char *key, size_t len);

/* Reading replies. All accept NULL. False or NULL when it is of another type; *out untouched. */
bool redis_reply_int(const struct redisReply *reply, int64_t *out); /* integer, or text of one */
const char *redis_reply_str(const struct redisReply *reply, size_t *out_len); /* string, status */
bool redis_reply_is_nil(const struct redisReply *reply);
size_t redis_reply_count(const struct redisReply *reply); /* of an array; else 0 */
const struct redisReply *redis_reply_at(const struct redisReply *reply, size_t i);

extern const struct metric_def REDIS_METRICS[];
extern const size_t REDIS_METRICS_COUNT;

#endif

/* redis.c - the client's life: greeting, state, probes, closing. */
#include "runtime/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/metrics.h"
#include "runtime/redis_private.h"

enum {
    MAX_IN_FLIGHT = 4096,
    MAX_COMMAND_BYTES = 1024 * 1024,
    CONNECT_TIMEOUT_MS = 2000,
    STALL_MS = 2000,
    PROBE_MS = 1000,
    BACKOFF_BASE_MS = 50,
    BACKOFF_MAX_MS = 2000,
    INTERNAL_CALLS = 16,   /* room on the wire for the greeting and a probe */
    INFO_EVERY_PROBES = 10 /* durability may change while we are connected */
};

/* What INFO says of the server. */
struct server_facts {
    char run_id[REDIS_RUN_ID_LEN + 1];
    bool run_id_known, cluster, replica, loading, durable;
};

void redis_hold(struct redis *r)
{
    r->refs++;
}

static void destroy(struct redis *r)
{
    loop_timer_free(r->deadline_timer);
    loop_timer_free(r->probe_timer);
    redis_link_done(&r->link);
    free(r->wire);
    free(r);
}

void redis_release(struct redis *r)
{
    if (--r->refs == 0)
        destroy(r);
}

void redis_watch_breaker(struct redis *r)
{
    bool tripped = r->breaker.state != BREAKER_CLOSED;
    if (tripped == r->breaker_counted)
        return;
    r->breaker_counted = tripped;
    metric_gauge_add(redis_series()->breakers, tripped ? 1 : -1);
}

static void count_connection(struct redis *r, bool up)
{
    if (up == r->connection_counted)
        return;
    r->connection_counted = up;
    metric_gauge_add(redis_series()->connections, up ? 1 : -1);
}

/* Last in its caller, or followed by nothing that needs an open client: the callback may close it.
 */
static void set_state(struct redis *r, enum redis_state state, const char *reason)
{
    if (r->closing || (r->state == state && strcmp(r->reason, reason) == 0))
        return;
    r->state = state;
    (void)snprintf(r->reason, sizeof r->reason, "%s", reason);
    if (r->options.on_state)
        r->options.on_state(state, r->reason, r->options.arg);
}

/* The server is there but not one we may use: an operator has to look. */
static void refuse(struct redis *r, const char *why)
{
    char reason[REDIS_REASON_MAX];
    (void)snprintf(reason, sizeof reason, "%s:%u: %s", r->link.url.host, r->link.url.port, why);
    r->refused = true;
    redis_link_drop(&r->link, reason);
}

/* The value behind "\nname:", up to the line's end. */
static bool info_field(const char *info, const char *name, char *out, size_t size)
{
    size_t name_len = strlen(name);
    for (const char *line = info; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, name_len) != 0 || line[name_len] != ':')
            continue;
        const char *value = line + name_len + 1;
        size_t len = strcspn(value, "\r\n");
        if (len >= size)
            return false;
        memcpy(out, value, len);
        out[len] = '\0';
        return true;
    }
    return false;
}

static bool info_is(const char *info, const char *name, const char *wanted)
{
    char value[64];
    return info_field(info, name, value, sizeof value) && strcmp(value, wanted) == 0;
}

static struct server_facts read_info(const char *info)
{
    struct server_facts facts = {.cluster = info_is(info, "cluster_enabled", "1"),
                                 .replica = info_is(info, "role", "slave"),
                                 .loading = info_is(info, "loading", "1"),
                                 .durable = info_is(info, "aof_enabled", "1") &&
                                            info_is(info, "maxmemory_policy", "noeviction")};
    facts.run_id_known = info_field(info, "run_id", facts.run_id, sizeof facts.run_id) &&
                         strlen(facts.run_id) == REDIS_RUN_ID_LEN;
    return facts;
}

static void set_serving(struct redis *r, const struct server_facts *facts)
{
    if (r->options.require_durable && !facts->durable)
        set_state(r, REDIS_UNSAFE,
                  "Redis may forget: it needs `appendonly yes` and `maxmemory-policy noeviction`");
    else
        set_state(r, REDIS_UP, "");
}

static void begin_serving(struct redis *r, const struct server_facts *facts)
{
    memcpy(r->run_id, facts->run_id, sizeof r->run_id);
    r->refused = false;
    r->probes = 0;
    r->probing = false;
    redis_link_ready(&r->link);
    breaker_close(&r->breaker);
    redis_watch_breaker(r);
    count_connection(r, true);
    if (r->connected_once)
        metric_add(redis_series()->reconnects, 1);
    r->connected_once = true;
    loop_timer_start(r->probe_timer, r->options.probe_ms, r->options.probe_ms);
    redis_hold(r);
    set_serving(r, facts);
    redis_call_send_waiting(r);
    redis_release(r);
}

/* The answers of the greeting arrive in order; the first that is bad ends the connection, and the
 * rest is settled as lost, which needs no further action. */
static void on_greeted(const struct redis_result *res, void *arg)
{
    struct redis *r = arg;
    if (res->outcome == REDIS_ERROR) {
        char why[192];
        (void)snprintf(why, sizeof why, "refuses our login or database: %s", res->text);
        refuse(r, why);
    }
}

static void on_first_info(const struct redis_result *res, void *arg)
{
    struct redis *r = arg;
    const char *info = redis_reply_str(res->reply, NULL);
    if (res->outcome == REDIS_ERROR) {
        char why[192];
        (void)snprintf(why, sizeof why, "refuses INFO: %s", res->text);
        refuse(r, why);
        return;
    }
    if (!info)
        return; /* lost or timed out: the link knows */
    struct server_facts facts = read_info(info);
    if (facts.cluster)
        refuse(r, "is a Redis Cluster node, which is not supported yet: give one plain server");
    else if (facts.replica)
        refuse(r, "is a replica: give the primary");
    else if (facts.loading)
        redis_link_drop(&r->link, "Redis is still loading its data");
    else if (!facts.run_id_known)
        refuse(r, "does not tell its run_id in INFO");
    else
        begin_serving(r, &facts);
}

static void on_probed(const struct redis_result *res, void *arg)
{
    struct redis *r = arg;
    r->probing = false;
    const char *info = redis_reply_str(res->reply, NULL);
    if (res->outcome != REDIS_ANSWERED || !info || strcmp(info, "PONG") == 0)
        return;
    struct server_facts facts = read_info(info);
    if (facts.replica)
        refuse(r, "has become a replica");
    else if (r->link.state == LINK_READY)
        set_serving(r, &facts);
}

static void on_probe(void *arg)
{
    struct redis *r = arg;
    if (r->link.state != LINK_READY || r->probing)
        return;
    r->probing = true;
    bool ask = ++r->probes % INFO_EVERY_PROBES == 0 || r->state == REDIS_UNSAFE;
    redis_call_internal(r, REDIS_ARGS(REDIS_STR(ask ? "INFO" : "PING")), r->options.probe_ms,
                        on_probed);
}

static void on_open(void *arg)
{
    struct redis *r = arg;
    const struct redis_url *url = &r->link.url;
    int64_t timeout_ms = r->options.connect_timeout_ms;
    if (url->user[0])
        redis_call_internal(
            r, REDIS_ARGS(REDIS_STR("AUTH"), REDIS_STR(url->user), REDIS_STR(url->password)),
            timeout_ms, on_greeted);
    else if (url->password[0])
        redis_call_internal(r, REDIS_ARGS(REDIS_STR("AUTH"), REDIS_STR(url->password)), timeout_ms,
                            on_greeted);
    if (url->db)
        redis_call_internal(r, REDIS_ARGS(REDIS_STR("SELECT"), REDIS_INT(url->db)), timeout_ms,
                            on_greeted);
    redis_call_internal(r, REDIS_ARGS(REDIS_STR("INFO")), timeout_ms, on_first_info);
}

static void on_down(const char *reason, void *arg)
{
    struct redis *r = arg;
    int64_t now_ms = loop_now_ms(r->loop);
    loop_timer_stop(r->probe_timer);
    count_connection(r, false);
    uint32_t ticket = breaker_enter(&r->breaker, now_ms);
    if (ticket)
        breaker_leave(&r->breaker, ticket, BREAKER_NO_CONNECTION, 0, now_ms);
    redis_watch_breaker(r);
    redis_call_lose_wire(r);
    set_state(r, r->refused ? REDIS_REFUSED : REDIS_DOWN, reason);
    r->refused = false;
    redis_call_run_settled(r);
}

static void on_reply(struct redisReply *reply, void *arg)
{
    redis_call_on_reply(arg, reply);
}

static void hold(void *arg)
{
    redis_hold(arg);
}

static void release(void *arg)
{
    redis_release(arg);
}

static const struct redis_link_owner OWNER = {on_open, on_reply, on_down, hold, release};

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static void set_options(struct redis *r, const struct redis_options *o)
{
    r->options = *o;
    r->options.url = NULL;
    r->options.max_in_flight = or_default(o->max_in_flight, MAX_IN_FLIGHT);
    r->options.max_command_bytes = or_default(o->max_command_bytes, MAX_COMMAND_BYTES);
    r->options.connect_timeout_ms = or_default(o->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    r->options.stall_ms = or_default(o->stall_ms, STALL_MS);
    r->options.probe_ms = or_default(o->probe_ms, PROBE_MS);
    r->options.backoff_max_ms = or_default(o->backoff_max_ms, BACKOFF_MAX_MS);
    r->wire_cap = 1;
    while (r->wire_cap < r->options.max_in_flight + INTERNAL_CALLS)
        r->wire_cap *= 2;
}

int redis_open(struct loop *l, const struct redis_options *o, struct redis **out, struct fault *f)
{
    struct redis_url url;
    int rc = redis_url_parse(o->url, &url, f);
    if (rc)
        return rc;
    if (o->max_in_flight > 1U << 20)
        return fault_set(f, RC_REJECT, "max_in_flight above a million");
    struct redis *r = calloc(1, sizeof *r);
    if (!r)
        return fault_set(f, RC_FATAL, "no memory for a Redis client");
    r->loop = l;
    r->refs = 1;
    set_options(r, o);
    breaker_init(&r->breaker, &BREAKER_CONNECTION_RULES);
    r->wire = calloc(r->wire_cap, sizeof *r->wire);
    rc = r->wire ? 0 : fault_set(f, RC_FATAL, "no memory for a Redis client");
    if (!rc)
        rc = redis_link_init(&r->link, l, &url, &OWNER, r, f);
    if (!rc)
        rc = loop_timer_new(l, redis_call_on_deadline, r, &r->deadline_timer, f);
    if (!rc)
        rc = loop_timer_new(l, on_probe, r, &r->probe_timer, f);
    explicit_bzero(&url, sizeof url);
    if (rc) {
        destroy(r);
        return rc;
    }
    r->link.connect_timeout_ms = r->options.connect_timeout_ms;
    backoff_init(&r->link.backoff, BACKOFF_BASE_MS, r->options.backoff_max_ms, 0);
    redis_link_start(&r->link);
    *out = r;
    return 0;
}

void redis_close(struct redis *r)
{
    if (!r || r->closing)
        return;
    r->closing = true;
    loop_timer_stop(r->deadline_timer);
    loop_timer_stop(r->probe_timer);
    redis_link_done(&r->link);
    redis_call_close_all(r);
    count_connection(r, false);
    breaker_close(&r->breaker);
    redis_watch_breaker(r);
    redis_release(r);
}

enum redis_state redis_state(const struct redis *r)
{
    return r->state;
}

const char *redis_run_id(const struct redis *r)
{
    return r->run_id;
}

uint32_t redis_in_flight(const struct redis *r)
{
    return r->in_flight;
}

int64_t redis_retry_after_ms(const struct redis *r)
{
    int64_t wait_ms = breaker_wait_ms(&r->breaker, loop_now_ms(r->loop));
    return wait_ms > 0 ? wait_ms : r->state >= REDIS_UNSAFE ? 1 : 1000;
}

/* Commands whose replies do not come one for one: they would put every later reply out of step. */
static bool breaks_the_order(const struct redis_arg *first)
{
    static const char *const names[] = {"SUBSCRIBE",    "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE",
                                        "PUNSUBSCRIBE", "MONITOR",    "SYNC",       "PSYNC",
                                        "QUIT",         "HELLO",      "RESET"};
    if (!first || first->kind != REDIS_ARG_BYTES || !first->data)
        return false;
    size_t len = first->len == SIZE_MAX ? strlen(first->data) : first->len;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && strncasecmp(first->data, names[i], len) == 0)
            return true;
    return false;
}

int redis_command(struct redis *r, const char *routing_key, const struct redis_arg *args,
                  int64_t timeout_ms, redis_fn fn, void *arg, struct fault *f)
{
    (void)routing_key; /* one server: every key lives there */
    if (breaks_the_order(args))
        return fault_set(f, RC_REJECT, "this command does not go with pipelining");
    struct redis_call *call;
    int rc = redis_frame_build(&(struct redis_frame_parts){.args = args},
                               r->options.max_command_bytes, &call, f);
    return rc ? rc : redis_call_submit(r, call, timeout_ms, fn, arg, f);
}

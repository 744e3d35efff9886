/* queue_service.c - opens what a loop of urr-queue needs, in order, and closes it in reverse. */
#include "queue-core/queue_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "queue-core/identity_cache.h"
#include "queue-core/queue_metrics.h"
#include "queue-core/queue_settings.h"
#include "queue-core/token_keys.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/identity.h"
#include "runtime/jwt.h"
#include "runtime/log.h"
#include "runtime/redis.h"
#include "runtime/redis_pubsub.h"

enum { PUBLISH_MS = 2000, MAX_IN_FLIGHT = 32768, EXIT_FAILED = 1 };

/* Settings ------------------------------------------------------------------------------------ */

/* The settings' own check compares texts; JWT_SECRET may be another's bytes in Base64. */
static int check_decoded(const struct config *c, const char *name, struct fault *f)
{
    static const char *const OTHERS[] = {"QUEUE_ENTRY_TOKEN_SECRET",
                                         "QUEUE_ENTRY_TOKEN_SECRET_PREVIOUS", "VWR_TOKEN_SECRET",
                                         "VWR_TOKEN_SECRET_PREVIOUS", "INTERNAL_API_TOKEN"};
    unsigned char bytes[JWT_MAX_SECRET];
    size_t len = 0;
    const char *secret = config_str(c, name);
    int rc = 0;
    if (!secret || jwt_secret_bytes(secret, JWT_SECRET_BASE64, bytes, &len) != 0)
        return 0;
    for (size_t i = 0; rc == 0 && i < sizeof OTHERS / sizeof *OTHERS; i++) {
        const char *other = config_str(c, OTHERS[i]);
        if (other && strlen(other) == len && CRYPTO_memcmp(other, bytes, len) == 0)
            rc = fault_set(f, RC_FATAL, "%s and %s: must differ, give each its own secret", name,
                           OTHERS[i]);
    }
    OPENSSL_cleanse(bytes, sizeof bytes);
    return rc;
}

int queue_service_check(struct daemon *d, struct fault *f)
{
    const struct config *c = daemon_config(d);
    queue_metrics_init();
    int rc = check_decoded(c, "JWT_SECRET", f);
    return rc ? rc : check_decoded(c, "JWT_SECRET_PREVIOUS", f);
}

/* Redis --------------------------------------------------------------------------------------- */

/* A server that will not do (a cluster, a replica, a wrong password) found at the start is a wrong
 * setting: the daemon ends with the reason. Later it may be a fail-over, and waiting helps. */
static void on_redis_state(enum redis_state state, const char *reason, void *arg)
{
    struct queue_service *s = arg;
    if (state == REDIS_UP || state == REDIS_UNSAFE)
        s->connected_once = true;
    readiness_set(s->ready, state == REDIS_UP, reason);
    if (state == REDIS_REFUSED && !s->connected_once) {
        LOG_ERROR("REDIS_URL cannot be used", LOG_STR("reason", reason));
        daemon_stop(s->worker->daemon, EXIT_FAILED);
    }
}

static void on_message(const char *channel, const char *data, size_t len, void *arg)
{
    struct queue_service *s = arg;
    for (size_t i = 0; i < s->listener_count; i++)
        if (strcmp(s->listeners[i].channel, channel) == 0)
            s->listeners[i].fn(data, len, s->listeners[i].arg);
}

static void on_subscribed(const char *channel, void *arg)
{
    on_message(channel, NULL, 0, arg);
}

static int open_redis(struct queue_service *s, struct fault *f)
{
    struct redis_options o = {.url = config_str(s->config, "REDIS_URL"),
                              .max_in_flight = MAX_IN_FLIGHT,
                              .require_durable = true,
                              .on_state = on_redis_state,
                              .arg = s};
    const struct redis_pubsub_events events = {on_message, on_subscribed, s};
    int rc = redis_open(s->loop, &o, &s->redis, f);
    o.on_state = NULL;
    if (rc == 0)
        rc = redis_pubsub_open(s->loop, &o, &events, &s->pubsub, f);
    return rc == 0 ? room_new(s->redis, &s->rules, &s->room, f) : rc;
}

int queue_service_listen(struct queue_service *s, const char *channel, queue_message_fn fn,
                         void *arg, struct fault *f)
{
    if (s->listener_count == QUEUE_LISTENERS_MAX)
        return fault_set(f, RC_FATAL, "more than %d listeners", QUEUE_LISTENERS_MAX);
    s->listeners[s->listener_count++] = (struct queue_listener){channel, fn, arg};
    return redis_pubsub_subscribe(s->pubsub, channel, f);
}

static void on_published(const struct redis_result *res, void *arg)
{
    (void)arg;
    if (res->rc)
        LOG_DEBUG("not published", LOG_STR("reason", res->text));
}

void queue_service_publish(struct queue_service *s, const char *channel, const char *data,
                           size_t len)
{
    struct fault f;
    if (redis_command(s->redis, NULL,
                      REDIS_ARGS(REDIS_STR("PUBLISH"), REDIS_STR(channel), REDIS_BYTES(data, len)),
                      PUBLISH_MS, on_published, NULL, &f) != 0)
        LOG_DEBUG("not published", LOG_STR("reason", f.text));
}

void queue_service_changed(struct queue_service *s, const char *event)
{
    queue_service_publish(s, QUEUE_CHANNEL_CHANGED, event, strlen(event));
}

/* Parts --------------------------------------------------------------------------------------- */

void **queue_part_state(struct queue_service *s, const struct queue_part *part)
{
    for (size_t i = 0; i < QUEUE_PARTS_MAX && QUEUE_PARTS[i]; i++)
        if (QUEUE_PARTS[i] == part)
            return &s->part_state[i];
    (void)fprintf(stderr, "bug: the part %s is not in queue_parts.c\n", part->name);
    abort();
}

static int open_keys(struct queue_service *s, struct fault *f)
{
    const struct config *c = s->config;
    const char *entry = config_str(c, "QUEUE_ENTRY_TOKEN_SECRET");
    const char *previous = config_str(c, "QUEUE_ENTRY_TOKEN_SECRET_PREVIOUS");
    int rc = identity_keys(c, &s->user_keys, f);
    if (rc == 0)
        rc = identity_cache_new(&s->identities, f);
    if (rc == 0)
        rc = token_keys_new(entry, previous, &s->entry_keys, f);
    if (rc == 0)
        rc = token_keys_new(config_str(c, "VWR_TOKEN_SECRET"),
                            config_str(c, "VWR_TOKEN_SECRET_PREVIOUS"), &s->vwr_keys, f);
    return rc == 0 ? signed_keys_init(&s->numbers, entry, previous, f) : rc;
}

static int open_parts(struct queue_service *s, struct fault *f)
{
    int rc = open_keys(s, f);
    if (rc == 0)
        rc = open_redis(s, f);
    for (size_t i = 0; rc == 0 && QUEUE_PARTS[i]; i++)
        if (QUEUE_PARTS[i]->open)
            rc = QUEUE_PARTS[i]->open(s, f);
    return rc;
}

int queue_service_open(struct worker *w, struct fault *f)
{
    struct queue_service *s = calloc(1, sizeof *s);
    if (!s)
        return fault_set(f, RC_FATAL, "no memory for the waiting room");
    char name[32];
    (void)snprintf(name, sizeof name, "redis %d", w->index);
    buf_init(&s->scratch, QUEUE_ANSWER_MAX);
    s->worker = w;
    s->loop = w->loop;
    s->config = daemon_config(w->daemon);
    s->rules = queue_settings_rules(s->config);
    s->cookie_secure = config_bool(s->config, "COOKIE_SECURE");
    s->first = w->index == 0;
    s->ready = daemon_readiness(w->daemon, name);
    w->state = s;
    return open_parts(s, f);
}

void queue_service_close(struct worker *w)
{
    struct queue_service *s = w->state;
    size_t count = 0;
    if (!s)
        return;
    redis_pubsub_close(s->pubsub);
    redis_close(s->redis); /* every call under way answers its request now */
    s->redis = NULL;       /* and none is made any more */
    while (QUEUE_PARTS[count])
        count++;
    while (count-- > 0)
        if (QUEUE_PARTS[count]->close)
            QUEUE_PARTS[count]->close(s);
    room_free(s->room);
    signed_keys_done(&s->numbers);
    token_keys_free(s->vwr_keys);
    token_keys_free(s->entry_keys);
    identity_cache_free(s->identities);
    jwt_keys_free(s->user_keys);
    buf_done(&s->scratch);
    w->state = NULL;
    free(s);
}

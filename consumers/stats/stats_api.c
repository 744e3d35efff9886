/* stats_api.c - questions to PostgreSQL, answers as JSON.
 *
 * Each path is one SQL function that returns the whole answer, so that an answer is one snapshot
 * however many rows it is made of. Parameters are checked here and become part of the cache's key.
 */
#include "consumers/stats/stats_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumers/stats/answer_cache.h"
#include "consumers/stats/stats_consumer.h"
#include "runtime/clock.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/identity.h"
#include "runtime/jwt.h"
#include "runtime/loop.h"
#include "runtime/pg_pool.h"

enum {
    CACHE_ENTRIES = 512,
    CACHE_MS = 1000,
    QUERY_MS = 3000,
    MAX_DAYS = 366,
    MAX_EVENTS = 100,
    EVENT_ID_BYTES = 128
};

struct stats_api {
    struct pg_pool *pool;
    struct answer_cache *cache;
    struct jwt_keys *keys;
    const char *time_zone;
    struct readiness *ready;
    struct loop *loop;
};

/* One look-up under way. */
struct question {
    struct stats_api *api;
    char key[ANSWER_CACHE_KEY_MAX + 1];
};

static const char AWAY[] =
    "{\"error\":{\"code\":\"DATABASE_AWAY\",\"message\":\"The figures cannot be "
    "read just now. Try again in a moment.\"}}";
static const char UNKNOWN[] =
    "{\"error\":{\"code\":\"NOT_FOUND\",\"message\":\"There are no figures of that event.\"}}";

/* The cache's way to a waiting request. */
static void deliver(void *waiter, int status, const char *body, size_t len)
{
    struct http_request *req = waiter;
    if (status == 503) {
        (void)http_set_header(req, "Retry-After", "1");
        http_respond(req, 503, "application/json", AWAY, sizeof AWAY - 1);
        return;
    }
    (void)http_set_header(req, "Cache-Control", "private, max-age=1");
    http_respond(req, status, "application/json", body, len);
}

static void on_answer(const struct pg_answer *a, void *arg)
{
    struct question *q = arg;
    struct stats_api *api = q->api;
    int64_t now = loop_now_ms(api->loop);
    const char *json =
        a->rc == 0 && pg_result_rows(a->result) == 1 ? pg_result_text(a->result, 0, 0) : NULL;
    if (a->rc != 0)
        answer_cache_fill(api->cache, q->key, now, 503, AWAY, sizeof AWAY - 1);
    else if (!json)
        answer_cache_fill(api->cache, q->key, now, 404, UNKNOWN, sizeof UNKNOWN - 1);
    else
        answer_cache_fill(api->cache, q->key, now, 200, json, strlen(json));
    free(q);
}

static void ask_database(struct stats_api *api, const char *key, const struct pg_stmt *stmt,
                         const struct pg_params *p)
{
    struct fault f;
    struct question *q = malloc(sizeof *q);
    if (q) {
        q->api = api;
        (void)snprintf(q->key, sizeof q->key, "%s", key);
        if (pg_pool_query(api->pool, stmt, p, QUERY_MS, on_answer, q, &f) == 0)
            return;
        free(q);
    }
    answer_cache_fill(api->cache, key, loop_now_ms(api->loop), 503, AWAY, sizeof AWAY - 1);
}

/* Answers from the cache, or asks. `detail` tells apart the answers of one statement. */
static void answer(struct http_request *req, struct stats_api *api, const struct pg_stmt *stmt,
                   const struct pg_params *p, const char *detail)
{
    char key[ANSWER_CACHE_KEY_MAX + 1];
    (void)snprintf(key, sizeof key, "%s %s", stmt->name, detail);
    switch (answer_cache_ask(api->cache, key, loop_now_ms(api->loop), req)) {
    case ANSWER_GIVEN:
    case ANSWER_JOINED:
        return;
    case ANSWER_LOAD:
        ask_database(api, key, stmt, p);
        return;
    case ANSWER_BUSY:
        deliver(req, 503, AWAY, sizeof AWAY - 1);
        return;
    }
}

/* The API's state when the caller is an administrator; else the refusal is sent and NULL returned.
 */
static struct stats_api *admit(struct http_request *req, void *arg)
{
    struct stats_api *api = ((struct worker *)arg)->state;
    struct identity who;
    struct fault f;
    if (identity_of_request(api->keys, req, clock_wall_ms() / 1000, &who, &f) != 0) {
        (void)http_set_header(req, "WWW-Authenticate", "Bearer");
        http_error(req, 401, "UNAUTHORIZED", "Sign in: a valid token is required.");
        return NULL;
    }
    if (!who.admin) {
        http_error(req, 403, "FORBIDDEN", "The admin role is required.");
        return NULL;
    }
    return api;
}

/* A whole number between 1 and max; `fallback` when absent. False: 400 has been sent. */
static bool number(struct http_request *req, const char *name, int fallback, int max, int *out)
{
    const char *text = http_query(req, name);
    *out = fallback;
    if (!text)
        return true;
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value >= 1 &&
        value <= max) {
        *out = (int)value;
        return true;
    }
    char message[96];
    (void)snprintf(message, sizeof message, "%s must be a whole number from 1 to %d.", name, max);
    http_error(req, 400, "BAD_PARAMETER", message);
    return false;
}

/* One of the words in `choices` (ends with NULL), the first when absent. NULL: 400 has been sent.
 */
static const char *choice(struct http_request *req, const char *name, const char *const *choices)
{
    const char *text = http_query(req, name);
    if (!text)
        return choices[0];
    for (size_t i = 0; choices[i]; i++)
        if (strcmp(choices[i], text) == 0)
            return choices[i];
    char message[128];
    int used = snprintf(message, sizeof message, "%s must be one of:", name);
    for (size_t i = 0; choices[i] && used > 0 && (size_t)used < sizeof message; i++)
        used += snprintf(message + used, sizeof message - (size_t)used, " %s", choices[i]);
    http_error(req, 400, "BAD_PARAMETER", message);
    return NULL;
}

/* Paths whose only parameter is the number of days. */
static void answer_days(struct http_request *req, void *arg, const struct pg_stmt *stmt,
                        int fallback)
{
    struct stats_api *api = admit(req, arg);
    int days;
    if (!api || !number(req, "days", fallback, MAX_DAYS, &days))
        return;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, api->time_zone);
    pg_params_int4(&p, days);
    char detail[16];
    (void)snprintf(detail, sizeof detail, "%d", days);
    answer(req, api, stmt, &p, detail);
}

static void on_daily(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_daily", "SELECT stats_daily($1,$2)::text"};
    answer_days(req, arg, &S, 30);
}

static void on_hourly_traffic(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_hourly", "SELECT stats_hourly_traffic($1,$2)::text"};
    answer_days(req, arg, &S, 7);
}

static void on_conversion(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_conversion", "SELECT stats_conversion($1,$2)::text"};
    answer_days(req, arg, &S, 30);
}

static void on_cancellations(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_cancellations",
                                     "SELECT stats_cancellations($1,$2)::text"};
    answer_days(req, arg, &S, 30);
}

/* Paths without parameters; the group is asked for by those that speak of freshness. */
static void answer_plain(struct http_request *req, void *arg, const struct pg_stmt *stmt, bool zone,
                         bool group)
{
    struct stats_api *api = admit(req, arg);
    if (!api)
        return;
    struct pg_params p;
    pg_params_init(&p);
    if (zone)
        pg_params_text(&p, api->time_zone);
    if (group)
        pg_params_text(&p, STATS_GROUP);
    answer(req, api, stmt, &p, "");
}

static void on_overview(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_overview", "SELECT stats_overview($1)::text"};
    answer_plain(req, arg, &S, true, false);
}

static void on_payments(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_payments", "SELECT stats_payments($1)::text"};
    answer_plain(req, arg, &S, true, false);
}

static void on_realtime(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_realtime", "SELECT stats_realtime($1,$2)::text"};
    answer_plain(req, arg, &S, true, true);
}

static void on_performance(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_performance", "SELECT stats_performance($1)::text"};
    answer_plain(req, arg, &S, false, true);
}

static void on_events(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_events", "SELECT stats_events($1,$2)::text"};
    static const char *const sorts[] = {"revenue", "reservations", "confirmed", "cancelled", NULL};
    struct stats_api *api = admit(req, arg);
    int limit;
    if (!api || !number(req, "limit", 10, MAX_EVENTS, &limit))
        return;
    const char *sort = choice(req, "sortBy", sorts);
    if (!sort)
        return;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, sort);
    pg_params_int4(&p, limit);
    char detail[40];
    (void)snprintf(detail, sizeof detail, "%s %d", sort, limit);
    answer(req, api, &S, &p, detail);
}

static void on_event(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_event", "SELECT stats_event($1)::text"};
    struct stats_api *api = admit(req, arg);
    if (!api)
        return;
    const char *event = http_param(req, "eventId");
    if (strlen(event) > EVENT_ID_BYTES) {
        http_error(req, 400, "BAD_PARAMETER", "eventId is longer than 128 bytes.");
        return;
    }
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, event);
    answer(req, api, &S, &p, event);
}

static void on_revenue(struct http_request *req, void *arg)
{
    static const struct pg_stmt S = {"stats_revenue", "SELECT stats_revenue($1,$2,$3)::text"};
    static const char *const periods[] = {"daily", "weekly", "monthly", NULL};
    struct stats_api *api = admit(req, arg);
    int days;
    if (!api || !number(req, "days", 30, MAX_DAYS, &days))
        return;
    const char *period = choice(req, "period", periods);
    if (!period)
        return;
    struct pg_params p;
    pg_params_init(&p);
    pg_params_text(&p, api->time_zone);
    pg_params_text(&p, period);
    pg_params_int4(&p, days);
    char detail[32];
    (void)snprintf(detail, sizeof detail, "%s %d", period, days);
    answer(req, api, &S, &p, detail);
}

#define BOTH(path, handler)                           \
    {HTTP_GET, "/api/stats" path, handler, NULL},     \
    {                                                 \
        HTTP_GET, "/api/v1/stats" path, handler, NULL \
    }
const struct http_route STATS_ROUTES[] = {BOTH("/overview", on_overview),
                                          BOTH("/daily", on_daily),
                                          BOTH("/events", on_events),
                                          BOTH("/events/{eventId}", on_event),
                                          BOTH("/payments", on_payments),
                                          BOTH("/revenue", on_revenue),
                                          BOTH("/hourly-traffic", on_hourly_traffic),
                                          BOTH("/conversion", on_conversion),
                                          BOTH("/cancellations", on_cancellations),
                                          BOTH("/realtime", on_realtime),
                                          BOTH("/performance", on_performance),
                                          {HTTP_GET, NULL, NULL, NULL}};

static void on_pool_state(enum pg_pool_state state, const char *reason, void *arg)
{
    struct stats_api *api = arg;
    readiness_set(api->ready, state == PG_POOL_UP, reason);
}

static int open_parts(struct stats_api *api, struct worker *w, struct fault *f)
{
    const struct config *c = daemon_config(w->daemon);
    char name[32];
    (void)snprintf(name, sizeof name, "read api %d", w->index);
    api->ready = daemon_readiness(w->daemon, name);
    struct pg_pool_options o = {
        .session = pg_session_http(config_str(c, "STATS_DATABASE_URL"), "urr-stats read api"),
        .connections = 2,
        .on_state = on_pool_state,
        .arg = api};
    int rc = identity_keys(c, &api->keys, f);
    if (rc == 0)
        rc = answer_cache_new(CACHE_ENTRIES, CACHE_MS, deliver, &api->cache, f);
    return rc == 0 ? pg_pool_open(w->loop, &o, &api->pool, f) : rc;
}

int stats_api_open(struct worker *w, struct fault *f)
{
    struct stats_api *api = calloc(1, sizeof *api);
    if (!api)
        return fault_set(f, RC_FATAL, "no memory for the read API");
    api->loop = w->loop;
    api->time_zone = config_str(daemon_config(w->daemon), "STATS_TIME_ZONE");
    w->state = api;
    return open_parts(api, w, f);
}

void stats_api_close(struct worker *w)
{
    struct stats_api *api = w->state;
    if (!api)
        return;
    pg_pool_close(api->pool); /* answers what is under way, so that the cache has nobody waiting */
    answer_cache_free(api->cache);
    jwt_keys_free(api->keys);
    free(api);
    w->state = NULL;
}

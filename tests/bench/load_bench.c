/* load_bench.c - requests at a rate of its own (open loop), as fast as they are answered (rate 0),
 * or streams that stay open.
 *
 *   load_bench KIND PORT EVENT USERS SECONDS RATE CONNECTIONS
 *
 * KIND: status; mixed (70 % status, 20 % heartbeat, 10 % check); vwr (Tier 1 checks of USERS
 * numbers); null (GET /queue/e1, for http_bench); streams (one per user). Users are bench-0 …,
 * signed with JWT_SECRET. Times count from when a request was due. Prints one line of JSON. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <event2/event.h>

#include "crowd/wire.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/histogram.h"
#include "runtime/json.h"
#include "runtime/jwt.h"

enum { STRIDE = 7919, MAX_REQUEST = 4096, TICK_US = 500, OPEN_PER_TICK = 10, TTL_S = 86400 };

enum kind { STATUS, MIXED, VWR, NOTHING, STREAMS, KINDS };
static const char *const NAMES[KINDS] = {"status", "mixed", "vwr", "null", "streams"};

struct stream {
    struct bench *bench;
    struct wire_stream *wire;
    int64_t last_us;
    uint32_t events;
    bool admitted;
};

struct bench {
    enum kind kind;
    const char *event;
    struct event_base *base;
    struct wire *wire;
    struct jwt_keys *keys;
    char **texts; /* token of each user, or Tier 1's requestId */
    int64_t users, seconds, rate, connections;
    int64_t start_us, sent, done, errors, next, late_us;
    struct histogram latency_us, gap_ms;
    struct stream *streams;
    int64_t opened, events, admitted, ended;
    bool measuring;
    int first_error;
};

static int die(const char *what)
{
    (void)fprintf(stderr, "load_bench: %s\n", what);
    return 1;
}

/* Users -----------------------------------------------------------------------------------------
 */

static char *token_of(struct bench *b, int64_t user)
{
    char claims[160];
    struct buf out;
    struct fault f;
    int64_t now_s = clock_wall_ms() / 1000;
    (void)snprintf(claims, sizeof claims,
                   "{\"userId\":\"bench-%" PRId64 "\",\"role\":\"user\",\"iat\":%" PRId64
                   ",\"exp\":%" PRId64 "}",
                   user, now_s, now_s + TTL_S);
    buf_init(&out, JWT_MAX_LEN);
    char *text = jwt_sign(b->keys, claims, &out, &f) == 0 ? buf_take(&out) : NULL;
    buf_done(&out);
    return text;
}

static void on_assigned(const struct wire_answer *a, void *arg)
{
    struct bench *b = arg;
    cJSON *body = NULL;
    struct fault f;
    if (a->status == 200 && json_parse(a->body, a->len, &body, &f) == 0) {
        const char *rid = json_str(body, "requestId");
        if (rid)
            b->texts[b->opened++] = strdup(rid);
    }
    cJSON_Delete(body);
    if (++b->done == b->users)
        (void)event_base_loopbreak(b->base);
}

/* Everybody shares the name "bench": the number decides. */
static bool assign_all(struct bench *b)
{
    char text[512];
    struct fault f;
    int len = snprintf(text, sizeof text,
                       "POST /vwr/assign/%s HTTP/1.1\r\nHost: x\r\nContent-Type: "
                       "application/json\r\nContent-Length: 18\r\n\r\n{\"userId\":\"bench\"}",
                       b->event);
    for (int64_t i = 0; i < b->users; i++)
        if (wire_send(b->wire, text, (size_t)len, clock_mono_us(), on_assigned, b, &f) != 0)
            return false;
    (void)event_base_dispatch(b->base);
    b->done = 0;
    return b->opened == b->users;
}

static bool prepare(struct bench *b)
{
    b->texts = calloc((size_t)b->users, sizeof *b->texts);
    if (!b->texts)
        return false;
    if (b->kind == VWR)
        return assign_all(b);
    for (int64_t i = 0; b->kind != NOTHING && i < b->users; i++)
        if (!(b->texts[i] = token_of(b, i)))
            return false;
    return true;
}

static size_t compose(struct bench *b, char out[MAX_REQUEST], int64_t number)
{
    static const char *const PATHS[] = {"status", "heartbeat", "check"};
    const char *text = b->texts[b->next % b->users];
    int64_t dice = number % 10;
    int what = b->kind != MIXED || dice < 7 ? 0 : dice < 9 ? 1 : 2;
    b->next += STRIDE;
    if (b->kind == NOTHING)
        return (size_t)snprintf(out, MAX_REQUEST, "GET /queue/e1 HTTP/1.1\r\nHost: x\r\n\r\n");
    if (b->kind == VWR)
        return (size_t)snprintf(out, MAX_REQUEST,
                                "GET /vwr/check/%s/%s?userId=bench HTTP/1.1\r\nHost: x\r\n\r\n",
                                b->event, text);
    return (size_t)snprintf(out, MAX_REQUEST,
                            "%s /api/queue/%s/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                            "%s\r\n%s\r\n",
                            what ? "POST" : "GET", b->kind == STREAMS ? "stream" : PATHS[what],
                            b->event, text, what ? "Content-Length: 0\r\n" : "");
}

/* Requests --------------------------------------------------------------------------------------
 */

static void on_answer(const struct wire_answer *a, void *arg);

static void send_one(struct bench *b, int64_t due_us)
{
    char text[MAX_REQUEST];
    struct fault f;
    size_t len = compose(b, text, b->sent++);
    if (wire_send(b->wire, text, len, due_us, on_answer, b, &f) != 0)
        b->errors++;
}

static void on_answer(const struct wire_answer *a, void *arg)
{
    struct bench *b = arg;
    int64_t now_us = a->done_us;
    b->done++;
    histogram_add(&b->latency_us, a->done_us - a->due_us);
    if (a->status != 200) {
        b->errors++;
        b->first_error = b->first_error ? b->first_error : a->status ? a->status : -1;
    }
    bool over = now_us - b->start_us >= b->seconds * 1000000;
    if (!over && b->rate == 0)
        send_one(b, now_us);
    if (over && b->done == b->sent)
        (void)event_base_loopbreak(b->base);
}

/* Sends what is due: a late tick makes them late, which counts. */
static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct bench *b = arg;
    int64_t now_us = clock_mono_us() - b->start_us;
    int64_t end_us = b->seconds * 1000000;
    for (; b->sent * 1000000 / b->rate <= (now_us < end_us ? now_us : end_us - 1);)
        send_one(b, b->start_us + b->sent * 1000000 / b->rate);
    if (now_us >= end_us && b->done == b->sent)
        (void)event_base_loopbreak(b->base);
}

/* Streams ---------------------------------------------------------------------------------------
 */

static void on_stream_event(const char *name, const char *data, void *arg)
{
    struct stream *s = arg;
    struct bench *b = s->bench;
    int64_t now_us = clock_mono_us();
    (void)data;
    b->opened += s->events++ == 0;
    if (strcmp(name, "admitted") == 0) {
        s->admitted = true;
        b->admitted++;
    } else if (b->measuring && strcmp(name, "position") == 0) {
        b->events++;
        if (s->last_us)
            histogram_add(&b->gap_ms, (now_us - s->last_us) / 1000);
        s->last_us = now_us;
    }
}

static void on_stream_end(int status, void *arg)
{
    struct stream *s = arg;
    s->wire = NULL;
    if (!s->admitted) {
        s->bench->ended++;
        s->bench->first_error = status ? status : -1;
    }
}

/* Opens a few per tick; "open" and the time go to standard error when all had their first event. */
static void on_stream_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct bench *b = arg;
    char text[MAX_REQUEST];
    struct fault f;
    for (int i = 0; i < OPEN_PER_TICK && b->sent < b->users; i++, b->sent++) {
        struct stream *s = &b->streams[b->sent];
        b->next = b->sent;
        size_t len = compose(b, text, 0);
        s->bench = b;
        s->wire = wire_stream_open(b->wire, text, len, on_stream_event, on_stream_end, s, &f);
        b->ended += !s->wire;
    }
    int64_t now_us = clock_mono_us();
    if (!b->measuring && b->opened + b->ended >= b->users) {
        (void)fprintf(stderr, "open %" PRId64 "\n", b->opened);
        b->measuring = true;
        b->start_us = now_us;
    }
    bool stuck = !b->measuring && now_us - b->start_us > 60000000;
    if (stuck || (b->measuring && now_us - b->start_us >= b->seconds * 1000000))
        (void)event_base_loopbreak(b->base);
}

/* Main ------------------------------------------------------------------------------------------
 */

static void report(const struct bench *b)
{
    double took = (double)(clock_mono_us() - b->start_us) / 1e6;
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_REQUEST);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_str(&j, "kind", NAMES[b->kind]);
    json_put_int(&j, "errors", b->errors + b->ended);
    json_put_int(&j, "firstError", b->first_error);
    if (b->kind == STREAMS) {
        json_put_int(&j, "open", b->opened);
        json_put_int(&j, "eventsPerSecond", (int64_t)((double)b->events / took));
        json_put_int(&j, "admitted", b->admitted);
        json_put_int(&j, "gapP50Ms", histogram_percentile(&b->gap_ms, 50));
        json_put_int(&j, "gapP99Ms", histogram_percentile(&b->gap_ms, 99));
        json_put_int(&j, "gapMaxMs", b->gap_ms.max);
    } else {
        json_put_int(&j, "done", b->done);
        json_put_int(&j, "perSecond", (int64_t)((double)b->done / took));
        json_put_real(&j, "p50Ms", (double)histogram_percentile(&b->latency_us, 50) / 1e3);
        json_put_real(&j, "p95Ms", (double)histogram_percentile(&b->latency_us, 95) / 1e3);
        json_put_real(&j, "p99Ms", (double)histogram_percentile(&b->latency_us, 99) / 1e3);
        json_put_real(&j, "maxMs", (double)b->latency_us.max / 1e3);
    }
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static int run(struct bench *b)
{
    bool ticks = b->rate > 0 || b->kind == STREAMS;
    b->streams = b->kind == STREAMS ? calloc((size_t)b->users, sizeof *b->streams) : NULL;
    struct event *tick =
        event_new(b->base, -1, EV_PERSIST, b->kind == STREAMS ? on_stream_tick : on_tick, b);
    if (!tick || (b->kind == STREAMS && !b->streams))
        return die("no memory");
    b->opened = 0;
    b->start_us = clock_mono_us();
    if (ticks)
        (void)event_add(tick, &(struct timeval){.tv_usec = b->kind == STREAMS ? 5000 : TICK_US});
    for (int64_t i = 0; !ticks && i < b->connections; i++)
        send_one(b, clock_mono_us());
    (void)event_base_dispatch(b->base);
    report(b);
    return 0;
}

int main(int argc, char **argv)
{
    struct bench *b = calloc(1, sizeof *b);
    struct fault f = {0};
    struct rlimit files;
    if (!b || argc != 8)
        return die("usage: KIND PORT EVENT USERS SECONDS RATE CONNECTIONS");
    while (b->kind < KINDS && strcmp(argv[1], NAMES[b->kind]) != 0)
        b->kind++;
    b->event = argv[3];
    b->users = strtoll(argv[4], NULL, 10);
    b->seconds = strtoll(argv[5], NULL, 10);
    b->rate = strtoll(argv[6], NULL, 10);
    b->connections = strtoll(argv[7], NULL, 10);
    if (b->kind == KINDS || b->users <= 0 || b->seconds <= 0 || b->connections <= 0)
        return die("a number or the kind is no good");
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    struct event_config *config = event_config_new(); /* precise: a tick of half a millisecond */
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_PRECISE_TIMER);
    b->base = event_base_new_with_config(config);
    const char *secret = getenv("JWT_SECRET");
    if (!b->base || !secret || jwt_keys_load(secret, NULL, JWT_SECRET_BASE64, &b->keys, &f) != 0)
        return die("JWT_SECRET is not usable");
    struct wire_options o = {.base = b->base,
                             .target_count = 1,
                             .max_connections = (uint32_t)b->connections,
                             .max_waiting = 10000000,
                             .timeout_ms = 30000,
                             .many_sources = true};
    o.targets[0] = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)atoi(argv[2])),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (wire_new(&o, &b->wire, &f) != 0 || !prepare(b))
        return die("cannot prepare the users");
    return run(b);
}

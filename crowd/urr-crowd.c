/* urr-crowd.c - a crowd before a waiting room: a demo, a load test and a proof of fairness in one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/event.h>

#include "crowd/crowd.h"
#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/config_names.h"
#include "runtime/fault.h"
#include "runtime/identity.h"
#include "runtime/json.h"
#include "runtime/jwt.h"
#include "runtime/log.h"

enum { EXIT_GOOD, EXIT_FAILED, EXIT_USAGE, EXIT_UNFAIR, EXIT_TROUBLE };
enum { MAX_JSON = 1 << 16, SPARE_FILES = 64 };

static const struct config_item *const TABLES[] = {IDENTITY_SETTINGS, NULL};

static const char HELP[] =
    "urr-crowd --event EVENT [options]\n\n"
    "Sends a crowd of simulated users through a waiting room and says how they were treated. The\n"
    "event must exist (urrctl queue register). JWT_SECRET signs the users' tokens.\n\n"
    "  --url URL            http://127.0.0.1:3007; again for further instances, used in turn\n"
    "  --users N            how many come (1000; at most 200000)\n"
    "  --curve NAME         burst, ramp or wave (ramp)\n"
    "  --over SECONDS       the time over which they come (10)\n"
    "  --time SECONDS       the run ends then, whoever is left (300; at most 86400)\n"
    "  --shop A-B           seconds a user stays inside (1-3)\n"
    "  --streams PERCENT    hold a stream open, the others poll (50)\n"
    "  --no-shows PERCENT   never come back after joining (0)\n"
    "  --sleepers PERCENT   fall silent for --sleep SECONDS (5), then come back (0)\n"
    "  --bots PERCENT       ask ten times a second and share one Tier 1 token (0)\n"
    "  --no-tier1           go straight to Tier 2\n"
    "  --connections N      for requests; streams have their own (500)\n"
    "  --poll-scale X       nextPoll times X: 0.2 makes a demo quick (1)\n"
    "  --present SECONDS    users silent for longer may be parked (30): below the claim time\n"
    "  --prefix TEXT        of the users' ids (crowd-PID-)\n"
    "  --seed N             the same crowd again\n"
    "  --config FILE        settings\n"
    "  --json               one JSON document at the end instead of the table\n"
    "  --quiet              no progress line\n"
    "  --i-own-this-host    allows an address that is not this machine's\n\n"
    "Exit codes: 0 all served fairly; 1 could not run; 2 wrong use; 3 unfair (somebody was\n"
    "overtaken, let in past the threshold, or lost); 4 errors, or the time was up.\n\n"
    "Examples:\n"
    "  urrctl queue register demo --threshold 50 --yes\n"
    "  urr-crowd --event demo --users 500 --curve burst --poll-scale 0.2\n"
    "  urr-crowd --event demo --users 20000 --curve wave --over 60 --streams 80 --sleepers 5 \\\n"
    "            --no-shows 3 --bots 2 --json\n";

struct arguments {
    struct crowd_options crowd;
    const char *urls[WIRE_MAX_TARGETS];
    size_t url_count;
    const char *config_file;
    double over_s, time_s, sleep_s, present_s;
    bool json, quiet, own_host;
    char prefix[48];
};

static int usage(const char *text, const char *what)
{
    (void)fprintf(stderr, "urr-crowd: %s%s; urr-crowd --help\n", text, what);
    return EXIT_USAGE;
}

/* Options ---------------------------------------------------------------------------------------
 */

static bool number(const char *text, double min, double max, double *out)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (!*text || *end || !(value >= min && value <= max))
        return false;
    *out = value;
    return true;
}

static bool whole(const char *text, double min, double max, uint32_t *out)
{
    double value = 0;
    if (strspn(text, "0123456789") != strlen(text) || !number(text, min, max, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool read_shop(const char *text, struct crowd_options *o)
{
    char *end;
    double from = strtod(text, &end), to = from;
    if (end == text)
        return false;
    if (*end == '-') {
        const char *second = end + 1;
        to = strtod(second, &end);
        if (end == second)
            return false;
    }
    if (*end != '\0' || !(from >= 0 && to >= from && to <= 3600))
        return false;
    o->shop_min_ms = (int64_t)(from * 1000);
    o->shop_max_ms = (int64_t)(to * 1000);
    return true;
}

static bool read_curve(const char *text, enum crowd_curve *out)
{
    static const char *const NAMES[] = {"burst", "ramp", "wave"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, NAMES[i]) == 0) {
            *out = (enum crowd_curve)i;
            return true;
        }
    return false;
}

/* An option with a value. */
static bool take_value(struct arguments *a, const char *option, const char *value)
{
    struct crowd_options *o = &a->crowd;
    const struct {
        const char *name;
        uint32_t *into;
        double min, max;
    } wholes[] = {{"--users", &o->users, 1, CROWD_MAX_USERS},
                  {"--streams", &o->streams, 0, 100},
                  {"--no-shows", &o->no_shows, 0, 100},
                  {"--sleepers", &o->sleepers, 0, 100},
                  {"--bots", &o->bots, 0, 100},
                  {"--connections", &o->wire.max_connections, 1, 20000}};
    const struct {
        const char *name;
        double *into;
        double min, max;
    } reals[] = {{"--over", &a->over_s, 0, 86400},
                 {"--time", &a->time_s, 1, 86400},
                 {"--sleep", &a->sleep_s, 0, 86400},
                 {"--present", &a->present_s, 0.1, 86400},
                 {"--poll-scale", &o->poll_scale, 0.001, 100}};
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
        if (strcmp(option, wholes[i].name) == 0)
            return whole(value, wholes[i].min, wholes[i].max, wholes[i].into);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        if (strcmp(option, reals[i].name) == 0)
            return number(value, reals[i].min, reals[i].max, reals[i].into);
    if (strcmp(option, "--event") == 0) {
        o->event = value;
        return strlen(value) <= 64 &&
               strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvw"
                             "xyz0123456789_-") == strlen(value) &&
               *value;
    }
    if (strcmp(option, "--url") == 0 && a->url_count < WIRE_MAX_TARGETS) {
        a->urls[a->url_count++] = value;
        return true;
    }
    if (strcmp(option, "--prefix") == 0) {
        o->prefix = value;
        return strlen(value) < 64 && identity_is_user_id(value);
    }
    if (strcmp(option, "--seed") == 0) {
        o->seed = strtoull(value, NULL, 10);
        return o->seed > 0;
    }
    if (strcmp(option, "--config") == 0) {
        a->config_file = value;
        return true;
    }
    if (strcmp(option, "--curve") == 0)
        return read_curve(value, &o->curve);
    return strcmp(option, "--shop") == 0 && read_shop(value, o);
}

static int read_arguments(struct arguments *a, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            a->json = true;
        else if (strcmp(argv[i], "--quiet") == 0)
            a->quiet = true;
        else if (strcmp(argv[i], "--no-tier1") == 0)
            a->crowd.tier1 = false;
        else if (strcmp(argv[i], "--i-own-this-host") == 0)
            a->own_host = true;
        else if (i + 1 == argc || !take_value(a, argv[i], argv[i + 1]))
            return usage("no good: ", argv[i]);
        else
            i++;
    }
    struct crowd_options *o = &a->crowd;
    if (!o->event)
        return usage("--event is missing", "");
    if (o->no_shows + o->sleepers + o->bots > 100)
        return usage("--no-shows, --sleepers and --bots are more than 100 % together", "");
    o->over_ms = (int64_t)(a->over_s * 1000);
    o->time_ms = (int64_t)(a->time_s * 1000);
    o->sleep_ms = (int64_t)(a->sleep_s * 1000);
    o->present_ms = (int64_t)(a->present_s * 1000);
    if (a->url_count == 0)
        a->urls[a->url_count++] = "http://127.0.0.1:3007";
    return EXIT_GOOD;
}

/* http://host:port, and loopback unless the caller owns the host. */
static int read_url(struct arguments *a, const char *url)
{
    struct crowd_options *o = &a->crowd;
    char host[64], port[8], end = 0;
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    if (sscanf(url, "http://%63[^:/]:%5[0-9]%c", host, port, &end) < 2 || (end && end != '/'))
        return usage("--url wants http://host:port, not ", url);
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return usage("unknown host ", host);
    struct sockaddr_in *to = &o->wire.targets[o->wire.target_count++];
    memcpy(to, found->ai_addr, sizeof *to);
    freeaddrinfo(found);
    bool loopback = ntohl(to->sin_addr.s_addr) >> 24 == 127;
    if (!loopback && !a->own_host)
        return usage("a crowd is an attack on anybody else's machine: --i-own-this-host for ",
                     host);
    o->wire.many_sources = loopback;
    (void)snprintf(o->host, sizeof o->host, "%.55s:%s", host, port);
    return EXIT_GOOD;
}

/* Telling ---------------------------------------------------------------------------------------
 */

static void on_progress(const struct crowd_report *r, void *arg)
{
    (void)arg;
    bool terminal = isatty(STDERR_FILENO);
    (void)fprintf(stderr,
                  "%s%4" PRId64 " s  arrived %" PRId64 "  waiting %" PRId64 "  inside %" PRId64
                  "  served %" PRId64 "  errors %" PRId64 "%s",
                  terminal ? "\r\x1b[K" : "", r->elapsed_ms / 1000, r->arrived, r->waiting_now,
                  r->inside_now, r->served, r->errors, terminal ? "" : "\n");
}

static void row(const char *name, int64_t value, const char *note)
{
    (void)printf("  %-18s %10" PRId64 "%s%s\n", name, value, *note ? "   " : "", note);
}

static void print_times(const char *name, const struct histogram *h, double unit, const char *word)
{
    (void)printf("  %-18s p50 %.1f, p95 %.1f, p99 %.1f, longest %.1f %s\n", name,
                 (double)histogram_percentile(h, 50) / unit,
                 (double)histogram_percentile(h, 95) / unit,
                 (double)histogram_percentile(h, 99) / unit, (double)h->max / unit, word);
}

static void print_report(const struct crowd_report *r)
{
    char text[64];
    (void)printf("%s\n", crowd_fair(r) ? "fair" : "NOT FAIR");
    row("inversions", r->fair.inversions, "users overtaken by a larger number while present");
    (void)snprintf(text, sizeof text, "most inside %" PRId64 ", threshold %" PRId64,
                   r->fair.peak_inside, r->fair.threshold);
    row("overshoot", r->fair.overshoot, text);
    row("lost", r->lost, "told that they have no place");
    row("shared places", r->fair.doubles, "");
    row("users", r->users, "");
    row("served", r->served, "");
    row("no-shows", r->no_shows, "");
    row("slept", r->slept, "and came back");
    row("bots refused", r->bots_refused, "a shared Tier 1 token helps one");
    row("refused", r->refused, "");
    row("told closed", r->closed, "");
    row("not finished", r->unfinished, "when the time was up");
    print_times("wait", &r->wait_ms, 1e3, "s");
    print_times("answer", &r->latency_us, 1e3, "ms");
    row("requests", r->requests, "");
    row("stream events", r->stream_events, "");
    row("errors", r->errors, "");
    for (int i = 0; i < CROWD_STATUS_MAX; i++)
        if (r->statuses[i]) {
            (void)snprintf(text, sizeof text, "  status %d", i);
            row(text, r->statuses[i], "");
        }
    if (r->network_errors)
        row("  no answer", r->network_errors, "");
    (void)printf("  %-18s %10.1f s\n", "took", (double)r->elapsed_ms / 1e3);
}

static void put_times(struct json_out *j, const char *key, const struct histogram *h)
{
    json_object(j, key);
    json_put_int(j, "count", h->count);
    json_put_int(j, "p50", histogram_percentile(h, 50));
    json_put_int(j, "p95", histogram_percentile(h, 95));
    json_put_int(j, "p99", histogram_percentile(h, 99));
    json_put_int(j, "max", h->max);
    json_end(j);
}

static void put_report(const struct crowd_report *r)
{
    struct buf out;
    struct json_out j;
    char text[16];
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_bool(&j, "fair", crowd_fair(r));
    json_put_int(&j, "inversions", r->fair.inversions);
    json_put_int(&j, "overshoot", r->fair.overshoot);
    json_put_int(&j, "lost", r->lost);
    json_put_int(&j, "doubles", r->fair.doubles);
    json_put_int(&j, "peakInside", r->fair.peak_inside);
    json_put_int(&j, "threshold", r->fair.threshold);
    json_put_int(&j, "users", r->users);
    json_put_int(&j, "arrived", r->arrived);
    json_put_int(&j, "tier1", r->tier1);
    json_put_int(&j, "served", r->served);
    json_put_int(&j, "noShows", r->no_shows);
    json_put_int(&j, "slept", r->slept);
    json_put_int(&j, "bots", r->bots);
    json_put_int(&j, "botsRefused", r->bots_refused);
    json_put_int(&j, "refused", r->refused);
    json_put_int(&j, "closed", r->closed);
    json_put_int(&j, "unfinished", r->unfinished);
    put_times(&j, "waitMs", &r->wait_ms);
    put_times(&j, "latencyUs", &r->latency_us);
    json_put_int(&j, "requests", r->requests);
    json_put_int(&j, "streamEvents", r->stream_events);
    json_put_int(&j, "errors", r->errors);
    json_put_int(&j, "networkErrors", r->network_errors);
    json_object(&j, "statuses");
    for (int i = 0; i < CROWD_STATUS_MAX; i++)
        if (r->statuses[i]) {
            (void)snprintf(text, sizeof text, "%d", i);
            json_put_int(&j, text, r->statuses[i]);
        }
    json_end(&j);
    json_put_int(&j, "elapsedMs", r->elapsed_ms);
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

/* The run ---------------------------------------------------------------------------------------
 */

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    crowd_stop(arg);
}

/* As many files as the system lets us have; false: too few for this crowd. */
static bool raise_files(const struct crowd_options *o)
{
    struct rlimit limit;
    rlim_t wanted = o->wire.max_connections + (rlim_t)o->users * o->streams / 100 + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur >= wanted;
}

static int run(struct arguments *a)
{
    struct crowd *crowd = NULL;
    struct fault f = {0};
    if (!raise_files(&a->crowd))
        return usage("too few open files allowed for this crowd: raise `ulimit -n`", "");
    if (crowd_new(&a->crowd, &crowd, &f) != 0) {
        (void)fprintf(stderr, "urr-crowd: %s\n", f.text);
        return EXIT_FAILED;
    }
    struct event *stop = evsignal_new(a->crowd.wire.base, SIGINT, on_signal, crowd);
    if (stop)
        (void)event_add(stop, NULL);
    int code = EXIT_FAILED;
    if (crowd_run(crowd, a->quiet ? NULL : on_progress, NULL, &f) == 0) {
        const struct crowd_report *r = crowd_report(crowd);
        if (!a->quiet && isatty(STDERR_FILENO))
            (void)fputs("\n", stderr);
        if (a->json)
            put_report(r);
        else
            print_report(r);
        if (!crowd_fair(r))
            code = EXIT_UNFAIR;
        else if (r->answers > 0)
            code = r->errors || r->unfinished || r->refused ? EXIT_TROUBLE : EXIT_GOOD;
    } else {
        (void)fprintf(stderr, "urr-crowd: %s\n", f.text);
    }
    if (stop)
        event_free(stop);
    crowd_free(crowd);
    return code;
}

static int run_with_keys(struct arguments *a)
{
    struct config *config = NULL;
    struct jwt_keys *keys = NULL;
    struct fault f = {0};
    int code = EXIT_USAGE;
    if (config_load(TABLES, config_names(), a->config_file, &config, &f) != 0 ||
        identity_keys(config, &keys, &f) != 0) {
        (void)fprintf(stderr, "urr-crowd: %s\n", f.text);
    } else {
        a->crowd.keys = keys;
        a->crowd.wire.base = event_base_new();
        code = a->crowd.wire.base ? run(a) : EXIT_FAILED;
        if (a->crowd.wire.base)
            event_base_free(a->crowd.wire.base);
    }
    jwt_keys_free(keys);
    config_free(config);
    return code;
}

int main(int argc, char **argv)
{
    struct arguments a = {
        .over_s = 10,
        .time_s = 300,
        .sleep_s = 5,
        .present_s = 30,
        .crowd = {.users = 1000,
                  .curve = CROWD_RAMP,
                  .streams = 50,
                  .shop_min_ms = 1000,
                  .shop_max_ms = 3000,
                  .poll_scale = 1,
                  .tier1 = true,
                  .wire = {.max_connections = 500, .max_waiting = 1000000, .timeout_ms = 10000}}};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            (void)fputs(HELP, stdout);
            return EXIT_GOOD;
        }
    log_init("urr-crowd", LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT, STDERR_FILENO);
    (void)snprintf(a.prefix, sizeof a.prefix, "crowd-%ld-", (long)getpid());
    a.crowd.prefix = a.prefix;
    int code = read_arguments(&a, argc, argv);
    for (size_t i = 0; code == EXIT_GOOD && i < a.url_count; i++)
        code = read_url(&a, a.urls[i]);
    return code == EXIT_GOOD ? run_with_keys(&a) : code;
}

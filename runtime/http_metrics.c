/* http_metrics.c - what the HTTP server counts. */
#include <pthread.h>

#include "runtime/http_internal.h"
#include "runtime/metrics.h"

static const double SECONDS[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                 0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};

enum { REQUESTS, DURATION, CONNECTIONS, STREAMS, REFUSED };

const struct metric_def HTTP_METRICS[] = {
    [REQUESTS] = {"urr_http_requests_total", METRIC_COUNTER, "Requests answered.",
                  "method,route,status", NULL, 0},
    [DURATION] = {"urr_http_request_duration_seconds", METRIC_HISTOGRAM,
                  "From a request's last byte to its answer.", "method,route", SECONDS,
                  sizeof SECONDS / sizeof *SECONDS},
    [CONNECTIONS] = {"urr_http_connections", METRIC_GAUGE, "Open client connections.", NULL, NULL,
                     0},
    [STREAMS] = {"urr_http_streams", METRIC_GAUGE, "Open server-sent-event streams.", NULL, NULL,
                 0},
    [REFUSED] = {"urr_http_refused_total", METRIC_COUNTER,
                 "Connections and requests refused before a handler saw them, and streams cut.",
                 "reason", NULL, 0},
    {0},
};

static const char *const CLASSES[HTTP_STATUS_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
static const char *const REASONS[HTTP_REFUSED_COUNT] = {
    [HTTP_REFUSED_LIMIT] = "connection_limit", [HTTP_REFUSED_FDS] = "descriptors",
    [HTTP_REFUSED_MALFORMED] = "malformed",    [HTTP_REFUSED_LARGE] = "too_large",
    [HTTP_REFUSED_SLOW] = "slow_client",       [HTTP_REFUSED_STREAM] = "slow_stream"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct metric *connections, *streams;
static struct metric *refused[HTTP_REFUSED_COUNT];
static struct metric *unrouted[HTTP_STATUS_CLASSES];

static void make_series(void)
{
    connections = metrics_series(&HTTP_METRICS[CONNECTIONS], NULL);
    streams = metrics_series(&HTTP_METRICS[STREAMS], NULL);
    for (int i = 0; i < HTTP_REFUSED_COUNT; i++)
        refused[i] = metrics_series(&HTTP_METRICS[REFUSED], (const char *[]){REASONS[i]});
    for (int i = 0; i < HTTP_STATUS_CLASSES; i++)
        unrouted[i] =
            metrics_series(&HTTP_METRICS[REQUESTS], (const char *[]){"any", "none", CLASSES[i]});
}

void http_metrics_init(void)
{
    (void)pthread_once(&once, make_series);
}

void http_metrics_request(struct http_slot *slot, int status, int64_t took_us)
{
    int class = status / 100 - 1;
    if (class < 0 || class >= HTTP_STATUS_CLASSES)
        class = HTTP_STATUS_CLASSES - 1;
    if (!slot) {
        metric_add(unrouted[class], 1);
        return;
    }
    const char *method = http_router_method(slot->route->method); /* HEAD counts as its GET */
    if (!slot->requests[class])
        slot->requests[class] = metrics_series(
            &HTTP_METRICS[REQUESTS], (const char *[]){method, slot->route->path, CLASSES[class]});
    if (!slot->seconds)
        slot->seconds =
            metrics_series(&HTTP_METRICS[DURATION], (const char *[]){method, slot->route->path});
    metric_add(slot->requests[class], 1);
    metric_observe(slot->seconds, (double)took_us / 1e6);
}

void http_metrics_refused(enum http_refusal reason)
{
    metric_add(refused[reason], 1);
}

void http_metrics_connections(int delta)
{
    metric_gauge_add(connections, delta);
}

void http_metrics_streams(int delta)
{
    metric_gauge_add(streams, delta);
}

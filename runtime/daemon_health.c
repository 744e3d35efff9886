/* daemon_health.c - /health, /healthz, /readyz, /metrics, and what the process tells of itself.
 *
 * Answered on the worker loops from memory: they neither wait for a server nor for a thread. */
#include "runtime/daemon_internal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/json.h"
#include "runtime/log.h"
#include "runtime/metrics.h"

enum { MAX_METRICS_BYTES = 16 << 20, MAX_READY_BYTES = 64 << 10 };

enum { BUILD_INFO, READY, RESIDENT, OPEN_FDS, MAX_FDS, START_TIME };

const struct metric_def DAEMON_METRICS[] = {
    [BUILD_INFO] = {"urr_build_info", METRIC_GAUGE, "Always 1; the labels say what runs.",
                    "daemon,version", NULL, 0},
    [READY] = {"urr_ready", METRIC_GAUGE, "1 while that condition of /readyz holds, else 0.",
               "condition", NULL, 0},
    [RESIDENT] = {"process_resident_memory_bytes", METRIC_GAUGE, "Resident memory.", NULL, NULL, 0},
    [OPEN_FDS] = {"process_open_fds", METRIC_GAUGE, "Open file descriptors.", NULL, NULL, 0},
    [MAX_FDS] = {"process_max_fds", METRIC_GAUGE, "Most file descriptors it may open.", NULL, NULL,
                 0},
    [START_TIME] = {"process_start_time_seconds", METRIC_GAUGE,
                    "When the process started, seconds since 1970.", NULL, NULL, 0},
    {NULL, METRIC_GAUGE, NULL, NULL, NULL, 0},
};

/* The second number of statm, in pages. */
static double resident_bytes(void)
{
    char line[128] = "", *second;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    bool got = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    if (!got || !(second = strchr(line, ' ')))
        return 0;
    return (double)strtoull(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

/* Without ".", ".." and the descriptor of the look itself. */
static double open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    if (!dir)
        return 0;
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count > 3 ? count - 3 : 0;
}

static void set(int which, double value)
{
    metric_set(metrics_series(&DAEMON_METRICS[which], NULL), value);
}

static void on_render(void *arg)
{
    (void)arg;
    struct rlimit limit;
    set(RESIDENT, resident_bytes());
    set(OPEN_FDS, open_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        set(MAX_FDS, (double)limit.rlim_cur);
}

static void register_process(void)
{
    metrics_on_render(on_render, NULL);
    set(START_TIME, (double)clock_wall_ms() / 1000.0);
}

void daemon_health_init(const struct daemon *d)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, register_process);
    const char *labels[] = {d->spec->name, URR_VERSION};
    metric_set(metrics_series(&DAEMON_METRICS[BUILD_INFO], labels), 1);
}

static void serve_health(struct http_request *req, void *arg)
{
    const struct worker *w = arg;
    struct buf body;
    struct json_out j;
    buf_init(&body, 1024);
    json_begin(&j, &body);
    json_object(&j, NULL);
    json_put_str(&j, "status", "ok");
    json_put_str(&j, "daemon", w->daemon->spec->name);
    json_put_str(&j, "version", URR_VERSION);
    json_end(&j);
    http_respond_json(req, 200, &body);
    buf_done(&body);
}

/* Writes the body; true when every condition holds. */
static bool describe_readiness(struct daemon *d, struct buf *body)
{
    struct json_out j;
    bool stopping = daemon_stopping(d), ready = !stopping;
    (void)pthread_mutex_lock(&d->lock);
    for (int i = 0; i < d->readiness_count; i++)
        ready = ready && d->readiness[i].ready;
    json_begin(&j, body);
    json_object(&j, NULL);
    json_put_str(&j, "status", stopping ? "stopping" : ready ? "ready" : "not_ready");
    json_array(&j, "conditions");
    for (int i = 0; i < d->readiness_count; i++) {
        const struct readiness *r = &d->readiness[i];
        json_object(&j, NULL);
        json_put_str(&j, "name", r->name);
        json_put_bool(&j, "ready", r->ready);
        if (r->reason[0])
            json_put_str(&j, "reason", r->reason);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    (void)pthread_mutex_unlock(&d->lock);
    return ready;
}

static void serve_ready(struct http_request *req, void *arg)
{
    const struct worker *w = arg;
    struct buf body;
    buf_init(&body, MAX_READY_BYTES);
    int status = describe_readiness(w->daemon, &body) ? 200 : 503;
    http_respond_json(req, status, &body);
    buf_done(&body);
}

static void serve_metrics(struct http_request *req, void *arg)
{
    (void)arg;
    struct buf body;
    buf_init(&body, MAX_METRICS_BYTES);
    metrics_render(&body);
    if (body.failed)
        http_error(req, 500, "TOO_MANY_METRICS", "The metrics do not fit into one answer.");
    else
        http_respond(req, 200, "text/plain; version=0.0.4; charset=utf-8", body.data, body.len);
    buf_done(&body);
}

const struct http_route DAEMON_HEALTH_ROUTES[] = {
    {HTTP_GET, "/health", serve_health, NULL},
    {HTTP_GET, "/healthz", serve_health, NULL},
    {HTTP_GET, "/readyz", serve_ready, NULL},
    {HTTP_GET, "/metrics", serve_metrics, NULL},
    {HTTP_GET, NULL, NULL, NULL},
};

static struct readiness *find_readiness(struct daemon *d, const char *name)
{
    for (int i = 0; i < d->readiness_count; i++)
        if (strcmp(d->readiness[i].name, name) == 0)
            return &d->readiness[i];
    return NULL;
}

struct readiness *daemon_readiness(struct daemon *d, const char *name)
{
    (void)pthread_mutex_lock(&d->lock);
    struct readiness *r = find_readiness(d, name);
    if (!r && d->readiness_count == DAEMON_MAX_READINESS) {
        (void)fprintf(stderr, "bug: more than %d conditions of readiness\n", DAEMON_MAX_READINESS);
        abort();
    }
    if (!r) {
        r = &d->readiness[d->readiness_count++];
        r->daemon = d;
        (void)snprintf(r->name, sizeof r->name, "%s", name);
        (void)snprintf(r->reason, sizeof r->reason, "not known yet");
        r->gauge = metrics_series(&DAEMON_METRICS[READY], (const char *[]){r->name});
        metric_set(r->gauge, 0);
    }
    (void)pthread_mutex_unlock(&d->lock);
    return r;
}

void readiness_set(struct readiness *r, bool ready, const char *reason)
{
    struct daemon *d = r->daemon;
    (void)pthread_mutex_lock(&d->lock);
    bool changed = r->ready != ready;
    r->ready = ready;
    (void)snprintf(r->reason, sizeof r->reason, "%s", reason ? reason : "");
    metric_set(r->gauge, ready ? 1 : 0);
    (void)pthread_mutex_unlock(&d->lock);
    if (changed && ready)
        LOG_INFO("condition is met", LOG_STR("condition", r->name));
    else if (changed)
        LOG_WARN("condition is not met", LOG_STR("condition", r->name), LOG_STR("reason", reason));
}

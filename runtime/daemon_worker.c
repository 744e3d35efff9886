/* daemon_worker.c - a thread per worker loop with its HTTP server, and the threads beside them.
 *
 * Each ends by its own: a loop when its drain is done, a thread when it sees daemon_stopping(). The
 * main loop is told of each end and stops after the last. */
#include "runtime/daemon_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/log.h"
#include "runtime/loop.h"

enum { MAX_DEFAULT_WORKERS = 8 };

static void count_end(struct daemon *d)
{
    (void)pthread_mutex_lock(&d->lock);
    bool last = --d->under_way == 0;
    (void)pthread_mutex_unlock(&d->lock);
    if (last && daemon_stopping(d))
        loop_stop(d->loop);
}

static void report_phase(struct daemon_worker *w, enum daemon_phase phase)
{
    struct daemon *d = w->pub.daemon;
    (void)pthread_mutex_lock(&d->lock);
    w->phase = phase;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
}

static int open_server(struct daemon_worker *w, uint16_t port)
{
    struct daemon *d = w->pub.daemon;
    uint32_t all = (uint32_t)config_int(d->config, "MAX_CONNECTIONS");
    uint32_t workers = (uint32_t)d->worker_count;
    struct http_server_options options = {
        .address = config_str(d->config, "HTTP_ADDRESS"),
        .port = port,
        .limits = {.max_connections = (all + workers - 1) / workers},
        .routes = d->routes,
        .arg = &w->pub,
        .access_log = config_bool(d->config, "ACCESS_LOG"),
    };
    return http_server_open(w->pub.loop, &options, &w->pub.http, &w->fault);
}

/* Closes in the order that keeps requests answerable: the daemon's own part first, whose pending
 * calls answer their requests on the way out, then the server under them. */
static void close_worker(struct daemon_worker *w)
{
    const struct daemon_spec *spec = w->pub.daemon->spec;
    if (spec->worker_stop)
        spec->worker_stop(&w->pub);
    http_server_free(w->pub.http);
    w->pub.http = NULL;
}

static void on_drained(void *arg)
{
    struct daemon_worker *w = arg;
    close_worker(w);
    loop_stop(w->pub.loop);
}

static void on_drain(void *arg)
{
    struct daemon_worker *w = arg;
    http_server_drain(w->pub.http, w->pub.daemon->deadline_ms, on_drained, w);
}

/* The listening socket is open before worker_start, so that it can use w->http; nobody is served
 * before the loop runs. */
static int prepare(struct daemon_worker *w)
{
    const struct daemon *d = w->pub.daemon;
    uint16_t port = w->pub.index > 0 ? http_server_port(d->workers[0].pub.http) : 0;
    if (w->pub.index == 0) {
        const char *setting = d->spec->port_setting ? d->spec->port_setting : "HTTP_PORT";
        port = (uint16_t)config_int(d->config, setting);
    }
    int rc = open_server(w, port);
    if (rc == 0 && d->spec->worker_start)
        rc = d->spec->worker_start(&w->pub, &w->fault);
    else if (rc != 0)
        return rc;
    if (rc != 0)
        close_worker(w);
    return rc;
}

static void *run_worker(void *arg)
{
    struct daemon_worker *w = arg;
    struct daemon *d = w->pub.daemon;
    if (prepare(w) != 0) {
        report_phase(w, DAEMON_REFUSED);
        count_end(d);
        return NULL;
    }
    report_phase(w, DAEMON_RUNNING);
    struct fault f;
    if (loop_run(w->pub.loop, &f) != 0) {
        LOG_ERROR("a worker loop failed", LOG_INT("worker", w->pub.index),
                  LOG_STR("reason", f.text));
        close_worker(w);
        daemon_stop(d, DAEMON_EXIT_FAILED);
    }
    count_end(d);
    return NULL;
}

static int start_worker(struct daemon *d, int index, struct fault *f)
{
    struct daemon_worker *w = &d->workers[index];
    w->pub.daemon = d;
    w->pub.index = index;
    if (loop_new(&w->pub.loop, f) != 0)
        return RC_FATAL;
    (void)pthread_mutex_lock(&d->lock);
    d->under_way++;
    (void)pthread_mutex_unlock(&d->lock);
    if (pthread_create(&w->thread, NULL, run_worker, w) != 0) {
        count_end(d);
        return fault_set(f, RC_FATAL, "cannot start the thread of worker %d", index);
    }
    w->joinable = true;
    char name[16];
    (void)snprintf(name, sizeof name, "worker-%d", index);
    (void)pthread_setname_np(w->thread, name);
    (void)pthread_mutex_lock(&d->lock);
    while (w->phase == DAEMON_STARTING)
        (void)pthread_cond_wait(&d->changed, &d->lock);
    bool refused = w->phase == DAEMON_REFUSED;
    (void)pthread_mutex_unlock(&d->lock);
    if (refused && f)
        *f = w->fault;
    return refused ? RC_FATAL : 0;
}

static int count_workers(const struct daemon *d)
{
    if (d->spec->single_worker)
        return 1;
    int64_t asked = config_int(d->config, "WORKERS");
    if (asked > 0)
        return (int)asked;
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return count < 1 ? 1 : count > MAX_DEFAULT_WORKERS ? MAX_DEFAULT_WORKERS : count;
}

/* SO_REUSEPORT would let a second instance take every other connection without a word. A bind
 * without it fails while anybody listens there. Other failures are left to the server to tell. */
static int check_port_is_free(const struct daemon *d, struct fault *f)
{
    const char *setting = d->spec->port_setting ? d->spec->port_setting : "HTTP_PORT";
    const char *address = config_str(d->config, "HTTP_ADDRESS");
    uint16_t port = (uint16_t)config_int(d->config, setting);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, address, &v6.sin6_addr) != 1)
        return 0;
    int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int rc = is_v4 ? bind(fd, (struct sockaddr *)&v4, sizeof v4)
                   : bind(fd, (struct sockaddr *)&v6, sizeof v6);
    bool taken = port != 0 && rc != 0 && errno == EADDRINUSE;
    (void)close(fd);
    return taken ? fault_set(f, RC_FATAL, "%s: port %u of %s is in use by another process", setting,
                             port, address)
                 : 0;
}

int daemon_workers_start(struct daemon *d, struct fault *f)
{
    if (check_port_is_free(d, f) != 0)
        return RC_FATAL;
    d->worker_count = count_workers(d);
    for (int i = 0; i < d->worker_count; i++)
        if (start_worker(d, i, f) != 0)
            return RC_FATAL;
    return 0;
}

void daemon_workers_drain(struct daemon *d)
{
    for (int i = 0; i < d->worker_count; i++) {
        struct daemon_worker *w = &d->workers[i];
        if (w->joinable && w->phase == DAEMON_RUNNING && loop_post(w->pub.loop, on_drain, w) != 0)
            LOG_WARN("a worker cannot be asked to drain", LOG_INT("worker", i));
    }
}

static void *run_thread(void *arg)
{
    struct daemon_thread *t = arg;
    struct daemon *d = t->daemon;
    if (t->fn(d, t->arg) == RC_FATAL && !daemon_stopping(d)) {
        LOG_ERROR("a thread gave up, stopping", LOG_STR("thread", t->name));
        daemon_stop(d, DAEMON_EXIT_FAILED);
    }
    count_end(d);
    return NULL;
}

static int start_thread(struct daemon_thread *t, struct fault *f)
{
    struct daemon *d = t->daemon;
    (void)pthread_mutex_lock(&d->lock);
    d->under_way++;
    (void)pthread_mutex_unlock(&d->lock);
    if (pthread_create(&t->thread, NULL, run_thread, t) != 0) {
        count_end(d);
        return fault_set(f, RC_FATAL, "cannot start the thread %s", t->name);
    }
    t->joinable = true;
    (void)pthread_setname_np(t->thread, t->name);
    return 0;
}

int daemon_thread(struct daemon *d, const char *name, int (*fn)(struct daemon *d, void *arg),
                  void *arg, struct fault *f)
{
    if (d->threads_may_start || d->thread_count == DAEMON_MAX_THREADS)
        return fault_set(f, RC_FATAL, "thread %s: %s", name,
                         d->threads_may_start ? "can only be added in start()"
                                              : "too many threads");
    struct daemon_thread *t = &d->threads[d->thread_count++];
    *t = (struct daemon_thread){.daemon = d, .fn = fn, .arg = arg};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    return 0;
}

int daemon_threads_start(struct daemon *d, struct fault *f)
{
    d->threads_may_start = true;
    for (int i = 0; i < d->thread_count; i++)
        if (start_thread(&d->threads[i], f) != 0)
            return RC_FATAL;
    return 0;
}

void daemon_join(struct daemon *d)
{
    for (int i = 0; i < d->thread_count; i++)
        if (d->threads[i].joinable)
            (void)pthread_join(d->threads[i].thread, NULL);
    for (int i = 0; i < d->worker_count; i++) {
        if (d->workers[i].joinable)
            (void)pthread_join(d->workers[i].thread, NULL);
        loop_free(d->workers[i].pub.loop);
    }
}

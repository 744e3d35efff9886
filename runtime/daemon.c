/* daemon.c - the life of a daemon: start order, signals, the one way to stop.
 *
 * The main thread runs a loop of its own that only hears signals and the ends of others, so a
 * worker that is busy or a thread that blocks never delays a stop. Start: settings, start(),
 * threads, workers. Stop, whoever asks: loops drain and threads return, side by side, until the
 * deadline; then stop(). A start that fails half-way takes the same road back. */
#include "runtime/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "runtime/clock.h"
#include "runtime/daemon_internal.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/metrics.h"

enum {
    GRACE_MS = 2000, /* past DRAIN_SECONDS, for the last commit of a thread */
    MAX_DESCRIPTORS = 1 << 20,
    SPARE_DESCRIPTORS = 256 /* beside HTTP connections */
};

const struct config *daemon_config(const struct daemon *d)
{
    return d->config;
}

void *daemon_state(const struct daemon *d)
{
    return d->state;
}

void daemon_set_state(struct daemon *d, void *state)
{
    d->state = state;
}

bool daemon_stopping(const struct daemon *d)
{
    return atomic_load(&d->stopping);
}

bool daemon_wait(struct daemon *d, int ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (int64_t)(ms < 0 ? 0 : ms) * 1000000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    (void)pthread_mutex_lock(&d->lock);
    while (!daemon_stopping(d) &&
           pthread_cond_timedwait(&d->changed, &d->lock, &until) != ETIMEDOUT)
        continue;
    (void)pthread_mutex_unlock(&d->lock);
    return daemon_stopping(d);
}

/* Whoever is left holds something that does not answer; what it had not committed is undone by its
 * server, as after a crash. */
static void on_deadline(void *arg)
{
    const struct daemon *d = arg;
    LOG_ERROR("not everything ended in time, leaving", LOG_STR("daemon", d->spec->name));
    _exit(DAEMON_EXIT_FAILED);
}

static void begin_stop(void *arg)
{
    struct daemon *d = arg;
    if (daemon_stopping(d))
        return;
    int64_t drain_ms = config_int(d->config, "DRAIN_SECONDS") * 1000;
    d->deadline_ms = clock_mono_ms() + drain_ms;
    (void)pthread_mutex_lock(&d->lock);
    atomic_store(&d->stopping, true);
    bool none_left = d->under_way == 0;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
    loop_timer_start(d->deadline, drain_ms + GRACE_MS, 0);
    daemon_workers_drain(d);
    if (none_left)
        loop_stop(d->loop);
}

void daemon_stop(struct daemon *d, int exit_code)
{
    (void)pthread_mutex_lock(&d->lock);
    if (d->exit_code == 0)
        d->exit_code = exit_code;
    (void)pthread_mutex_unlock(&d->lock);
    (void)loop_post(d->loop, begin_stop, d);
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct daemon *d = arg;
    struct signalfd_siginfo info;
    if (read((int)fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    const char *name = info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT";
    if (daemon_stopping(d)) {
        LOG_WARN("second signal, leaving at once", LOG_STR("signal", name));
        _exit(DAEMON_EXIT_FAILED);
    }
    LOG_INFO("stopping", LOG_STR("signal", name));
    begin_stop(d);
}

/* Connections are descriptors: take all the system grants, and say so if that is too few. */
static void raise_descriptor_limit(const struct daemon *d)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t most = limit.rlim_max > MAX_DESCRIPTORS ? MAX_DESCRIPTORS : limit.rlim_max;
    if (limit.rlim_cur < most) {
        limit.rlim_cur = most;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            LOG_DEBUG("the descriptor limit stays", LOG_INT("limit", limit.rlim_cur));
    }
    int64_t wanted = config_int(d->config, "MAX_CONNECTIONS") + SPARE_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)wanted)
        LOG_WARN("MAX_CONNECTIONS is more than the descriptor limit allows (ulimit -Hn)",
                 LOG_INT("limit", limit.rlim_cur), LOG_INT("wanted", wanted));
}

/* Signals are blocked before any thread exists, so that all inherit it and only the main loop's
 * signalfd hears them. */
static int listen_for_signals(struct daemon *d, sigset_t *out_before, struct event **out_event,
                              struct fault *f)
{
    sigset_t heard;
    (void)sigemptyset(&heard);
    (void)sigaddset(&heard, SIGTERM);
    (void)sigaddset(&heard, SIGINT);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)pthread_sigmask(SIG_BLOCK, &heard, out_before);
    d->signal_fd = signalfd(-1, &heard, SFD_NONBLOCK | SFD_CLOEXEC);
    if (d->signal_fd >= 0)
        *out_event =
            event_new(loop_base(d->loop), d->signal_fd, EV_READ | EV_PERSIST, on_signal, d);
    if (!*out_event || event_add(*out_event, NULL) != 0)
        return fault_set(f, RC_FATAL, "cannot listen for signals");
    return 0;
}

static int start_all(struct daemon *d, struct fault *f)
{
    int rc = d->spec->start ? d->spec->start(d, f) : 0;
    if (rc == 0)
        rc = daemon_threads_start(d, f);
    if (rc == 0)
        rc = daemon_workers_start(d, f);
    if (rc != 0)
        return rc;
    LOG_INFO("started", LOG_STR("version", URR_VERSION),
             LOG_STR("address", config_str(d->config, "HTTP_ADDRESS")),
             LOG_INT("port", http_server_port(d->workers[0].pub.http)),
             LOG_INT("workers", d->worker_count));
    return 0;
}

/* Until the last worker and thread has ended; stop() runs also after a start that failed. */
static void live(struct daemon *d)
{
    struct fault f = {0};
    if (start_all(d, &f) != 0) {
        LOG_ERROR("cannot start", LOG_STR("reason", f.text));
        daemon_stop(d, DAEMON_EXIT_FAILED);
    }
    if (loop_run(d->loop, &f) != 0) {
        LOG_ERROR("the main loop failed", LOG_STR("reason", f.text));
        _exit(DAEMON_EXIT_FAILED);
    }
    daemon_join(d);
    if (d->spec->stop)
        d->spec->stop(d);
}

static int run(struct daemon *d)
{
    struct fault f = {0};
    sigset_t before;
    struct event *signals = NULL;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &before);
    if (loop_new(&d->loop, &f) != 0 || listen_for_signals(d, &before, &signals, &f) != 0 ||
        loop_timer_new(d->loop, on_deadline, d, &d->deadline, &f) != 0) {
        LOG_ERROR("cannot start", LOG_STR("reason", f.text));
        d->exit_code = DAEMON_EXIT_FAILED;
    } else {
        raise_descriptor_limit(d);
        daemon_health_init(d);
        live(d);
        LOG_INFO("stopped", LOG_INT("exit", d->exit_code));
    }
    loop_timer_free(d->deadline);
    if (signals)
        event_free(signals);
    if (d->signal_fd >= 0)
        (void)close(d->signal_fd);
    loop_free(d->loop);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return d->exit_code;
}

static struct daemon *new_daemon(const struct daemon_spec *spec)
{
    struct daemon *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->spec = spec;
    d->signal_fd = -1;
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&d->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&d->lock, NULL);
    return d;
}

int daemon_main(const struct daemon_spec *spec, int argc, char **argv)
{
    struct daemon *d = new_daemon(spec);
    if (!d) {
        (void)fprintf(stderr, "%s: no memory\n", spec->name);
        return DAEMON_EXIT_FAILED;
    }
    int exit_code;
    if (!daemon_cli(d, argc, argv, &exit_code))
        exit_code = run(d);
    config_free(d->config);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
    return exit_code;
}

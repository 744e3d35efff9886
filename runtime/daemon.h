/* daemon.h - what every URR daemon does the same way: settings, logs, metrics, loops, health, stop.
 *
 * A daemon is a `struct daemon_spec` and `return daemon_main(&spec, argc, argv)`. daemon_main reads
 * the command line (--help, --version, --check-config, --config FILE, --describe for the docs),
 * loads the settings, starts the worker loops with their HTTP servers, and runs until SIGTERM or
 * SIGINT; then it drains within DRAIN_SECONDS and exits 0. A second signal ends it at once.
 *
 * Served on every daemon: /health and /healthz (200 while the process lives; never ask a server),
 * /readyz (200, or 503 with the reasons), /metrics. */
#ifndef DAEMON_H
#define DAEMON_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct config;
struct config_item;
struct daemon;
struct fault;
struct http_route;
struct http_server;
struct loop;
struct metric_def;

/* One per worker loop; handed to HTTP handlers as their argument. */
struct worker {
    struct daemon *daemon;
    struct loop *loop;
    struct http_server *http;
    int index;
    void *state; /* the daemon's own, set in worker_start */
};

struct daemon_spec {
    const char *name;                          /* "urr-queue" */
    const char *purpose;                       /* one line for --help */
    const struct config_item *const *settings; /* tables, see config.h; runtime's own are added */
    const struct http_route *const *routes;    /* may be NULL; the health routes are added */
    const struct metric_def *const
        *metrics;             /* tables for --describe, each ending with a NULL name; may be NULL */
    const char *default_port; /* of HTTP_PORT */
    const char
        *port_setting; /* the name of the port's setting, e.g. "QUEUE_PORT"; NULL: HTTP_PORT */
    /* All may be NULL. start: once, before any loop runs. worker_start: on each loop's thread, with
     * w->http open, before it serves. worker_stop: on it, after the drain. stop: once, after the
     * loops and threads ended. The two stops also follow a start that failed: they free what is
     * there. A signal that comes during a start is heard after it: a start that needs a server
     * connects in the background. */
    int (*start)(struct daemon *d, struct fault *f);
    int (*worker_start)(struct worker *w, struct fault *f);
    void (*worker_stop)(struct worker *w);
    void (*stop)(struct daemon *d);
    bool single_worker; /* no WORKERS setting: one loop is enough */
};

int daemon_main(const struct daemon_spec *spec, int argc, char **argv);

const struct config *daemon_config(const struct daemon *d);
void *daemon_state(const struct daemon *d);
void daemon_set_state(struct daemon *d, void *state);

/* Only in `start`: a thread beside the loops (a Kafka consumer, the relay), started after it and
 * joined before `stop`. The function returns soon after daemon_stopping() turns true; a return
 * before that with RC_FATAL stops the daemon with exit code 1. */
int daemon_thread(struct daemon *d, const char *name, int (*fn)(struct daemon *d, void *arg),
                  void *arg, struct fault *f);
bool daemon_stopping(const struct daemon *d);
/* Waits up to ms, or until the daemon stops; true when it is stopping. For threads' backoff. */
bool daemon_wait(struct daemon *d, int ms);
/* Any thread: begin the graceful stop with that exit code. */
void daemon_stop(struct daemon *d, int exit_code);

/* A named condition of /readyz, red until set; the same name is the same condition. Any thread;
 * `reason` is copied. At most 32 (aborts past it: a programming error). A change is logged here. */
struct readiness;
struct readiness *daemon_readiness(struct daemon *d, const char *name);
void readiness_set(struct readiness *r, bool ready, const char *reason);

#endif

/* daemon_internal.h - what the daemon's files share; nobody else includes it. */
#ifndef DAEMON_INTERNAL_H
#define DAEMON_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "runtime/config.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"

enum {
    DAEMON_MAX_WORKERS = 64,
    DAEMON_MAX_THREADS = 32,
    DAEMON_MAX_TABLES = 32, /* of settings, of routes, of metrics */
    DAEMON_MAX_READINESS = 32,
    DAEMON_OWN_SETTINGS = 10
};

/* Exit codes of every daemon; --help prints them. */
enum { DAEMON_EXIT_OK = 0, DAEMON_EXIT_FAILED = 1, DAEMON_EXIT_USAGE = 2 };

struct readiness {
    struct daemon *daemon;
    struct metric *gauge;
    char name[64];
    bool ready;
    char reason[192];
};

/* Where a worker's thread is; guarded by the daemon's lock. */
enum daemon_phase { DAEMON_STARTING, DAEMON_RUNNING, DAEMON_REFUSED };

struct daemon_worker {
    struct worker pub; /* what handlers see */
    pthread_t thread;
    enum daemon_phase phase;
    bool joinable;
    struct fault fault;
};

struct daemon_thread {
    struct daemon *daemon;
    char name[16]; /* the kernel's limit */
    int (*fn)(struct daemon *d, void *arg);
    void *arg;
    pthread_t thread;
    bool joinable;
};

struct daemon {
    const struct daemon_spec *spec;
    struct config_item own[DAEMON_OWN_SETTINGS];
    const struct config_item *settings[DAEMON_MAX_TABLES + 2];
    const struct http_route *routes[DAEMON_MAX_TABLES + 2];
    struct config *config;
    void *state;
    struct loop *loop; /* the main thread's: signals, the end of workers and threads */
    int signal_fd;
    atomic_bool stopping;
    int64_t deadline_ms; /* of the drain; set before `stopping` */
    struct loop_timer *deadline;

    pthread_mutex_t lock; /* guards what follows; never held across a call out */
    pthread_cond_t changed;
    int exit_code;
    int under_way; /* workers and threads that have not ended */
    bool threads_may_start;
    int worker_count, thread_count, readiness_count;
    struct daemon_worker workers[DAEMON_MAX_WORKERS];
    struct daemon_thread threads[DAEMON_MAX_THREADS];
    struct readiness readiness[DAEMON_MAX_READINESS];
};

/* daemon_cli.c: the command line. Fills the tables of d; returns true when *out_exit is the answer
 * (help was printed, a setting is bad), false when the daemon should run, with d->config loaded. */
bool daemon_cli(struct daemon *d, int argc, char **argv, int *out_exit);

/* daemon_health.c: the routes every daemon serves (their argument is the server's: a struct
 * worker), and the metrics of the process. */
extern const struct http_route DAEMON_HEALTH_ROUTES[];
extern const struct metric_def DAEMON_METRICS[];
void daemon_health_init(const struct daemon *d);

/* daemon_worker.c: loops with their HTTP servers, and the threads beside them. */
int daemon_workers_start(struct daemon *d, struct fault *f);
/* Asks every running loop to drain until d->deadline_ms. */
void daemon_workers_drain(struct daemon *d);
int daemon_threads_start(struct daemon *d, struct fault *f);
/* Waits for all of them; every one has been told to end. */
void daemon_join(struct daemon *d);

#endif

/* resolve.c - a thread per look-up, an eventfd to say it is done.
 *
 * Loop and thread share the job and each holds one reference: whoever is last frees it, so a
 * cancelled look-up may outlive its loop. */
#include "runtime/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "runtime/fault.h"
#include "runtime/loop.h"

enum { STACK_BYTES = 512 * 1024, HOST_MAX = 256 };

struct resolve {
    atomic_int refs;
    int fd;
    char hosts[RESOLVE_NAMES_MAX];
    struct resolve_answer answer; /* the thread's until it has written to fd */
    struct event *done;           /* the rest is the loop's */
    resolve_fn fn;
    void *arg;
};

static atomic_int threads;

/* The next of the names between commas; false at the end. An overlong one is cut: no such host. */
static bool next_host(const char **at, char out[HOST_MAX])
{
    if (!*at)
        return false;
    size_t len = strcspn(*at, ",");
    (void)snprintf(out, HOST_MAX, "%.*s", (int)len, *at);
    *at = (*at)[len] ? *at + len + 1 : NULL;
    return true;
}

static bool is_path(const char *host)
{
    return host[0] == '\0' || host[0] == '/' || host[0] == '@';
}

static bool is_numeric(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return strchr(host, '%') || inet_pton(AF_INET, host, address) == 1 ||
           inet_pton(AF_INET6, host, address) == 1;
}

bool resolve_needed(const char *hosts)
{
    char host[HOST_MAX];
    while (next_host(&hosts, host))
        if (!is_path(host) && !is_numeric(host))
            return true;
    return false;
}

static void add(struct resolve_answer *a, unsigned host, const char *text)
{
    if (a->count == RESOLVE_ADDRESSES)
        return;
    a->at[a->count].host = host;
    (void)snprintf(a->at[a->count].text, sizeof a->at[0].text, "%s", text);
    a->count++;
}

static void add_family(struct resolve_answer *a, unsigned host, const struct addrinfo *list,
                       bool ipv4)
{
    for (; list; list = list->ai_next) {
        char text[sizeof a->at[0].text];
        if ((list->ai_family == AF_INET) == ipv4 &&
            getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, NULL, 0,
                        NI_NUMERICHOST) == 0)
            add(a, host, text);
    }
}

static void look_up(struct resolve_answer *a, unsigned number, const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(host, NULL, &hints, &found);
    if (rc != 0) {
        (void)snprintf(a->reason, sizeof a->reason, "cannot look %.80s up: %s", host,
                       gai_strerror(rc));
        return;
    }
    add_family(a, number, found, true);
    add_family(a, number, found, false);
    freeaddrinfo(found);
}

static void unref(struct resolve *r)
{
    if (atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    (void)close(r->fd);
    free(r);
}

static void *run(void *arg)
{
    struct resolve *r = arg;
    const char *at = r->hosts;
    char host[HOST_MAX];
    for (unsigned number = 0; next_host(&at, host); number++) {
        if (is_path(host))
            add(&r->answer, number, "");
        else
            look_up(&r->answer, number, host);
    }
    uint64_t one = 1;
    atomic_fetch_sub(&threads, 1);
    ssize_t told = write(r->fd, &one, sizeof one); /* cannot fail: the counter is at 0 */
    (void)told;
    unref(r);
    return NULL;
}

static void on_done(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct resolve *r = arg;
    uint64_t one;
    if (read(fd, &one, sizeof one) < 0)
        return;
    event_free(r->done);
    r->fn(&r->answer, r->arg);
    unref(r);
}

/* No signal is for this thread: the daemon's are taken by its loops. */
static bool spawn(struct resolve *r)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int rc = pthread_create(&thread, &attr, run, r);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc == 0;
}

static bool prepare(struct resolve *r, struct loop *l)
{
    r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->fd < 0)
        return false;
    r->done = event_new(loop_base(l), r->fd, EV_READ, on_done, r);
    if (r->done && event_add(r->done, NULL) == 0 && spawn(r))
        return true;
    if (r->done)
        event_free(r->done);
    (void)close(r->fd);
    return false;
}

int resolve_start(struct loop *l, const char *hosts, resolve_fn fn, void *arg, struct resolve **out,
                  struct fault *f)
{
    if (strlen(hosts) >= RESOLVE_NAMES_MAX)
        return fault_set(f, RC_REJECT, "host names of more than %d bytes", RESOLVE_NAMES_MAX);
    if (atomic_fetch_add(&threads, 1) >= RESOLVE_MAX) {
        atomic_fetch_sub(&threads, 1);
        return fault_set(f, RC_RETRY, "%d look-ups of host names have not been answered yet",
                         RESOLVE_MAX);
    }
    struct resolve *r = calloc(1, sizeof *r);
    if (r) {
        atomic_init(&r->refs, 2);
        memcpy(r->hosts, hosts, strlen(hosts) + 1);
        r->fn = fn;
        r->arg = arg;
    }
    if (!r || !prepare(r, l)) {
        free(r);
        atomic_fetch_sub(&threads, 1);
        return fault_set(f, RC_RETRY, "no thread to look a host name up");
    }
    *out = r;
    return 0;
}

void resolve_cancel(struct resolve *r)
{
    if (!r)
        return;
    event_free(r->done);
    unref(r);
}

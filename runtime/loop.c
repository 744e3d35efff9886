/* loop.c - libevent behind a small interface; posts travel through a locked list and an eventfd. */
#include "runtime/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "runtime/clock.h"
#include "runtime/fault.h"

struct post {
    struct post *next;
    loop_fn fn;
    void *arg;
};

struct loop {
    struct event_base *base;
    struct event *wake_event;
    int wake_fd;
    pthread_mutex_t lock; /* guards the list below; held for a few instructions only */
    struct post *first, *last;
    unsigned posts;
    atomic_bool stopping;
};

struct loop_timer {
    struct event *event;
    loop_fn fn;
    void *arg;
    int64_t every_ms;
};

static struct post *take_posts(struct loop *l)
{
    (void)pthread_mutex_lock(&l->lock);
    struct post *list = l->first;
    l->first = l->last = NULL;
    l->posts = 0;
    (void)pthread_mutex_unlock(&l->lock);
    return list;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct loop *l = arg;
    uint64_t count;
    (void)!read((int)fd, &count, sizeof count);
    struct post *post = take_posts(l);
    while (post) {
        struct post *next = post->next;
        post->fn(post->arg);
        free(post);
        post = next;
    }
    if (atomic_load(&l->stopping))
        (void)event_base_loopbreak(l->base);
}

static void wake(struct loop *l)
{
    uint64_t one = 1;
    (void)!write(l->wake_fd, &one, sizeof one);
}

/* Closes what loop_new() has opened so far. */
static void close_parts(struct loop *l)
{
    if (l->wake_event)
        event_free(l->wake_event);
    if (l->base)
        event_base_free(l->base);
    if (l->wake_fd >= 0)
        (void)close(l->wake_fd);
}

int loop_new(struct loop **out, struct fault *f)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return fault_set(f, RC_FATAL, "no memory for an event loop");
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct event_config *config = event_config_new();
    if (config) {
        (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        (void)event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
        l->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (l->base && l->wake_fd >= 0)
        l->wake_event = event_new(l->base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l);
    if (!l->wake_event || event_add(l->wake_event, NULL) != 0) {
        close_parts(l);
        free(l);
        return fault_set(f, RC_FATAL, "cannot make an event loop: out of file descriptors?");
    }
    (void)pthread_mutex_init(&l->lock, NULL);
    *out = l;
    return 0;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    for (struct post *post = take_posts(l); post;) {
        struct post *next = post->next;
        free(post);
        post = next;
    }
    close_parts(l);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

struct event_base *loop_base(struct loop *l)
{
    return l->base;
}

int loop_run(struct loop *l, struct fault *f)
{
    if (event_base_loop(l->base, EVLOOP_NO_EXIT_ON_EMPTY) < 0)
        return fault_set(f, RC_FATAL, "the event loop failed");
    return 0;
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->stopping, true);
    wake(l);
}

int loop_post(struct loop *l, loop_fn fn, void *arg)
{
    struct post *post = malloc(sizeof *post);
    if (!post)
        return RC_RETRY;
    *post = (struct post){.fn = fn, .arg = arg};
    (void)pthread_mutex_lock(&l->lock);
    bool full = l->posts >= LOOP_MAX_POSTS;
    if (!full) {
        if (l->last)
            l->last->next = post;
        else
            l->first = post;
        l->last = post;
        l->posts++;
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (full) {
        free(post);
        return RC_RETRY;
    }
    wake(l);
    /* cppcheck-suppress memleak ; the list owns it now */
    return 0;
}

int64_t loop_now_ms(struct loop *l)
{
    (void)l;
    return clock_mono_ms();
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct loop_timer *t = arg;
    if (t->every_ms > 0)
        loop_timer_start(t, t->every_ms, t->every_ms);
    t->fn(t->arg); /* last: it may free the timer */
}

int loop_timer_new(struct loop *l, loop_fn fn, void *arg, struct loop_timer **out, struct fault *f)
{
    struct loop_timer *t = calloc(1, sizeof *t);
    if (t)
        t->event = evtimer_new(l->base, on_timer, t);
    if (!t || !t->event) {
        free(t);
        return fault_set(f, RC_FATAL, "no memory for a timer");
    }
    t->fn = fn;
    t->arg = arg;
    *out = t;
    return 0;
}

void loop_timer_start(struct loop_timer *t, int64_t delay_ms, int64_t every_ms)
{
    t->every_ms = every_ms;
    struct timeval tv = {.tv_sec = delay_ms / 1000, .tv_usec = (delay_ms % 1000) * 1000};
    (void)evtimer_add(t->event, &tv);
}

void loop_timer_stop(struct loop_timer *t)
{
    (void)event_del(t->event);
}

void loop_timer_free(struct loop_timer *t)
{
    if (!t)
        return;
    event_free(t->event);
    free(t);
}

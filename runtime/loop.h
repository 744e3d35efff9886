/* loop.h - one libevent loop per worker thread: timers, wake-ups from other threads, drain.
 *
 * Nothing blocks in a callback. A loop and everything on it belongs to one thread; only loop_post()
 * and loop_stop() may be called from others. */
#ifndef LOOP_H
#define LOOP_H
#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct fault;
struct loop;
struct loop_timer;

typedef void (*loop_fn)(void *arg);

enum { LOOP_MAX_POSTS = 65536 }; /* posted and not yet run, per loop */

int loop_new(struct loop **out, struct fault *f);
void loop_free(struct loop *l); /* after loop_run() returned; runs no callbacks */

struct event_base *loop_base(struct loop *l); /* for adapters in runtime/ only */

/* Runs until loop_stop(). Returns 0, or RC_FATAL when the kernel refuses to wait. */
int loop_run(struct loop *l, struct fault *f);
void loop_stop(struct loop *l); /* any thread; callbacks already due still run first */

/* Any thread: runs fn(arg) once on the loop's thread, in posting order. RC_RETRY when
 * LOOP_MAX_POSTS are waiting: fn will not be called then. */
int loop_post(struct loop *l, loop_fn fn, void *arg);

/* Monotonic milliseconds as of the current round of callbacks: cheap. */
int64_t loop_now_ms(struct loop *l);

/* A timer is created stopped, is restarted by start (which replaces a pending run), fires once
 * after delay_ms unless `every_ms` > 0, which repeats it. Freeing a timer from its own callback is
 * fine. */
int loop_timer_new(struct loop *l, loop_fn fn, void *arg, struct loop_timer **out, struct fault *f);
void loop_timer_start(struct loop_timer *t, int64_t delay_ms, int64_t every_ms);
void loop_timer_stop(struct loop_timer *t);
void loop_timer_free(struct loop_timer *t); /* accepts NULL */

#endif

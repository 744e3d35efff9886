/* breaker.h - stops calling a server that fails, and finds out when it is well again.
 *
 * Closed: calls pass; when the last `window` calls hold too many failures or too many slow ones it
 * opens. Open: calls are refused for `open_ms`. Half open: `trials` calls pass; when all have come
 * back the same two shares decide between closed and open.
 *
 * A call is bracketed by breaker_enter() and breaker_leave(). The ticket between them ties a result
 * to the period it began in: a call that was sent before the breaker opened says nothing about the
 * trials. Pure: time is an argument. Belongs to one thread. */
#ifndef BREAKER_H
#define BREAKER_H
#include <stdbool.h>
#include <stdint.h>

enum { BREAKER_MAX_WINDOW = 64 };

struct breaker_rules {
    uint32_t window;          /* 1..BREAKER_MAX_WINDOW; no verdict before it is full */
    uint32_t failure_percent; /* opens at this share of failures */
    uint32_t slow_percent;    /* or at this share of calls slower than slow_ms */
    int64_t slow_ms;
    int64_t open_ms;
    uint32_t trials;       /* 1..window */
    bool connections_only; /* only BREAKER_NO_CONNECTION counts: a slow answer is still an answer */
};

/* Window 10, 50 % failures or 80 % slower than 3 s, open for 10 s, 3 trials. */
extern const struct breaker_rules BREAKER_RULES;
/* The same, counting connection failures only: for Redis, where a refusal is a correct answer. */
extern const struct breaker_rules BREAKER_CONNECTION_RULES;

enum breaker_state {
    BREAKER_CLOSED,
    BREAKER_HALF_OPEN,
    BREAKER_OPEN
}; /* also the metric's value */

enum breaker_outcome {
    BREAKER_OK,
    BREAKER_FAILED,        /* it answered, badly */
    BREAKER_NO_CONNECTION, /* refused, lost, or silent past the deadline */
    BREAKER_CANCELLED      /* the caller gave up: counts for nothing, gives a trial back */
};

/* Caller's memory; fields are the module's own. */
struct breaker {
    struct breaker_rules rules;
    enum breaker_state state;
    uint32_t period;   /* goes up with every change of state; a ticket names its period */
    uint32_t seen;     /* results in the ring (closed) or trials come back (half open) */
    uint32_t next;     /* ring position */
    uint32_t failures; /* among the results seen */
    uint32_t slow;
    uint32_t entered; /* trials handed out */
    uint32_t opened;  /* times it has opened, ever */
    int64_t open_until_ms;
    uint8_t ring[BREAKER_MAX_WINDOW];
};

/* Copies *rules; values out of range are brought into it. */
void breaker_init(struct breaker *b, const struct breaker_rules *rules);

/* A ticket for one call, or 0: do not call (RC_RETRY to whoever asked). Each ticket is given back
 * by exactly one breaker_leave(). */
uint32_t breaker_enter(struct breaker *b, int64_t now_ms);
void breaker_leave(struct breaker *b, uint32_t ticket, enum breaker_outcome outcome,
                   int64_t took_ms, int64_t now_ms);

/* The caller has other proof that the server is well (a fresh connection has been greeted): closed,
 * with an empty window. Calls under way no longer count. */
void breaker_close(struct breaker *b);

/* The state at now_ms: an open breaker whose time has passed reads as half open. */
enum breaker_state breaker_state(const struct breaker *b, int64_t now_ms);
const char *breaker_state_name(enum breaker_state s); /* "closed", "half_open", "open" */

/* How long a refused caller should wait, for Retry-After; 0 unless open. */
int64_t breaker_wait_ms(const struct breaker *b, int64_t now_ms);

#endif

/* fault.h - what went wrong, and what the caller should do next. */
#ifndef FAULT_H
#define FAULT_H

/* Return codes of every fallible call: 0, or what the caller does next. */
enum {
    RC_RETRY = -1,  /* the same call may succeed later: wait and try again */
    RC_REJECT = -2, /* this input never will: refuse it, dead-letter it */
    RC_FATAL = -3   /* nothing here can go on: stop, or let an operator decide */
};

struct fault {
    int rc;         /* the code that was returned */
    char text[192]; /* one plain sentence, no secrets */
};

/* Fills *f (which may be NULL) and returns rc, so that `return fault_set(f, RC_REJECT, ...)` reads
 * as one step. Text that does not fit is cut. */
__attribute__((format(printf, 3, 4))) int fault_set(struct fault *f, int rc, const char *fmt, ...);

/* Puts "context: " before the text of *f; returns f->rc. */
__attribute__((format(printf, 2, 3))) int fault_wrap(struct fault *f, const char *fmt, ...);

#endif

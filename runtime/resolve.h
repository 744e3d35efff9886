/* resolve.h - host names looked up without holding up the loop.
 *
 * getaddrinfo() blocks for as long as the name servers like, so each look-up runs on a thread of
 * its own, at most RESOLVE_MAX of them in a process. It answers as getaddrinfo() does (hosts file,
 * DNS, whatever nsswitch.conf names), IPv4 first. A look-up has no deadline of its own: its owner
 * cancels it, and the thread ends when libc gives up. */
#ifndef RESOLVE_H
#define RESOLVE_H
#include <stdbool.h>
#include <stddef.h>

struct fault;
struct loop;
struct resolve; /* a look-up under way */

enum { RESOLVE_ADDRESSES = 16, RESOLVE_MAX = 8, RESOLVE_NAMES_MAX = 1024 };

struct resolve_address {
    unsigned host; /* which of the names asked for, from 0 */
    char text[64]; /* numeric; "" for a socket path, which stands for itself */
};

struct resolve_answer {
    unsigned count;
    struct resolve_address at[RESOLVE_ADDRESSES];
    char reason[160]; /* why there is none, when count is 0 */
};

typedef void (*resolve_fn)(const struct resolve_answer *answer, void *arg);

/* Is there a name among them? `hosts` is one host or several with commas between. Numeric addresses
 * and socket paths ("/…", "@…", "") need no look-up. */
bool resolve_needed(const char *hosts);

/* Calls fn(answer, arg) once, from the loop, never before it returns; *out is gone then. A name
 * that cannot be found is left out while others can. RC_RETRY: too many look-ups are under way, or
 * no thread could be had; RC_REJECT: more than RESOLVE_NAMES_MAX bytes. */
int resolve_start(struct loop *l, const char *hosts, resolve_fn fn, void *arg, struct resolve **out,
                  struct fault *f);
void resolve_cancel(struct resolve *r); /* fn will not be called; accepts NULL */

#endif

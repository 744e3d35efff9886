/* room_audit.h - replays an event's admission log and says whether everybody was treated fairly.
 *
 * Entries go in in the log's order; the audit keeps who waits, who is parked and who is inside, as
 * the log says, and looks at each step:
 *
 *   inversion   somebody was let in while a user with a smaller place was waiting (not parked), or
 *               came back to a better place than their own
 *   overshoot   after an admission more were inside than the threshold in force allowed
 *   lost        somebody went without an entry, or came back to a worse place than their own
 *   double      two users at one place, or one let in who is inside
 *   mismatch    the entry's own count of those inside is not what the log adds up to
 *
 * A slot that an entry token restores is no admission by turn: order does not apply to it. Until a
 * snapshot is complete only a part of the users is known: what is found then is true, but not all.
 *
 * Pure: no clock, no servers. One thread. */
#ifndef ROOM_AUDIT_H
#define ROOM_AUDIT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/histogram.h"

struct cJSON;
struct fault;
struct redisReply;
struct room_audit;

enum { ROOM_AUDIT_FINDINGS = 20, ROOM_AUDIT_TEXT = 200 };

/* One entry; what it does not have is "" or -1. Everything is borrowed for the call. */
struct room_entry {
    const char *id; /* of the stream: names it in findings */
    const char *kind, *user, *reason, *of, *members;
    int64_t score, active, threshold, at_ms;
};

enum room_finding {
    ROOM_INVERSION,
    ROOM_OVERSHOOT,
    ROOM_LOST,
    ROOM_DOUBLE,
    ROOM_MISMATCH,
    ROOM_FINDINGS
};
extern const char *const ROOM_FINDING_NAMES[ROOM_FINDINGS]; /* "inversion" … */

struct room_audit_report {
    int64_t entries, first_ms, last_ms;
    bool complete; /* everybody is known: the log reached the end of a snapshot it began, or its
                    * start
                    */
    int64_t joined, returned, admitted, restored, parked, expired, left, cleared;
    int64_t losses;    /* epochs that rose because Redis had lost something */
    int64_t displaced; /* came back behind the restored: their place was given out twice */
    int64_t waiting, away, inside, peak_inside, threshold;
    int64_t found[ROOM_FINDINGS];
    int64_t told; /* texts below, the first ones of all */
    char texts[ROOM_AUDIT_FINDINGS][ROOM_AUDIT_TEXT];
    struct histogram wait_ms; /* from joining Tier 2 to the first admission */
};

/* max_users bounds what is remembered. RC_FATAL: no memory. */
int room_audit_new(size_t max_users, struct room_audit **out, struct fault *f);
void room_audit_free(struct room_audit *a); /* accepts NULL */

/* RC_REJECT: more than max_users at once, or no memory; the audit cannot go on. */
int room_audit_apply(struct room_audit *a, const struct room_entry *e, struct fault *f);

/* What Redis holds, to compare with: between begin and end every member of the three sets, in any
 * order and as often as one likes; entries that happen meanwhile are applied as they come (the
 * users they are about are not compared). */
enum room_where { ROOM_NOWHERE, ROOM_WAITS, ROOM_AWAY, ROOM_INSIDE };
void room_audit_compare_begin(struct room_audit *a);
void room_audit_compare(struct room_audit *a, const char *user, enum room_where where);
void room_audit_compare_end(struct room_audit *a);

/* Valid until the next call. */
const struct room_audit_report *room_audit_report(struct room_audit *a);
bool room_audit_clean(const struct room_audit_report *r); /* nothing found */

/* One element of XRANGE's answer, or one line of the log file as an object (values as text or
 * whole numbers). False: it is no entry. The strings are borrowed from it. */
bool room_entry_of_reply(const struct redisReply *element, struct room_entry *out);
bool room_entry_of_json(const struct cJSON *object, struct room_entry *out);

#endif

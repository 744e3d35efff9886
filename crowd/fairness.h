/* fairness.h - what a crowd can prove about its own treatment, from nothing but answers.
 *
 * Order is the server's own: the epoch and number in each user's place. A user was overtaken when
 *   - it had been told that it waits before some other, with a larger number, can have been let in
 *     (that is: before the last request that still found the other one waiting, or outside, was
 * sent),
 *   - it was heard from all the time (no gap of present_us: whoever is silent may be parked), and
 *   - it was still told that it waits, by an answer to a request sent after the other had been told
 *     that it is inside.
 * Each step is a message sent after another arrived, so no clock and no delay can make it wrong.
 *
 * Pure; times are the caller's. */
#ifndef FAIRNESS_H
#define FAIRNESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fault;
struct fairness;

struct fair_user { /* zeroed at first */
    int64_t score; /* 0: not known */
    int64_t present_us, heard_us, last_waiting_us, expires_ms;
    bool inside, overtaken;
};

struct fair_report {
    int64_t inversions; /* users overtaken */
    int64_t overshoot;  /* most that were inside beyond the largest threshold told; 0: never */
    int64_t doubles;    /* users at a place that another has */
    int64_t peak_inside, threshold;
};

int fairness_new(size_t max_users, int64_t present_us, struct fairness **out, struct fault *f);
void fairness_free(struct fairness *f); /* accepts NULL */

/* epoch * 2^33 + number of a signed place (k.epoch.number.issued.mac, base 36); 0: it is none. */
int64_t fairness_score(const char *place);

void fairness_threshold(struct fairness *f, int64_t threshold);
/* The user was told to wait, by an answer to a request sent at sent_us. `firm` false: by a stream,
 * whose message may be older; then true is returned when it looks as if the user was overtaken, and
 * the caller should ask. Otherwise true when it was, for the first time. */
bool fairness_waits(struct fairness *f, struct fair_user *u, int64_t sent_us, int64_t heard_us,
                    bool firm);
/* The user was told that it is inside, until expires_ms (wall clock; 0: unknown). */
void fairness_enters(struct fairness *f, struct fair_user *u, int64_t sent_us, int64_t heard_us,
                     int64_t expires_ms, int64_t now_ms);
void fairness_leaves(struct fairness *f, struct fair_user *u); /* before the request goes out */
void fairness_silent(struct fair_user *u);                     /* it sleeps: not present any more */

void fairness_report(struct fairness *f, const struct fair_user *users, size_t stride, size_t count,
                     struct fair_report *out);

#endif

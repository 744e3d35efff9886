/* room_audit.c - the replay: a table of users and a heap of those who wait.
 *
 * The heap is lazy: a user who leaves the queue stays in it until found at its top. An entry of it
 * counts only while the user waits at just that place, so old ones can do no harm. */
#include "queue-core/room_audit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"

#define LINE_END ((INT64_C(1) << 33) - (INT64_C(1) << 20)) /* as in prelude.lua */
#define TWO33 (INT64_C(1) << 33)
enum { FIRST_SLOTS = 1024, FIRST_HEAP = 1024 };

const char *const ROOM_FINDING_NAMES[ROOM_FINDINGS] = {"inversion", "overshoot", "lost", "double",
                                                       "mismatch"};

struct member {
    char *user;
    int64_t score;
    int64_t joined_ms; /* -1: unknown, or the wait has been counted */
    uint64_t heard;    /* the snapshot or comparison in which it was last named */
    enum room_where where;
};

struct waiting {
    int64_t score;
    struct member *member;
};

struct room_audit {
    struct room_audit_report report;
    struct member **slots; /* open addressing, a power of two */
    size_t slot_count, used, max_users;
    int64_t counts[ROOM_INSIDE + 1];
    struct waiting *heap;
    size_t heap_len, heap_cap;
    uint64_t round;      /* of the snapshot or comparison under way, or the last one */
    bool in_snapshot;    /* its first entry was seen: who is not named by its end is lost */
    bool known_at_start; /* everybody was known when that snapshot began */
    bool comparing;
};

/* Findings ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void find(struct room_audit *a, enum room_finding what,
                                                       const char *fmt, ...)
{
    struct room_audit_report *r = &a->report;
    r->found[what]++;
    if (r->told == ROOM_AUDIT_FINDINGS)
        return;
    char *text = r->texts[r->told++];
    int len = snprintf(text, ROOM_AUDIT_TEXT, "%s: ", ROOM_FINDING_NAMES[what]);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text + len, ROOM_AUDIT_TEXT - (size_t)len, fmt, args);
    va_end(args);
}

/* The table ----------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *user)
{
    uint64_t h = 14695981039346656037U;
    for (; *user; user++)
        h = (h ^ (unsigned char)*user) * 1099511628211U;
    return h ^ (h >> 29);
}

static struct member **slot_of(struct member **slots, size_t count, const char *user)
{
    size_t at = hash_of(user) & (count - 1);
    while (slots[at] && strcmp(slots[at]->user, user) != 0)
        at = (at + 1) & (count - 1);
    return &slots[at];
}

static void free_member(struct member *m)
{
    if (m)
        free(m->user);
    free(m);
}

static bool counts_now(const struct waiting *w)
{
    return w->member->where == ROOM_WAITS && w->member->score == w->score;
}

static void heap_sift(struct waiting *heap, size_t len, size_t at)
{
    struct waiting moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < len; at = child) {
        if (child + 1 < len && heap[child + 1].score < heap[child].score)
            child++;
        if (moved.score <= heap[child].score)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void heap_tidy(struct room_audit *a)
{
    size_t kept = 0;
    for (size_t i = 0; i < a->heap_len; i++)
        if (counts_now(&a->heap[i]))
            a->heap[kept++] = a->heap[i];
    a->heap_len = kept;
    for (size_t i = kept / 2; i-- > 0;)
        heap_sift(a->heap, kept, i);
}

/* Twice the room, or the same when enough of it belongs to users who are nowhere any more. */
static int table_grow(struct room_audit *a, struct fault *f)
{
    heap_tidy(a); /* no entry of it may point to a member that goes now */
    size_t living = (size_t)(a->counts[ROOM_WAITS] + a->counts[ROOM_AWAY] + a->counts[ROOM_INSIDE]);
    size_t count = living > a->slot_count / 4 ? 2 * a->slot_count : a->slot_count;
    if (living >= a->max_users)
        return fault_set(f, RC_REJECT, "more than %zu users at once", a->max_users);
    struct member **slots = calloc(count, sizeof(struct member *));
    if (!slots)
        return fault_set(f, RC_REJECT, "no memory for %zu users", count);
    a->used = 0;
    for (size_t i = 0; i < a->slot_count; i++) {
        struct member *m = a->slots[i];
        if (!m)
            continue;
        if (m->where == ROOM_NOWHERE) {
            free_member(m);
            continue;
        }
        *slot_of(slots, count, m->user) = m;
        a->used++;
    }
    free(a->slots);
    a->slots = slots;
    a->slot_count = count;
    return 0;
}

static struct member *member_of(struct room_audit *a, const char *user, struct fault *f)
{
    struct member **slot = slot_of(a->slots, a->slot_count, user);
    struct member *m = *slot;
    if (m)
        return m;
    if (2 * (a->used + 1) > a->slot_count) {
        if (table_grow(a, f) != 0)
            return NULL;
        slot = slot_of(a->slots, a->slot_count, user);
    }
    m = calloc(1, sizeof *m);
    char *copy = strdup(user);
    if (!m || !copy) {
        free(m);
        free(copy);
        (void)fault_set(f, RC_REJECT, "no memory for a user");
        return NULL;
    }
    *m = (struct member){.user = copy, .joined_ms = -1};
    a->used++;
    *slot = m;
    return m;
}

/* The heap ------------------------------------------------------------------------------------ */

static int heap_push(struct room_audit *a, struct member *m, struct fault *f)
{
    if (a->heap_len == a->heap_cap) {
        heap_tidy(a);
        if (a->heap_len > a->heap_cap / 2) {
            struct waiting *more = reallocarray(a->heap, 2 * a->heap_cap, sizeof *more);
            if (!more)
                return fault_set(f, RC_REJECT, "no memory for %zu who wait", a->heap_len);
            a->heap = more;
            a->heap_cap *= 2;
        }
    }
    size_t at = a->heap_len++;
    for (size_t up; at > 0 && a->heap[up = (at - 1) / 2].score > m->score; at = up)
        a->heap[at] = a->heap[up];
    a->heap[at] = (struct waiting){m->score, m};
    return 0;
}

/* Who waits first, NULL when nobody does. */
static const struct member *head(struct room_audit *a)
{
    while (a->heap_len > 0 && !counts_now(&a->heap[0])) {
        a->heap[0] = a->heap[--a->heap_len];
        if (a->heap_len > 0)
            heap_sift(a->heap, a->heap_len, 0);
    }
    return a->heap_len > 0 ? a->heap[0].member : NULL;
}

/* Steps --------------------------------------------------------------------------------------- */

static int put(struct room_audit *a, struct member *m, enum room_where where, int64_t score,
               struct fault *f)
{
    a->counts[m->where]--;
    m->where = where;
    m->score = score;
    m->heard = a->round;
    a->counts[where]++;
    return where == ROOM_WAITS ? heap_push(a, m, f) : 0;
}

static bool off_the_line(int64_t score)
{
    return score % TWO33 >= LINE_END;
}

static const struct {
    const char *kind;
    enum room_where where;
    size_t counter;
} KINDS[] = {
    {"join", ROOM_WAITS, offsetof(struct room_audit_report, joined)},
    {"return", ROOM_WAITS, offsetof(struct room_audit_report, returned)},
    {"admit", ROOM_INSIDE, offsetof(struct room_audit_report, admitted)},
    {"park", ROOM_AWAY, offsetof(struct room_audit_report, parked)},
    {"expire", ROOM_NOWHERE, offsetof(struct room_audit_report, expired)},
    {"leave", ROOM_NOWHERE, offsetof(struct room_audit_report, left)},
    {"clear", ROOM_NOWHERE, offsetof(struct room_audit_report, cleared)},
};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

/* What must hold before the entry is applied. */
static void judge_before(struct room_audit *a, const struct room_entry *e, const struct member *m,
                         enum room_where where)
{
    bool has_place = m->where == ROOM_WAITS || m->where == ROOM_AWAY;
    if (where == ROOM_WAITS && has_place && e->score != m->score) {
        if (off_the_line(e->score))
            a->report.displaced++;
        else
            find(a, e->score > m->score ? ROOM_LOST : ROOM_INVERSION,
                 "%s had place %" PRId64 " and got %" PRId64 " (entry %s)", e->user, m->score,
                 e->score, e->id);
    }
    if (where == ROOM_INSIDE && m->where == ROOM_INSIDE)
        find(a, ROOM_DOUBLE, "%s was let in while inside (entry %s)", e->user, e->id);
}

static void judge_admission(struct room_audit *a, const struct room_entry *e, struct member *m)
{
    int64_t inside = a->counts[ROOM_INSIDE] > e->active ? a->counts[ROOM_INSIDE] : e->active;
    if (inside > e->threshold)
        find(a, ROOM_OVERSHOOT, "%" PRId64 " inside, threshold %" PRId64 ", with %s (entry %s)",
             inside, e->threshold, e->user, e->id);
    if (strcmp(e->reason, "restored") == 0) {
        a->report.restored++;
        return;
    }
    const struct member *first = head(a);
    if (first && first->score < e->score)
        find(a, ROOM_INVERSION, "%s at %" PRId64 " was let in before %s at %" PRId64 " (entry %s)",
             e->user, e->score, first->user, first->score, e->id);
    else if (first && first->score == e->score)
        find(a, ROOM_DOUBLE, "%s and %s share place %" PRId64 " (entry %s)", e->user, first->user,
             e->score, e->id);
    if (m->joined_ms >= 0)
        histogram_add(&a->report.wait_ms, e->at_ms - m->joined_ms);
    m->joined_ms = -1;
}

static void judge_after(struct room_audit *a, const struct room_entry *e)
{
    struct room_audit_report *r = &a->report;
    int64_t inside = a->counts[ROOM_INSIDE];
    if (r->complete && e->active >= 0 && e->active != inside)
        find(a, ROOM_MISMATCH, "%" PRId64 " inside by the log, %" PRId64 " by entry %s", inside,
             e->active, e->id);
    if (e->active > r->peak_inside)
        r->peak_inside = e->active;
}

static int apply_step(struct room_audit *a, const struct room_entry *e, size_t kind,
                      struct fault *f)
{
    enum room_where where = KINDS[kind].where;
    ++*(int64_t *)(void *)((char *)&a->report + KINDS[kind].counter);
    struct member *m = member_of(a, e->user, f);
    if (!m)
        return RC_REJECT;
    judge_before(a, e, m, where);
    if (strcmp(e->kind, "join") == 0)
        m->joined_ms = e->at_ms;
    int rc = put(a, m, where, e->score, f);
    if (rc == 0 && where == ROOM_INSIDE)
        judge_admission(a, e, m);
    if (rc == 0)
        judge_after(a, e);
    return rc;
}

/* Snapshots ----------------------------------------------------------------------------------- */

static void forget_all(struct room_audit *a)
{
    for (size_t i = 0; i < a->slot_count; i++)
        if (a->slots[i])
            a->slots[i]->where = ROOM_NOWHERE;
    memset(a->counts, 0, sizeof a->counts);
    a->heap_len = 0;
    a->report.complete = false;
}

static void snapshot_begin(struct room_audit *a)
{
    a->known_at_start = a->report.complete;
    if (!a->comparing)
        a->round++;
    a->in_snapshot = true;
}

static void lose_unheard(struct room_audit *a, const char *where, const char *id)
{
    for (size_t i = 0; i < a->slot_count; i++) {
        struct member *m = a->slots[i];
        if (!m || m->where == ROOM_NOWHERE || m->heard == a->round)
            continue;
        find(a, ROOM_LOST, "%s at %" PRId64 " is not in %s%s, and no entry says why", m->user,
             m->score, where, id);
        a->counts[m->where]--;
        m->where = ROOM_NOWHERE;
    }
}

static void snapshot_end(struct room_audit *a, const char *id)
{
    if (!a->in_snapshot)
        return;
    a->in_snapshot = false;
    if (a->known_at_start && !a->comparing)
        lose_unheard(a, "the snapshot that ends with entry ", id);
    a->report.complete = true;
}

/* Always inside a snapshot that began just before. After a loss what was read last may not have
 * happened: the snapshot tells anew. A new event has nobody yet. */
static void apply_epoch(struct room_audit *a, bool lost)
{
    a->report.losses += lost;
    forget_all(a);
    a->report.complete = a->known_at_start = !lost;
}

static int apply_part(struct room_audit *a, const struct room_entry *e, struct fault *f)
{
    enum room_where where = strcmp(e->of, "active") == 0  ? ROOM_INSIDE
                            : strcmp(e->of, "queue") == 0 ? ROOM_WAITS
                                                          : ROOM_AWAY;
    char *copy = strdup(e->members);
    char *rest = NULL;
    int rc = copy ? 0 : fault_set(f, RC_REJECT, "no memory for a part of a snapshot");
    for (char *user = copy ? strtok_r(copy, " ", &rest) : NULL; rc == 0 && user;
         user = strtok_r(NULL, " ", &rest)) {
        const char *score = strtok_r(NULL, " ", &rest);
        struct member *m = score ? member_of(a, user, f) : NULL;
        if (!m) {
            rc = RC_REJECT;
            break;
        }
        if (a->known_at_start && m->where != where)
            find(a, ROOM_MISMATCH, "%s is %s by entry %s, which the log does not say", user, e->of,
                 e->id);
        rc = put(a, m, where, strtoll(score, NULL, 10), f);
    }
    free(copy);
    return rc;
}

/* Public -------------------------------------------------------------------------------------- */

int room_audit_new(size_t max_users, struct room_audit **out, struct fault *f)
{
    struct room_audit *a = calloc(1, sizeof *a);
    if (a) {
        a->max_users = max_users;
        a->slot_count = FIRST_SLOTS;
        a->heap_cap = FIRST_HEAP;
        a->slots = calloc(FIRST_SLOTS, sizeof(struct member *));
        a->heap = calloc(FIRST_HEAP, sizeof *a->heap);
    }
    if (!a || !a->slots || !a->heap) {
        room_audit_free(a);
        return fault_set(f, RC_FATAL, "no memory for an audit");
    }
    *out = a;
    return 0;
}

void room_audit_free(struct room_audit *a)
{
    if (!a)
        return;
    for (size_t i = 0; a->slots && i < a->slot_count; i++)
        free_member(a->slots[i]);
    free(a->slots);
    free(a->heap);
    free(a);
}

int room_audit_apply(struct room_audit *a, const struct room_entry *e, struct fault *f)
{
    struct room_audit_report *r = &a->report;
    r->entries++;
    if (e->at_ms > 0) {
        r->last_ms = e->at_ms;
        if (!r->first_ms)
            r->first_ms = e->at_ms;
    }
    if (e->threshold >= 0)
        r->threshold = e->threshold;
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (strcmp(e->kind, KINDS[i].kind) == 0)
            return apply_step(a, e, i, f);
    if (strcmp(e->kind, "part") == 0)
        return apply_part(a, e, f);
    if (strcmp(e->kind, "snapshot") == 0)
        snapshot_begin(a);
    else if (strcmp(e->kind, "snapshot-end") == 0)
        snapshot_end(a, e->id);
    else if (strcmp(e->kind, "epoch") == 0)
        apply_epoch(a, strcmp(e->reason, "lost") == 0);
    return 0;
}

void room_audit_compare_begin(struct room_audit *a)
{
    a->round++;
    a->comparing = true;
}

void room_audit_compare(struct room_audit *a, const char *user, enum room_where where)
{
    struct member *m = *slot_of(a->slots, a->slot_count, user);
    if (m && m->heard == a->round)
        return; /* named already, or changed since the comparison began */
    if (m)
        m->heard = a->round;
    if (!a->report.complete || (m && m->where == where))
        return;
    if (m && m->where != ROOM_NOWHERE)
        find(a, ROOM_MISMATCH, "%s is elsewhere in Redis than the log says", user);
    else
        find(a, ROOM_MISMATCH, "%s is in Redis, and no entry says why", user);
}

void room_audit_compare_end(struct room_audit *a)
{
    if (a->report.complete)
        lose_unheard(a, "Redis", "");
    a->comparing = false;
}

const struct room_audit_report *room_audit_report(struct room_audit *a)
{
    a->report.waiting = a->counts[ROOM_WAITS];
    a->report.away = a->counts[ROOM_AWAY];
    a->report.inside = a->counts[ROOM_INSIDE];
    return &a->report;
}

bool room_audit_clean(const struct room_audit_report *r)
{
    for (int i = 0; i < ROOM_FINDINGS; i++)
        if (r->found[i])
            return false;
    return true;
}

/* fairness.c - admissions in the order they were told, and who still waits behind them. */
#include "crowd/fairness.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"

enum { MAX_LOOK = 8192, BASE = 36 };

struct admission {
    int64_t score, last_waiting_us, seen_us;
};

struct fairness {
    struct admission *list;
    size_t count, max;
    int64_t present_us, top_score;
    int64_t inside, peak, threshold, overshoot, inversions;
};

int fairness_new(size_t max_users, int64_t present_us, struct fairness **out, struct fault *f)
{
    struct fairness *fair = calloc(1, sizeof *fair);
    if (fair)
        fair->list = calloc(max_users, sizeof *fair->list);
    if (!fair || !fair->list) {
        fairness_free(fair);
        return fault_set(f, RC_FATAL, "no memory for %zu users", max_users);
    }
    fair->max = max_users;
    fair->present_us = present_us;
    *out = fair;
    return 0;
}

void fairness_free(struct fairness *f)
{
    if (f)
        free(f->list);
    free(f);
}

int64_t fairness_score(const char *place)
{
    char *end = NULL;
    if (!place[0] || place[1] != '.')
        return 0;
    int64_t epoch = strtoll(place + 2, &end, BASE);
    if (*end != '.')
        return 0;
    int64_t number = strtoll(end + 1, &end, BASE);
    return *end == '.' && epoch >= 0 && number > 0 ? epoch * (INT64_C(1) << 33) + number : 0;
}

void fairness_threshold(struct fairness *f, int64_t threshold)
{
    if (threshold > f->threshold)
        f->threshold = threshold;
}

/* Whether somebody behind `u` was let in while it was there, and told so before `sent_us`. */
static bool passed(const struct fairness *f, const struct fair_user *u, int64_t sent_us)
{
    if (!u->score || f->top_score <= u->score)
        return false;
    size_t looked = 0;
    for (size_t i = f->count; i-- > 0 && looked < MAX_LOOK; looked++) {
        const struct admission *a = &f->list[i];
        if (a->seen_us <= u->present_us)
            return false; /* the list is in the order of seen_us */
        if (a->score > u->score && a->seen_us < sent_us && a->last_waiting_us > u->present_us)
            return true;
    }
    return false;
}

bool fairness_waits(struct fairness *f, struct fair_user *u, int64_t sent_us, int64_t heard_us,
                    bool firm)
{
    bool gap = !u->present_us || heard_us - u->heard_us > f->present_us;
    u->heard_us = heard_us;
    if (firm)
        u->last_waiting_us = sent_us;
    if (gap) {
        u->present_us = heard_us;
        return false;
    }
    if (u->overtaken || !passed(f, u, sent_us))
        return false;
    if (firm) {
        u->overtaken = true;
        f->inversions++;
    }
    return true;
}

void fairness_enters(struct fairness *f, struct fair_user *u, int64_t sent_us, int64_t heard_us,
                     int64_t expires_ms, int64_t now_ms)
{
    if (u->inside || (expires_ms && expires_ms <= now_ms))
        return;
    u->inside = true;
    u->expires_ms = expires_ms;
    if (++f->inside > f->peak)
        f->peak = f->inside;
    if (f->threshold > 0 && f->inside - f->threshold > f->overshoot)
        f->overshoot = f->inside - f->threshold;
    if (!u->score || f->count == f->max)
        return;
    int64_t last = u->last_waiting_us ? u->last_waiting_us : sent_us;
    f->list[f->count++] = (struct admission){u->score, last, heard_us};
    if (u->score > f->top_score)
        f->top_score = u->score;
}

void fairness_leaves(struct fairness *f, struct fair_user *u)
{
    if (u->inside)
        f->inside--;
    u->inside = false;
}

void fairness_silent(struct fair_user *u)
{
    u->present_us = 0;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t count_doubles(const struct fair_user *users, size_t stride, size_t count)
{
    int64_t *scores = calloc(count + 1, sizeof *scores);
    int64_t doubles = 0;
    size_t n = 0;
    for (size_t i = 0; scores && i < count; i++) {
        const struct fair_user *u = (const void *)((const char *)users + i * stride);
        if (u->score)
            scores[n++] = u->score;
    }
    if (scores)
        qsort(scores, n, sizeof *scores, by_value);
    for (size_t i = 1; scores && i < n; i++)
        doubles += scores[i] == scores[i - 1];
    free(scores);
    return doubles;
}

void fairness_report(struct fairness *f, const struct fair_user *users, size_t stride, size_t count,
                     struct fair_report *out)
{
    *out = (struct fair_report){.inversions = f->inversions,
                                .overshoot = f->overshoot,
                                .doubles = count_doubles(users, stride, count),
                                .peak_inside = f->peak,
                                .threshold = f->threshold};
}

/* breaker.c - a ring of the last results decides whether the next call is worth making. */
#include "runtime/breaker.h"

#include <string.h>

enum { RESULT_FAILED = 1, RESULT_SLOW = 2 }; /* bits of a ring entry */

const struct breaker_rules BREAKER_RULES = {.window = 10,
                                            .failure_percent = 50,
                                            .slow_percent = 80,
                                            .slow_ms = 3000,
                                            .open_ms = 10000,
                                            .trials = 3};
const struct breaker_rules BREAKER_CONNECTION_RULES = {.window = 10,
                                                       .failure_percent = 50,
                                                       .slow_percent = 80,
                                                       .slow_ms = 3000,
                                                       .open_ms = 10000,
                                                       .trials = 3,
                                                       .connections_only = true};

static uint32_t within(uint32_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Begins a new period: whatever is still under way belongs to an old one. */
static void change_state(struct breaker *b, enum breaker_state state)
{
    b->state = state;
    if (++b->period == 0) /* 0 means "no ticket" */
        b->period = 1;
    b->seen = b->next = b->failures = b->slow = b->entered = 0;
    memset(b->ring, 0, sizeof b->ring);
}

static void open_it(struct breaker *b, int64_t now_ms)
{
    change_state(b, BREAKER_OPEN);
    b->open_until_ms = now_ms + b->rules.open_ms;
    b->opened++;
}

static uint8_t judge(const struct breaker *b, enum breaker_outcome outcome, int64_t took_ms)
{
    if (b->rules.connections_only)
        return outcome == BREAKER_NO_CONNECTION ? RESULT_FAILED : 0;
    uint8_t result = outcome == BREAKER_OK ? 0 : RESULT_FAILED;
    if (took_ms > b->rules.slow_ms)
        result |= RESULT_SLOW;
    return result;
}

/* Puts one result into the ring; the oldest leaves when it is full. */
static void record(struct breaker *b, uint8_t result)
{
    if (b->seen == b->rules.window) {
        uint8_t oldest = b->ring[b->next];
        b->failures -= (oldest & RESULT_FAILED) != 0;
        b->slow -= (oldest & RESULT_SLOW) != 0;
    } else {
        b->seen++;
    }
    b->ring[b->next] = result;
    b->next = (b->next + 1) % b->rules.window;
    b->failures += (result & RESULT_FAILED) != 0;
    b->slow += (result & RESULT_SLOW) != 0;
}

static bool too_bad(const struct breaker *b)
{
    return b->failures * 100 >= b->rules.failure_percent * b->seen ||
           b->slow * 100 >= b->rules.slow_percent * b->seen;
}

void breaker_init(struct breaker *b, const struct breaker_rules *rules)
{
    memset(b, 0, sizeof *b);
    b->rules = *rules;
    b->rules.window = within(rules->window, 1, BREAKER_MAX_WINDOW);
    b->rules.trials = within(rules->trials, 1, b->rules.window);
    b->rules.failure_percent = within(rules->failure_percent, 1, 100);
    b->rules.slow_percent = within(rules->slow_percent, 1, 100);
    change_state(b, BREAKER_CLOSED);
}

uint32_t breaker_enter(struct breaker *b, int64_t now_ms)
{
    if (b->state == BREAKER_CLOSED)
        return b->period;
    if (b->state == BREAKER_OPEN) {
        if (now_ms < b->open_until_ms)
            return 0;
        change_state(b, BREAKER_HALF_OPEN);
    }
    if (b->entered == b->rules.trials)
        return 0;
    b->entered++;
    return b->period;
}

void breaker_leave(struct breaker *b, uint32_t ticket, enum breaker_outcome outcome,
                   int64_t took_ms, int64_t now_ms)
{
    if (ticket != b->period || b->state == BREAKER_OPEN)
        return;
    if (outcome == BREAKER_CANCELLED) {
        if (b->state == BREAKER_HALF_OPEN)
            b->entered--;
        return;
    }
    record(b, judge(b, outcome, took_ms));
    uint32_t needed = b->state == BREAKER_HALF_OPEN ? b->rules.trials : b->rules.window;
    if (b->seen < needed)
        return;
    if (too_bad(b))
        open_it(b, now_ms);
    else if (b->state == BREAKER_HALF_OPEN)
        change_state(b, BREAKER_CLOSED);
}

void breaker_close(struct breaker *b)
{
    change_state(b, BREAKER_CLOSED);
}

enum breaker_state breaker_state(const struct breaker *b, int64_t now_ms)
{
    if (b->state == BREAKER_OPEN && now_ms >= b->open_until_ms)
        return BREAKER_HALF_OPEN;
    return b->state;
}

const char *breaker_state_name(enum breaker_state s)
{
    return s == BREAKER_CLOSED ? "closed" : s == BREAKER_OPEN ? "open" : "half_open";
}

int64_t breaker_wait_ms(const struct breaker *b, int64_t now_ms)
{
    return b->state == BREAKER_OPEN && now_ms < b->open_until_ms ? b->open_until_ms - now_ms : 0;
}

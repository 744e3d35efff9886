/* backoff.c - exponential delays with jitter. */
#include "runtime/backoff.h"

#include <sys/random.h>

/* xorshift64*: small, good enough to spread clients, and repeatable from its seed. */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

static uint64_t seed_of_kernel(const struct backoff *b)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uint64_t)(uintptr_t)b; /* early boot: an address spreads processes well enough */
    return seed;
}

void backoff_init(struct backoff *b, int64_t base_ms, int64_t max_ms, uint64_t seed)
{
    b->base_ms = base_ms < 1 ? 1 : base_ms;
    b->max_ms = max_ms < b->base_ms ? b->base_ms : max_ms;
    b->attempt = 0;
    b->state = seed ? seed : seed_of_kernel(b);
    if (!b->state)
        b->state = 1;
}

int64_t backoff_next_ms(struct backoff *b)
{
    int64_t delay = backoff_delay_ms(b->base_ms, b->max_ms, b->attempt, draw(&b->state));
    if (b->attempt < UINT32_MAX)
        b->attempt++;
    return delay;
}

void backoff_reset(struct backoff *b)
{
    b->attempt = 0;
}

int64_t backoff_delay_ms(int64_t base_ms, int64_t max_ms, uint32_t attempt, uint64_t random)
{
    int64_t step = base_ms;
    for (uint32_t i = 0; i < attempt && step < max_ms; i++)
        step = step > max_ms / 2 ? max_ms : step * 2;
    if (step > max_ms)
        step = max_ms;
    int64_t fixed = step / 2;
    return fixed + (int64_t)(random % (uint64_t)(step - fixed + 1));
}

/* id.c - UUIDv7 after RFC 9562: 48 bits of time, a 12-bit counter, 62 random bits.
 *
 * The counter starts at a random value with room above it in each new millisecond and counts up
 * within it; when it overflows, or the clock has stepped back, the time runs ahead of the clock
 * instead. */
#include "runtime/id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/clock.h"
#include "runtime/fault.h"

enum { COUNTER_MAX = 0xfff, COUNTER_START_MASK = 0x3ff };

/* Without random bits ids would repeat: better to stop. getrandom() of this size cannot fail once
 * the kernel's pool is ready, and waits until it is. */
static void fill_random(unsigned char *out, size_t len)
{
    while (getrandom(out, len, 0) != (ssize_t)len)
        if (errno != EINTR)
            abort();
}

void id_new_at(int64_t wall_ms, char out[ID_UUID_LEN + 1])
{
    static _Thread_local int64_t last_ms = -1;
    static _Thread_local unsigned counter;
    unsigned char b[16], seed[2];
    fill_random(b + 8, 8);
    if (wall_ms > last_ms) {
        last_ms = wall_ms;
        fill_random(seed, sizeof seed);
        counter = ((unsigned)seed[0] << 8 | seed[1]) & COUNTER_START_MASK;
    } else if (++counter > COUNTER_MAX) {
        last_ms++;
        counter = 0;
    }
    for (int i = 0; i < 6; i++)
        b[i] = (unsigned char)((uint64_t)last_ms >> (40 - 8 * i));
    b[6] = (unsigned char)(0x70U | counter >> 8);
    b[7] = (unsigned char)(counter & 0xffU);
    b[8] = (unsigned char)((b[8] & 0x3fU) | 0x80U);
    id_format(b, out);
}

void id_new(char out[ID_UUID_LEN + 1])
{
    id_new_at(clock_wall_ms(), out);
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 32);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool is_dash(size_t i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

int id_parse(const char *text, unsigned char out[16])
{
    if (!id_is_uuid(text))
        return RC_REJECT;
    for (size_t n = 0; n < 16; n++, text += 2) {
        if (*text == '-')
            text++;
        out[n] = (unsigned char)((unsigned)hex(text[0]) << 4 | (unsigned)hex(text[1]));
    }
    return 0;
}

bool id_is_uuid(const char *text)
{
    if (!text)
        return false;
    for (size_t i = 0; i < ID_UUID_LEN; i++)
        if (is_dash(i) ? text[i] != '-' : hex(text[i]) < 0)
            return false; /* also at the NUL of a shorter text */
    return text[ID_UUID_LEN] == '\0';
}

void id_format(const unsigned char bytes[16], char out[ID_UUID_LEN + 1])
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0, n = 0; n < 16; n++) {
        if (is_dash(i))
            out[i++] = '-';
        out[i++] = DIGITS[bytes[n] >> 4];
        out[i++] = DIGITS[bytes[n] & 15U];
    }
    out[ID_UUID_LEN] = '\0';
}

bool id_is_request_id(const char *text)
{
    static const char ALLOWED[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = text ? strspn(text, ALLOWED) : 0;
    return len >= 1 && len <= ID_REQUEST_MAX && text[len] == '\0';
}

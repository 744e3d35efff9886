/* clock.h - wall and monotonic time in milliseconds, ISO-8601 in and out. */
#ifndef CLOCK_H
#define CLOCK_H
#include <stddef.h>
#include <stdint.h>

int64_t clock_wall_ms(void); /* since 1970, UTC; may jump */
int64_t clock_mono_ms(void); /* for waits and deadlines; never goes back */
int64_t clock_mono_us(void);

enum { CLOCK_ISO_LEN = 24 }; /* 2026-11-18T12:51:11.042Z */

/* Writes UTC with milliseconds and a NUL into out (CLOCK_ISO_LEN + 1 bytes). Years 1970-9999. */
void clock_format_iso(int64_t wall_ms, char out[CLOCK_ISO_LEN + 1]);

/* Reads a full ISO-8601 date-time with zone: 2026-11-18T12:51[:11[.fraction]](Z|+09[:]00).
 * Digits below a millisecond are cut. Returns 0, or RC_REJECT with *out_ms untouched: no zone,
 * a date that does not exist, trailing bytes. A leap second (:60) counts as the next second. */
int clock_parse_iso(const char *text, size_t len, int64_t *out_ms);

#endif

/* clock.c - wall and monotonic time in milliseconds, ISO-8601 in and out. */
#include "runtime/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/fault.h"

static int64_t now(clockid_t id, int64_t per_second)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * per_second +
           (int64_t)ts.tv_nsec / (INT64_C(1000000000) / per_second);
}

int64_t clock_wall_ms(void)
{
    return now(CLOCK_REALTIME, 1000);
}

int64_t clock_mono_ms(void)
{
    return now(CLOCK_MONOTONIC, 1000);
}

int64_t clock_mono_us(void)
{
    return now(CLOCK_MONOTONIC, 1000000);
}

void clock_format_iso(int64_t wall_ms, char out[CLOCK_ISO_LEN + 1])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    (void)gmtime_r(&seconds, &tm);
    char text[64];
    (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   (int)(wall_ms % 1000));
    memcpy(out, text, CLOCK_ISO_LEN);
    out[CLOCK_ISO_LEN] = '\0';
}

/* A cursor over the text; `ok` turns false at the first thing that does not fit. */
struct scan {
    const char *at, *end;
    bool ok;
};

static int digits(struct scan *s, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (s->at >= s->end || *s->at < '0' || *s->at > '9') {
            s->ok = false;
            return 0;
        }
        value = value * 10 + (*s->at++ - '0');
    }
    return value;
}

static bool accept(struct scan *s, char c)
{
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static void expect(struct scan *s, char c)
{
    if (!accept(s, c))
        s->ok = false;
}

static int fraction_ms(struct scan *s)
{
    int value = digits(s, 1) * 100;
    for (int scale = 10; s->ok && s->at < s->end && *s->at >= '0' && *s->at <= '9'; scale /= 10)
        value += (*s->at++ - '0') * scale;
    return value;
}

/* Minutes east of Greenwich. */
static int zone(struct scan *s)
{
    if (accept(s, 'Z') || accept(s, 'z'))
        return 0;
    int sign = accept(s, '-') ? -1 : 1;
    if (sign == 1)
        expect(s, '+');
    int hours = digits(s, 2);
    int minutes = 0;
    if (accept(s, ':') || s->at < s->end)
        minutes = digits(s, 2);
    if (hours > 23 || minutes > 59)
        s->ok = false;
    return sign * (hours * 60 + minutes);
}

static int month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Reads the date into *tm; false when no such day exists. */
static bool date(struct scan *s, struct tm *tm)
{
    int year = digits(s, 4);
    expect(s, '-');
    int month = digits(s, 2);
    expect(s, '-');
    int day = digits(s, 2);
    if (!s->ok || month < 1 || month > 12 || day < 1 || day > month_days(year, month))
        return false;
    *tm = (struct tm){.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    return true;
}

int clock_parse_iso(const char *text, size_t len, int64_t *out_ms)
{
    struct scan s = {text, text + len, true};
    struct tm tm;
    int ms = 0;
    if (!date(&s, &tm) || !(accept(&s, 'T') || accept(&s, 't') || accept(&s, ' ')))
        return RC_REJECT;
    tm.tm_hour = digits(&s, 2);
    expect(&s, ':');
    tm.tm_min = digits(&s, 2);
    if (accept(&s, ':')) {
        tm.tm_sec = digits(&s, 2);
        if (accept(&s, '.') || accept(&s, ','))
            ms = fraction_ms(&s);
    }
    int offset = zone(&s);
    if (!s.ok || s.at != s.end || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return RC_REJECT;
    *out_ms = ((int64_t)timegm(&tm) - (int64_t)offset * 60) * 1000 + ms;
    return 0;
}

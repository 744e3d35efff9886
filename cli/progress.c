/* progress.c - drawn at most ten times a second. */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "runtime/clock.h"

enum { SILENT, LINES, BAR };
enum { BAR_EVERY_MS = 100, LINE_EVERY_MS = 10000, RATE_EVERY_MS = 500, BAR_WIDTH = 30 };

void cli_duration(double seconds, char *out, size_t size)
{
    long long s = (long long)(seconds + 0.5);
    if (!(seconds >= 0) || seconds > 1e9)
        (void)snprintf(out, size, "?");
    else if (s < 60)
        (void)snprintf(out, size, "%llds", s);
    else if (s < 3600)
        (void)snprintf(out, size, "%lldm%02llds", s / 60, s % 60);
    else if (s < 86400)
        (void)snprintf(out, size, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, size, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

static void draw(struct cli_progress *p)
{
    char left[24], bar[BAR_WIDTH + 1];
    double share = p->total > 0 ? (double)p->done / (double)p->total : 1;
    share = share > 1 ? 1 : share;
    cli_duration(p->rate > 0 ? (double)(p->total - p->done) / p->rate : -1, left, sizeof left);
    int full = (int)(share * BAR_WIDTH);
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)full);
    bar[BAR_WIDTH] = '\0';
    const char *frame = p->mode == BAR ? "\r\033[K%s [%s] %3.0f%%  %lld/%lld  %.0f/s  %s left"
                                       : "%s [%s] %3.0f%%  %lld/%lld  %.0f/s  %s left\n";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)fprintf(stderr, frame, p->label, bar, share * 100, (long long)p->done,
                  (long long)p->total, p->rate, left);
#pragma GCC diagnostic pop
    (void)fflush(stderr);
}

static void measure(struct cli_progress *p, int64_t now)
{
    if (now - p->rate_ms < RATE_EVERY_MS)
        return;
    double latest = (double)(p->done - p->rate_done) * 1000.0 / (double)(now - p->rate_ms);
    p->rate = p->rate > 0 ? p->rate * 0.7 + latest * 0.3 : latest;
    p->rate_done = p->done;
    p->rate_ms = now;
}

void cli_progress_start(struct cli_progress *p, const struct cli *cli, const char *label,
                        int64_t total, int64_t already)
{
    int64_t now = clock_mono_ms();
    *p = (struct cli_progress){.label = label,
                               .total = total,
                               .start_at = already,
                               .done = already,
                               .rate_done = already,
                               .started_ms = now,
                               .rate_ms = now,
                               .shown_ms = now};
    p->mode = cli->json ? SILENT : isatty(STDERR_FILENO) ? BAR : LINES;
}

void cli_progress_at(struct cli_progress *p, int64_t done)
{
    int64_t now = clock_mono_ms();
    p->done = done;
    measure(p, now);
    if (p->mode == SILENT || now - p->shown_ms < (p->mode == BAR ? BAR_EVERY_MS : LINE_EVERY_MS))
        return;
    p->shown_ms = now;
    draw(p);
}

void cli_progress_end(struct cli_progress *p)
{
    int64_t took = clock_mono_ms() - p->started_ms;
    p->rate = took > 0 ? (double)(p->done - p->start_at) * 1000.0 / (double)took : 0;
    if (p->mode != BAR)
        return;
    draw(p);
    (void)fputc('\n', stderr);
}

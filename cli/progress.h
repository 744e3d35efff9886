/* progress.h - a bar with rate and time left, on standard error: redrawn on a terminal, a line
 * every ten seconds elsewhere, nothing with --json. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H
#include <stddef.h>
#include <stdint.h>

struct cli;

/* Caller's memory; no resources. */
struct cli_progress {
    const char *label; /* "replay" */
    int64_t total, start_at, done;
    int64_t started_ms, shown_ms; /* monotonic */
    int mode;
    double rate; /* per second, smoothed */
    int64_t rate_done, rate_ms;
};

/* `already`: done by an earlier run; it counts in the bar, not in the rate. */
void cli_progress_start(struct cli_progress *p, const struct cli *cli, const char *label,
                        int64_t total, int64_t already);
void cli_progress_at(struct cli_progress *p, int64_t done);
void cli_progress_end(struct cli_progress *p); /* the bar's last state stays on the screen */

/* "1h02m", "42s"; "?" below zero. */
void cli_duration(double seconds, char *out, size_t size);

#endif

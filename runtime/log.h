/* log.h - one structured line per event on standard error: logfmt, or JSON with LOG_FORMAT=json.
 *
 *   LOG_INFO("batch applied", LOG_STR("topic", topic), LOG_INT("events", n));
 *   → ts=2026-11-18T12:51:11.042Z level=info daemon=urr-stats msg="batch applied" topic=… events=12
 *
 * Thread-safe: one write(2) per line, cut at LOG_LINE_MAX bytes. Values are escaped, so that no
 * input can forge a line. Modules log at debug only; the daemon logs each failure once. */
#ifndef LOG_H
#define LOG_H
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };
enum { LOG_LINE_MAX = 4096 };

enum log_kind { LOG_KIND_END, LOG_KIND_STR, LOG_KIND_INT, LOG_KIND_FLOAT };
struct log_field {
    enum log_kind kind;
    const char *key;
    const char *str; /* NULL: the field is left out */
    int64_t num;
    double real;
};

#define LOG_STR(k, v) ((struct log_field){.kind = LOG_KIND_STR, .key = (k), .str = (v)})
#define LOG_INT(k, v) ((struct log_field){.kind = LOG_KIND_INT, .key = (k), .num = (int64_t)(v)})
#define LOG_FLOAT(k, v) ((struct log_field){.kind = LOG_KIND_FLOAT, .key = (k), .real = (v)})
#define LOG_END ((struct log_field){.kind = LOG_KIND_END})

#define LOG_DEBUG(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__, LOG_END)
#define LOG_INFO(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__, LOG_END)
#define LOG_WARN(...) log_write(LOG_LEVEL_WARN, __VA_ARGS__, LOG_END)
#define LOG_ERROR(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__, LOG_END)

/* Call once before threads start. `daemon` is borrowed for the life of the process. Before it,
 * lines go out as logfmt at info. fd: where lines go (2 for standard error; tests use a pipe). */
void log_init(const char *daemon, enum log_level level, enum log_format format, int fd);
bool log_enabled(enum log_level level);

/* The arguments after msg are struct log_field, the last one LOG_END: use the macros. */
void log_write(enum log_level level, const char *msg, ...);

#endif

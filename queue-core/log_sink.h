/* log_sink.h - the admission log of every event as JSON lines in files.
 *
 * Where QUEUE_LOG_DIR is set, the processes that share the folder agree on one writer (a lock that
 * the kernel frees when its holder dies), which follows the streams {E}:log and appends what is
 * new: see log_file.h. Numbers are numbers, the rest is text:
 *   {"event":"E","id":"1795000000000-0","k":"join","u":"anna","s":790273982464001,"r":"check", …}
 * A line with "k":"gap" says that entries were trimmed from the stream, or lost with Redis, before
 * they could be written: a reader throws its knowledge of the event away and goes on at the next
 * snapshot. */
#ifndef LOG_SINK_H
#define LOG_SINK_H
#include "runtime/config.h"
#include "runtime/metrics.h"

struct queue_part;

enum {
    LOG_SINK_TICK_MS = 200,
    LOG_SINK_READ = 200,   /* entries per call */
    LOG_SINK_CALLS = 16,   /* under way at once */
    LOG_SINK_EVENTS = 1024 /* followed at once */
};

extern const struct queue_part LOG_SINK_PART;
extern const struct config_item LOG_SINK_SETTINGS[];
extern const struct metric_def LOG_SINK_METRICS[];

#endif

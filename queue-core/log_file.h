/* log_file.h - JSON lines in numbered files of a folder: appended by one process at a time, which
 * finds in the files themselves how far each event was written.
 *
 * A line of an entry begins {"event":"E","id":"ID". Now and then, and at the head of each file,
 * stands a line {"positions":{"E":"ID",…}}: whoever takes over reads the end of the newest file
 * back to such a line, cuts off a line that was not finished, and goes on there. So after kill -9
 * nothing is missing and nothing stands there twice, whatever the process had in memory. */
#ifndef LOG_FILE_H
#define LOG_FILE_H
#include <stddef.h>
#include <stdint.h>

struct fault;
struct log_file; /* one thread */

enum { LOG_FILE_MAX_EVENTS = 1024, LOG_FILE_ID_MAX = 40 };

/* The folder is made if it is not there. Files admission-000001.jsonl …: a new one after
 * `max_bytes`, the oldest removed past `keep`. RC_RETRY: another process has the folder; RC_FATAL:
 * it cannot be used, *f says why. */
int log_file_open(const char *folder, int64_t max_bytes, unsigned keep, struct log_file **out,
                  struct fault *f);
void log_file_close(struct log_file *file); /* lets others take over; accepts NULL */

/* The id of the event's last entry; NULL: none. Valid until the next append. */
const char *log_file_position(const struct log_file *file, const char *event);
/* Each event that has a position. */
void log_file_each(const struct log_file *file, void (*fn)(const char *event, void *arg),
                   void *arg);

/* `lines` (complete ones) are entries of that event, the last of them `id`. RC_RETRY: the disk is
 * full or broken; nothing of them is in the file. */
int log_file_append(struct log_file *file, const char *event, const char *id, const char *lines,
                    size_t len, struct fault *f);

#endif

/* log_file.c - the admission log's files. */
#include "queue-core/log_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"

enum {
    EVENT_MAX = 64,
    POSITIONS_EVERY = 1 << 20, /* bytes between two lines of positions */
    TAIL_BYTES = 4 << 20,      /* more than that, the longest lines, and one of them again */
    POSITIONS_MAX = 1 << 18,   /* the longest line of positions */
    NAME_MAX_BYTES = PATH_MAX
};
static const char HEAD[] = "{\"positions\":";

struct position {
    char event[EVENT_MAX + 1];
    char id[LOG_FILE_ID_MAX + 1];
};

struct log_file {
    char folder[NAME_MAX_BYTES];
    int lock_fd, fd;
    unsigned number, keep;
    int64_t max_bytes, size, since_positions;
    size_t count;
    struct position positions[LOG_FILE_MAX_EVENTS];
};

static void path_of(const struct log_file *file, unsigned number, char out[NAME_MAX_BYTES + 32])
{
    (void)snprintf(out, NAME_MAX_BYTES + 32, "%s/admission-%06u.jsonl", file->folder, number);
}

/* Positions ----------------------------------------------------------------------------------- */

static int64_t id_time(const char *id)
{
    return strtoll(id, NULL, 10);
}

static struct position *find(const struct log_file *file, const char *event)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->positions[i].event, event) == 0)
            return (struct position *)&file->positions[i];
    return NULL;
}

/* When there are too many, the event that was quiet longest is forgotten. */
static struct position *quietest(struct log_file *file)
{
    struct position *p = &file->positions[0];
    for (size_t i = 1; i < file->count; i++)
        if (id_time(file->positions[i].id) < id_time(p->id))
            p = &file->positions[i];
    return p;
}

static void set_position(struct log_file *file, const char *event, const char *id)
{
    struct position *p = find(file, event);
    if (!p)
        p = file->count < LOG_FILE_MAX_EVENTS ? &file->positions[file->count++] : quietest(file);
    (void)snprintf(p->event, sizeof p->event, "%s", event);
    (void)snprintf(p->id, sizeof p->id, "%s", id);
}

static void print_positions(const struct log_file *file, struct buf *out)
{
    struct json_out j;
    json_begin(&j, out);
    json_object(&j, NULL);
    json_object(&j, "positions");
    for (size_t i = 0; i < file->count; i++)
        json_put_str(&j, file->positions[i].event, file->positions[i].id);
    json_end(&j);
    json_end(&j);
    (void)buf_putc(out, '\n');
}

/* Taking over --------------------------------------------------------------------------------- */

/* False: no line of ours (a disk that lost its power leaves anything). */
static bool read_line(struct log_file *file, const char *line, size_t len)
{
    char event[EVENT_MAX + 1], id[LOG_FILE_ID_MAX + 1];
    cJSON *object = NULL;
    struct fault f;
    if (len < 2 || line[len - 1] != '}')
        return false;
    if (strncmp(line, HEAD, sizeof HEAD - 1) != 0) {
        if (sscanf(line, "{\"event\":\"%64[^\"]\",\"id\":\"%40[^\"]\"", event, id) != 2)
            return false;
        set_position(file, event, id);
        return true;
    }
    if (json_parse(line, len, &object, &f) != 0)
        return false;
    file->count = 0;
    for (const cJSON *p = json_get(object, "positions")->child; p; p = p->next)
        if (cJSON_IsString(p))
            set_position(file, p->string, p->valuestring);
    cJSON_Delete(object);
    return true;
}

/* Reads the lines of text from its first line of positions on; returns how many bytes of it are
 * good. Lines before it (a window may begin within a line) count as good. */
static size_t read_lines(struct log_file *file, char *text, size_t len)
{
    bool known = false;
    size_t at = 0;
    while (at < len) {
        char *end = memchr(text + at, '\n', len - at);
        if (!end)
            return at;
        size_t line = (size_t)(end - text) - at;
        known = known || strncmp(text + at, HEAD, sizeof HEAD - 1) == 0;
        *end = '\0';
        if (known && !read_line(file, text + at, line))
            return at;
        at += line + 1;
    }
    return at;
}

/* Reads the end of a file; *out_good is how much of the file is whole lines of ours. */
static int read_tail(struct log_file *file, int fd, off_t *out_good, struct fault *f)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fault_set(f, RC_FATAL, "the admission log cannot be read: %s", strerror(errno));
    off_t start = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
    size_t len = (size_t)(st.st_size - start);
    char *text = malloc(len + 1);
    if (!text)
        return fault_set(f, RC_FATAL, "no memory for the admission log");
    ssize_t got = pread(fd, text, len, start);
    if (got >= 0)
        *out_good = start + (off_t)read_lines(file, text, (size_t)got);
    free(text);
    return got >= 0
               ? 0
               : fault_set(f, RC_FATAL, "the admission log cannot be read: %s", strerror(errno));
}

/* The newest file was just begun when its writer died: the one before knows. */
static int recover_previous(struct log_file *file, struct fault *f)
{
    char path[NAME_MAX_BYTES + 32];
    off_t good;
    path_of(file, file->number - 1, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int rc = read_tail(file, fd, &good, f);
    (void)close(fd);
    return rc;
}

static int recover(struct log_file *file, struct fault *f)
{
    off_t good = 0;
    int rc = read_tail(file, file->fd, &good, f);
    if (rc == 0 && good == 0 && file->number > 1)
        rc = recover_previous(file, f);
    if (rc != 0)
        return rc;
    if (ftruncate(file->fd, good) != 0)
        return fault_set(f, RC_FATAL, "the admission log cannot be mended: %s", strerror(errno));
    file->size = good;
    file->since_positions = POSITIONS_EVERY; /* the next append writes them */
    return 0;
}

/* The number in a file's name; 0: not a file of ours. */
static unsigned number_of(const char *name)
{
    static const char START[] = "admission-";
    char *end;
    if (strncmp(name, START, sizeof START - 1) != 0)
        return 0;
    unsigned long number = strtoul(name + sizeof START - 1, &end, 10);
    return strcmp(end, ".jsonl") == 0 && number <= UINT_MAX ? (unsigned)number : 0;
}

/* The numbers of the files there are; newest 0: none. */
static void newest_and_oldest(const struct log_file *file, unsigned *newest, unsigned *oldest)
{
    DIR *dir = opendir(file->folder);
    struct dirent *entry;
    *newest = 0;
    *oldest = UINT_MAX;
    while (dir && (entry = readdir(dir))) {
        unsigned number = number_of(entry->d_name);
        if (number == 0)
            continue;
        *newest = number > *newest ? number : *newest;
        *oldest = number < *oldest ? number : *oldest;
    }
    if (dir)
        (void)closedir(dir);
}

static int open_number(struct log_file *file, unsigned number, struct fault *f)
{
    char path[NAME_MAX_BYTES + 32];
    path_of(file, number, path);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (fd < 0)
        return fault_set(f, RC_RETRY, "the admission log cannot be written: %s", strerror(errno));
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = fd;
    file->number = number;
    return 0;
}

static int take(struct log_file *file, struct fault *f)
{
    unsigned newest, oldest;
    newest_and_oldest(file, &newest, &oldest);
    int rc = open_number(file, newest > 0 ? newest : 1, f);
    return rc == 0 ? recover(file, f) : rc;
}

int log_file_open(const char *folder, int64_t max_bytes, unsigned keep, struct log_file **out,
                  struct fault *f)
{
    char path[NAME_MAX_BYTES + 32];
    struct log_file *file = calloc(1, sizeof *file);
    if (!file)
        return fault_set(f, RC_FATAL, "no memory for the admission log");
    *file = (struct log_file){.lock_fd = -1, .fd = -1, .keep = keep, .max_bytes = max_bytes};
    (void)snprintf(file->folder, sizeof file->folder, "%s", folder);
    (void)snprintf(path, sizeof path, "%s/lock", folder);
    int rc = 0;
    if (mkdir(folder, 0750) != 0 && errno != EEXIST)
        rc = fault_set(f, RC_FATAL, "%.100s: %s", folder, strerror(errno));
    else if ((file->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640)) < 0)
        rc = fault_set(f, RC_FATAL, "%.100s: %s", path, strerror(errno));
    else if (flock(file->lock_fd, LOCK_EX | LOCK_NB) != 0)
        rc = fault_set(f, RC_RETRY, "another process writes the admission log");
    if (rc == 0)
        rc = take(file, f);
    if (rc != 0) {
        log_file_close(file);
        return rc;
    }
    *out = file;
    return 0;
}

void log_file_close(struct log_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        (void)close(file->fd);
    if (file->lock_fd >= 0)
        (void)close(file->lock_fd);
    free(file);
}

const char *log_file_position(const struct log_file *file, const char *event)
{
    const struct position *p = find(file, event);
    return p ? p->id : NULL;
}

void log_file_each(const struct log_file *file, void (*fn)(const char *event, void *arg), void *arg)
{
    for (size_t i = 0; i < file->count; i++)
        fn(file->positions[i].event, arg);
}

/* Writing ------------------------------------------------------------------------------------- */

/* All of it or nothing: what a full disk took of it is cut off again. */
static int put(struct log_file *file, const char *text, size_t len, struct fault *f)
{
    ssize_t done = write(file->fd, text, len);
    if (done == (ssize_t)len) {
        file->size += done;
        return 0;
    }
    int error = done < 0 ? errno : ENOSPC;
    (void)!ftruncate(file->fd, file->size);
    return fault_set(f, RC_RETRY, "the admission log cannot be written: %s", strerror(error));
}

static int put_positions(struct log_file *file, struct fault *f)
{
    struct buf line;
    buf_init(&line, POSITIONS_MAX);
    print_positions(file, &line);
    int rc = line.failed ? fault_set(f, RC_RETRY, "no memory for the admission log")
                         : put(file, line.data, line.len, f);
    buf_done(&line);
    if (rc == 0)
        file->since_positions = 0;
    return rc;
}

static void remove_old(const struct log_file *file)
{
    char path[NAME_MAX_BYTES + 32];
    unsigned newest, oldest;
    newest_and_oldest(file, &newest, &oldest);
    for (; oldest < newest && newest - oldest >= file->keep; oldest++) {
        path_of(file, oldest, path);
        (void)unlink(path);
    }
}

/* A file begins with positions: its tail alone must do. */
static int rotate(struct log_file *file, struct fault *f)
{
    int rc = open_number(file, file->number + 1, f);
    if (rc != 0)
        return rc;
    file->size = 0;
    file->since_positions = POSITIONS_EVERY;
    remove_old(file);
    return 0;
}

int log_file_append(struct log_file *file, const char *event, const char *id, const char *lines,
                    size_t len, struct fault *f)
{
    int rc = 0;
    if (file->size > 0 && file->size + (int64_t)len > file->max_bytes)
        rc = rotate(file, f);
    if (rc == 0 && file->since_positions >= POSITIONS_EVERY)
        rc = put_positions(file, f);
    if (rc == 0)
        rc = put(file, lines, len, f);
    if (rc != 0)
        return rc;
    file->since_positions += (int64_t)len;
    set_position(file, event, id);
    return 0;
}

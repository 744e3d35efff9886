/* config_file.c - reads KEY=value lines in place: the text is cut into names and values. */
#include "runtime/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/utf8.h"

enum { MAX_LINES = 2000 };

struct config_file {
    char *text;
    size_t count;
    struct config_line lines[MAX_LINES];
};

static bool is_name(const char *text)
{
    if (!((*text >= 'A' && *text <= 'Z') || *text == '_'))
        return false;
    for (; *text; text++)
        if (!((*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9') || *text == '_'))
            return false;
    return true;
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Takes off one pair of quotes. False: a quote that does not end. */
static bool unquote(char **value)
{
    char *text = *value;
    if (*text != '"' && *text != '\'')
        return true;
    size_t len = strlen(text);
    if (len < 2 || text[len - 1] != *text || memchr(text + 1, *text, len - 2))
        return false;
    text[len - 1] = '\0';
    *value = text + 1;
    return true;
}

/* Adds the line to the table; NULL, or what is wrong with it. */
static const char *take_line(struct config_file *file, char *line, unsigned number)
{
    line = trim(line);
    if (*line == '\0' || *line == '#')
        return NULL;
    char *equals = strchr(line, '=');
    if (!equals)
        return "not of the form KEY=value";
    *equals = '\0';
    char *name = trim(line), *value = trim(equals + 1);
    if (!is_name(name))
        return "the name before = must be capital letters, digits and _";
    if (!unquote(&value))
        return "a quote is open or stands inside the quoted value";
    if (strlen(value) > CONFIG_VALUE_MAX)
        return "the value is longer than 8192 bytes";
    if (config_file_get(file, name))
        return "this name was set on an earlier line";
    if (file->count == MAX_LINES)
        return "more than 2000 settings";
    file->lines[file->count++] = (struct config_line){name, value, number};
    return NULL;
}

static int take_lines(const char *path, struct config_file *file, struct fault *f)
{
    char *rest = file->text;
    for (unsigned number = 1; rest; number++) {
        char *line = strsep(&rest, "\n");
        const char *wrong = take_line(file, line, number);
        if (wrong)
            return fault_set(f, RC_FATAL, "%.80s line %u: %s", path, number, wrong);
    }
    return 0;
}

int config_file_parse(const char *path, const char *text, size_t len, struct config_file **out,
                      struct fault *f)
{
    if (memchr(text, '\0', len) || !utf8_valid(text, len))
        return fault_set(f, RC_FATAL, "%.80s: not a UTF-8 text file", path);
    struct config_file *file = calloc(1, sizeof *file);
    if (file)
        file->text = strndup(text, len);
    if (!file || !file->text) {
        config_file_free(file);
        return fault_set(f, RC_FATAL, "no memory for %.80s", path);
    }
    int rc = take_lines(path, file, f);
    if (rc != 0) {
        config_file_free(file);
        return rc;
    }
    *out = file;
    return 0;
}

static int read_all(int fd, const char *path, struct buf *b, struct fault *f)
{
    char block[4096];
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fault_set(f, RC_FATAL, "cannot read %.80s: %s", path, strerror(errno));
        if (buf_append(b, block, (size_t)n) != 0)
            return fault_set(f, RC_FATAL, "%.80s is larger than %d bytes", path, CONFIG_FILE_MAX);
    }
}

int config_file_read(const char *path, struct config_file **out, struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fault_set(f, RC_FATAL, "cannot open %.80s: %s", path, strerror(errno));
    struct buf b;
    buf_init(&b, CONFIG_FILE_MAX);
    int rc = read_all(fd, path, &b, f);
    (void)close(fd);
    if (rc == 0)
        rc = config_file_parse(path, buf_text(&b), b.len, out, f);
    buf_done(&b);
    return rc;
}

void config_file_free(struct config_file *file)
{
    if (!file)
        return;
    free(file->text);
    free(file);
}

size_t config_file_count(const struct config_file *file)
{
    return file->count;
}

const struct config_line *config_file_line(const struct config_file *file, size_t index)
{
    return &file->lines[index];
}

const char *config_file_get(const struct config_file *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->lines[i].name, name) == 0)
            return file->lines[i].value;
    return NULL;
}

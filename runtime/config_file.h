/* config_file.h - the KEY=value file of config.h; used by config.c and the fuzzer. */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H
#include <stddef.h>

struct fault;

enum { CONFIG_FILE_MAX = 256 * 1024, CONFIG_VALUE_MAX = 8192 };

struct config_line {
    const char *name;
    const char *value;
    unsigned number; /* of the line, from 1 */
};

struct config_file; /* the lines, which live as long as it */

/* RC_FATAL: cannot be read, or a line is malformed or a name comes twice: *f names file and line,
 * but never the value. The caller frees *out with config_file_free(). */
int config_file_read(const char *path, struct config_file **out, struct fault *f);
/* The same from memory; `path` is for messages only. */
int config_file_parse(const char *path, const char *text, size_t len, struct config_file **out,
                      struct fault *f);
void config_file_free(struct config_file *file);

size_t config_file_count(const struct config_file *file);
const struct config_line *config_file_line(const struct config_file *file, size_t index);
const char *config_file_get(const struct config_file *file, const char *name); /* NULL: absent */

#endif

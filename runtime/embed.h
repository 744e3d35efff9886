/* embed.h - files that are part of the program (SQL, Lua, pages), see cmake/embed.cmake. */
#ifndef EMBED_H
#define EMBED_H
#include <stddef.h>

/* `data` is followed by a NUL byte that `end` does not include. A table ends with a NULL name. */
struct embed_file {
    const char *name; /* path relative to the table's root */
    const char *data;
    const char *end;
};

/* The file of that name, or NULL. */
const struct embed_file *embed_find(const struct embed_file *table, const char *name);
size_t embed_len(const struct embed_file *file);

#endif

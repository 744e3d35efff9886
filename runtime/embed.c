/* embed.c - looks up embedded files. */
#include "runtime/embed.h"

#include <string.h>

const struct embed_file *embed_find(const struct embed_file *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

size_t embed_len(const struct embed_file *file)
{
    return (size_t)(file->end - file->data);
}

/* config_names.c - cuts the embedded list into names, once. */
#include "runtime/config_names.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/embed.h"
#include "runtime_config_names.h"

enum { MAX_NAMES = 512 };

static const char *names[MAX_NAMES + 1];
static char *text; /* what they point into */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void cut(void)
{
    const struct embed_file *list = embed_find(runtime_config_names, "config-names.txt");
    size_t n = 0;
    char *rest = NULL;
    text = strndup(list->data, embed_len(list));
    if (!text)
        return; /* no names: a shared file is refused, with the name it stumbled over */
    for (char *line = strtok_r(text, "\n", &rest); line && n < MAX_NAMES;
         line = strtok_r(NULL, "\n", &rest))
        if (*line != '#')
            names[n++] = line;
}

const char *const *config_names(void)
{
    (void)pthread_once(&once, cut);
    return names;
}

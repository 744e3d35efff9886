/* fuzz_path.c - a decoded path has one meaning: no dots, no doubled or hidden separators, UTF-8. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/http_path.h"
#include "runtime/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *path = malloc(size + 1);
    check(path != NULL);
    if (size > 0)
        memcpy(path, data, size);
    size_t slashes = 0;
    for (size_t i = 0; i < size; i++)
        slashes += data[i] == '/';
    size_t len = http_path_decode(path, size);
    if (len > 0) {
        check(len <= size && strlen(path) == len && path[0] == '/');
        check(utf8_valid(path, len) && !strpbrk(path, "\\;#?\r\n\t"));
        check(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, "/./"));
        check(len < 3 || strcmp(path + len - 3, "/..") != 0);
        for (size_t i = 0; i < len; i++)
            slashes -= path[i] == '/';
        check(slashes == 0); /* an encoded slash never becomes one */
    }
    free(path);
    return 0;
}

/* fuzz_cookie.c - Cookie headers and queries: whatever comes out is well formed. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/http_cookie.h"
#include "runtime/http_query.h"
#include "runtime/utf8.h"

enum { MAX_PAIRS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static char *copy_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    check(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_pair pairs[MAX_PAIRS];
    char *text = copy_of(data, size);
    size_t count = http_cookie_split(text, pairs, MAX_PAIRS);
    check(count <= MAX_PAIRS);
    for (size_t i = 0; i < count; i++) {
        check(pairs[i].name[0] != '\0' && !strpbrk(pairs[i].name, "=;, \t\"\r\n"));
        check(!strpbrk(pairs[i].value, "; \t\",\\\r\n"));
        check(http_query_find(pairs, count, pairs[i].name) != NULL);
    }
    free(text);

    text = copy_of(data, size);
    if (http_query_decode(text, pairs, MAX_PAIRS, &count) == 0)
        for (size_t i = 0; i < count; i++)
            check(utf8_valid(pairs[i].name, strlen(pairs[i].name)) &&
                  utf8_valid(pairs[i].value, strlen(pairs[i].value)));
    free(text);
    return 0;
}

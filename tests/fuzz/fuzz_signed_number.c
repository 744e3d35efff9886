/* fuzz_signed_number.c - what verifies is what we would have written; nothing else does. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/signed_number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* A text of our own with one byte changed at a place the input names: refused unless unchanged. */
static void bend(const struct signed_keys *k, const uint8_t *data, size_t size)
{
    if (size < 10)
        return;
    struct signed_number n = {data[0], (int64_t)data[1] << (data[2] % 40), 1795000000}, out;
    char text[SIGNED_NUMBER_LEN + 1];
    signed_number_encode(k, SIGNED_PLACE, "ev", "anna", &n, text);
    char *at = &text[data[3] % strlen(text)];
    bool same = *at == (char)data[4];
    *at = (char)data[4];
    check((signed_number_verify(k, SIGNED_PLACE, "ev", "anna", text, 1795000000, &out) == 0) ==
          same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct signed_keys keys;
    static bool ready;
    if (!ready)
        check(signed_keys_init(&keys, "a secret that the fuzzer cannot know", NULL, NULL) == 0);
    ready = true;
    char *text = malloc(size + 1);
    check(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    struct signed_number n;
    if (signed_number_verify(&keys, SIGNED_PLACE, "ev", "anna", text, 1795000000, &n) == 0) {
        char again[SIGNED_NUMBER_LEN + 1];
        signed_number_encode(&keys, SIGNED_PLACE, "ev", "anna", &n, again);
        check(strcmp(again, text) == 0);
    }
    free(text);
    bend(&keys, data, size);
    return 0;
}

/* fuzz_config.c - any bytes as a --config file: refused by file and line, or lines that can be
 * looked up; and each value tried on every type of setting. A secret never shows in a refusal. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/config_check.h"
#include "runtime/config_file.h"
#include "runtime/fault.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct config_item ITEMS[] = {
    {"TEXT", CONFIG_STRING, NULL, 1, 64, NULL, "Text.", 0},
    {"NUMBER", CONFIG_INT, NULL, -5, 100000, NULL, "A number.", 0},
    {"SWITCH", CONFIG_BOOL, NULL, 0, 0, NULL, "A switch.", 0},
    {"CHOICE", CONFIG_CHOICE, NULL, 0, 0, "one|two|three", "A choice.", 0},
    {"SECRET", CONFIG_SECRET, NULL, 0, 0, NULL, "A secret.", CONFIG_BASE64},
    {"URL", CONFIG_URL, NULL, 0, 0, "redis|postgresql", "A URL.", 0},
};

static void try_value(const struct config_item *item, const char *value)
{
    struct fault f;
    struct buf shown;
    buf_init(&shown, 64 << 10);
    int rc = config_check(item, value, &f);
    if (rc == 0)
        config_check_print(item, value, &shown);
    else if (rc != RC_FATAL || !strstr(f.text, item->name))
        abort();
    if (item->type == CONFIG_INT && rc == 0 &&
        (config_check_int(value) < item->min || config_check_int(value) > item->max))
        abort();
    if (item->type == CONFIG_SECRET && rc == 0 && strcmp(buf_text(&shown), "(set)") != 0)
        abort();
    buf_done(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_file *file = NULL;
    struct fault f;
    int rc = config_file_parse("fuzz.env", (const char *)data, size, &file, &f);
    if (rc != 0) {
        if (rc != RC_FATAL || file || !strstr(f.text, "fuzz.env"))
            abort();
        return 0;
    }
    for (size_t i = 0; i < config_file_count(file); i++) {
        const struct config_line *line = config_file_line(file, i);
        if (config_file_get(file, line->name) != line->value)
            abort();
        for (size_t item = 0; item < sizeof ITEMS / sizeof ITEMS[0]; item++)
            try_value(&ITEMS[item], line->value);
    }
    config_file_free(file);
    return 0;
}

/* config_help.c - the settings as --help text and as Markdown. */
#include <string.h>

#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/config_check.h"

enum { MAX_SHOWN = 8192 };

/* "1..65535, default 3007", and in round brackets what is in force when it is known. */
static void put_rule(const struct config_item *item, struct buf *out)
{
    config_check_bounds(item, out);
    if (item->fallback && *item->fallback)
        (void)buf_printf(out, ", default %s", item->fallback);
    else if (!item->fallback && !(item->flags & CONFIG_OPTIONAL))
        (void)buf_puts(out, ", required");
    else
        (void)buf_puts(out, ", optional");
}

void config_help(const struct config_item *const *tables, const struct config *c, struct buf *out)
{
    struct buf scratch;
    buf_init(&scratch, MAX_SHOWN);
    for (; *tables; tables++)
        for (const struct config_item *item = *tables; item->name; item++) {
            (void)buf_printf(out, "  %s\n      %s\n      ", item->name, item->help);
            put_rule(item, out);
            (void)buf_putc(out, '\n');
            if (!c)
                continue;
            const char *value = config_show(c, item->name, &scratch);
            (void)buf_printf(out, "      now: %s\n", value ? value : "(not set)");
        }
    buf_done(&scratch);
}

/* A | would end the cell. */
static void put_cell(const char *text, struct buf *out)
{
    for (; *text; text++) {
        if (*text == '|')
            (void)buf_putc(out, '\\');
        (void)buf_putc(out, *text);
    }
}

void config_describe(const struct config_item *table, struct buf *out)
{
    struct buf bounds;
    buf_init(&bounds, MAX_SHOWN);
    (void)buf_puts(out, "| setting | value | default | meaning |\n|---|---|---|---|\n");
    for (const struct config_item *item = table; item->name; item++) {
        buf_reset(&bounds);
        config_check_bounds(item, &bounds);
        (void)buf_printf(out, "| `%s` | ", item->name);
        put_cell(buf_text(&bounds), out);
        if (item->fallback && *item->fallback)
            (void)buf_printf(out, " | `%s` | ", item->fallback);
        else if (!item->fallback && !(item->flags & CONFIG_OPTIONAL))
            (void)buf_puts(out, " | required | ");
        else
            (void)buf_puts(out, " | | ");
        put_cell(item->help, out);
        (void)buf_puts(out, " |\n");
    }
    buf_done(&bounds);
}

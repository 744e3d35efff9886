/* table.c - cells are kept as text and shown at the end, when the widths are known. */
#include "cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/json.h"

enum { MAX_JSON = 256 << 20 };

struct cli_table {
    const struct cli_column *columns;
    size_t width; /* columns */
    char **cells; /* NULL: nothing */
    size_t count, cap;
    size_t left_out;
};

static void *must(void *memory)
{
    if (!memory) {
        (void)fputs("urrctl: out of memory\n", stderr);
        exit(CLI_FAILED);
    }
    return memory;
}

struct cli_table *cli_table_new(const struct cli_column *columns)
{
    struct cli_table *t = must(calloc(1, sizeof *t));
    t->columns = columns;
    while (columns[t->width].title)
        t->width++;
    return t;
}

void cli_table_free(struct cli_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t);
}

void cli_put_text(struct cli_table *t, const char *text)
{
    if (t->count / t->width >= CLI_MAX_ROWS) {
        t->left_out++;
        return;
    }
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->cells = must(realloc(t->cells, t->cap * sizeof *t->cells));
    }
    t->cells[t->count++] = text ? must(strdup(text)) : NULL;
}

void cli_put_number(struct cli_table *t, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)number);
    cli_put_text(t, text);
}

void cli_put_real(struct cli_table *t, double number)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%.1f", number);
    cli_put_text(t, text);
}

void cli_put_bool(struct cli_table *t, bool yes)
{
    cli_put_text(t, yes ? "yes" : "no");
}

void cli_put_time(struct cli_table *t, int64_t wall_ms)
{
    char text[CLOCK_ISO_LEN + 1];
    clock_format_iso(wall_ms, text);
    cli_put_text(t, text);
}

void cli_put_json(struct cli_table *t, const char *json)
{
    cli_put_text(t, json);
}

void cli_put_null(struct cli_table *t)
{
    cli_put_text(t, NULL);
}

size_t cli_table_rows(const struct cli_table *t)
{
    return t->count / t->width;
}

/* Characters, not bytes: names may be Korean. */
static size_t shown_length(const char *text)
{
    size_t n = 0;
    for (const char *p = text; p && *p; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80;
    return n;
}

static bool is_right(const struct cli_column *c)
{
    return c->type == CLI_NUMBER || c->type == CLI_REAL;
}

/* What a terminal would obey is shown as '?': cells may come from strangers. */
static void print_cell(const char *text)
{
    for (const char *p = text; *p; p++)
        (void)putchar((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p);
}

static void print_padded(const struct cli_column *c, const char *text, size_t width, bool last)
{
    size_t length = shown_length(text);
    int pad = width > length ? (int)(width - length) : 0;
    if (is_right(c))
        (void)printf("%*s", pad, "");
    print_cell(text);
    if (!is_right(c) && !last)
        (void)printf("%*s", pad, "");
    (void)fputs(last ? "\n" : "  ", stdout);
}

void cli_table_text(const struct cli_table *t, const char *none)
{
    size_t widths[CLI_MAX_COLUMNS] = {0}, rows = cli_table_rows(t), last = 0;
    if (rows == 0) {
        (void)puts(none);
        return;
    }
    for (size_t c = 0; c < t->width; c++) {
        widths[c] = shown_length(t->columns[c].title);
        for (size_t r = 0; r < rows; r++) {
            size_t length = shown_length(t->cells[r * t->width + c]);
            widths[c] = length > widths[c] ? length : widths[c];
        }
        last = t->columns[c].title[0] ? c : last;
    }
    for (size_t c = 0; c < t->width; c++)
        if (t->columns[c].title[0])
            print_padded(&t->columns[c], t->columns[c].title, widths[c], c == last);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < t->width; c++) {
            const char *text = t->cells[r * t->width + c];
            if (t->columns[c].title[0])
                print_padded(&t->columns[c], text ? text : "-", widths[c], c == last);
        }
    if (t->left_out)
        (void)printf("… and %zu more\n", t->left_out / t->width);
}

static void put_json_cell(struct json_out *j, const struct cli_column *c, const char *text)
{
    if (!text)
        json_put_null(j, c->key);
    else if (c->type == CLI_NUMBER)
        json_put_int(j, c->key, strtoll(text, NULL, 10));
    else if (c->type == CLI_REAL)
        json_put_real(j, c->key, strtod(text, NULL));
    else if (c->type == CLI_BOOL)
        json_put_bool(j, c->key, text[0] == 'y');
    else if (c->type == CLI_JSON)
        json_put_raw(j, c->key, text, strlen(text));
    else
        json_put_str(j, c->key, text);
}

void cli_table_json(const struct cli_table *t, struct json_out *j, const char *key)
{
    json_array(j, key);
    for (size_t r = 0; r < cli_table_rows(t); r++) {
        json_object(j, NULL);
        for (size_t c = 0; c < t->width; c++)
            if (t->columns[c].key)
                put_json_cell(j, &t->columns[c], t->cells[r * t->width + c]);
        json_end(j);
    }
    json_end(j);
}

void cli_table_show(const struct cli *cli, const struct cli_table *t, const char *key,
                    const char *none)
{
    if (!cli->json) {
        cli_table_text(t, none);
        return;
    }
    struct buf out;
    struct json_out j;
    buf_init(&out, MAX_JSON);
    json_begin(&j, &out);
    json_object(&j, NULL);
    cli_table_json(t, &j, key);
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

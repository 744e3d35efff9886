/* metrics_text.c - Prometheus text, and the Markdown table of the docs. */
#include "runtime/metrics_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/metrics.h"
#include "runtime/utf8.h"

static const char *const KINDS[] = {"counter", "gauge", "histogram"};
static const char *const UNITS[] = {"seconds", "bytes", "ratio", "celsius", "meters"};

void metrics_text_escape(struct buf *out, const char *text, size_t len, bool quoted)
{
    for (size_t i = 0; i < len;) {
        uint32_t code = 0;
        size_t n = utf8_next(text + i, len - i, &code);
        if (n == 0)
            (void)buf_puts(out, "\xef\xbf\xbd");
        else if (code == '\n')
            (void)buf_puts(out, "\\n");
        else if (code == '\\' || (quoted && code == '"'))
            (void)buf_printf(out, "\\%c", (int)code);
        else
            (void)buf_append(out, text + i, n);
        i += n ? n : 1;
    }
}

void metrics_text_number(struct buf *out, double value)
{
    if (isnan(value)) {
        (void)buf_puts(out, "NaN");
    } else if (isinf(value)) {
        (void)buf_puts(out, value > 0 ? "+Inf" : "-Inf");
    } else {
        char text[40];
        (void)snprintf(text, sizeof text, "%.15g", value);
        if (strtod(text, NULL) != value)
            (void)snprintf(text, sizeof text, "%.17g", value);
        (void)buf_puts(out, text);
    }
}

void metrics_text_name(struct buf *out, const char *name, const char *suffix, const char *labels)
{
    (void)buf_printf(out, labels[0] ? "%s%s{%s} " : "%s%s%s ", name, suffix, labels);
}

/* The unit that the name ends in, before _total; "" when it counts things. */
static const char *unit_of(const char *name)
{
    size_t len = strlen(name);
    if (len > 6 && strcmp(name + len - 6, "_total") == 0)
        len -= 6;
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        size_t n = strlen(UNITS[i]);
        if (len > n && name[len - n - 1] == '_' && strncmp(name + len - n, UNITS[i], n) == 0)
            return UNITS[i];
    }
    return "";
}

void metrics_text_head(struct buf *out, const struct metric_def *def)
{
    (void)buf_printf(out, "# HELP %s ", def->name);
    metrics_text_escape(out, def->help, strlen(def->help), false);
    (void)buf_printf(out, "\n# TYPE %s %s\n", def->name, KINDS[def->kind]);
    const char *unit = unit_of(def->name);
    if (*unit)
        (void)buf_printf(out, "# UNIT %s %s\n", def->name, unit);
}

void metrics_describe(struct buf *out, const struct metric_def *defs, size_t count)
{
    (void)buf_puts(out, "| metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++)
        (void)buf_printf(out, "| `%s` | %s | %s | %s | %s |\n", defs[i].name, KINDS[defs[i].kind],
                         unit_of(defs[i].name), defs[i].labels ? defs[i].labels : "", defs[i].help);
}

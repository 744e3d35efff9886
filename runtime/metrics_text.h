/* metrics_text.h - the words of the Prometheus text format; used by metrics.c only. */
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct metric_def;

/* Backslash and newline are escaped, in label values (`quoted`) the double quote too; a byte that
 * is no UTF-8 becomes U+FFFD. */
void metrics_text_escape(struct buf *out, const char *text, size_t len, bool quoted);
void metrics_text_number(struct buf *out,
                         double value); /* shortest text that reads back the same */
/* name + suffix, the labels in braces if there are any, and a space. */
void metrics_text_name(struct buf *out, const char *name, const char *suffix, const char *labels);
/* HELP, TYPE and, when the name ends in one, UNIT (a comment to readers of the older format). */
void metrics_text_head(struct buf *out, const struct metric_def *def);

#endif

/* table.h - rows for people (aligned columns) and for programs (an array of objects), from one
 * source. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli;
struct json_out;

/* Texts stand left, numbers right. `title` "" leaves a column out of the text, `key` NULL out of
 * the JSON. A table of columns ends with a NULL title. */
enum cli_cell { CLI_TEXT, CLI_NUMBER, CLI_REAL, CLI_BOOL, CLI_TIME, CLI_JSON };
struct cli_column {
    const char *title, *key;
    enum cli_cell type;
};

enum { CLI_MAX_COLUMNS = 16, CLI_MAX_ROWS = 100000 };

/* Opaque, on the heap; never NULL (no memory ends the program). Rows past CLI_MAX_ROWS are
 * counted, not kept, and the text says so. Cells are added in the columns' order, row by row. */
struct cli_table;
struct cli_table *cli_table_new(const struct cli_column *columns);
void cli_table_free(struct cli_table *t); /* accepts NULL */

void cli_put_text(struct cli_table *t, const char *text); /* copied; NULL: nothing, JSON null */
void cli_put_number(struct cli_table *t, int64_t number);
void cli_put_real(struct cli_table *t, double number); /* one digit behind the point in text */
void cli_put_bool(struct cli_table *t, bool yes);
void cli_put_time(struct cli_table *t, int64_t wall_ms); /* ISO-8601 */
void cli_put_json(struct cli_table *t, const char *json);
void cli_put_null(struct cli_table *t);

size_t cli_table_rows(const struct cli_table *t);
/* Prints the columns with their titles; `none` instead where there is no row. */
void cli_table_text(const struct cli_table *t, const char *none);
/* Puts the array under `key`. */
void cli_table_json(const struct cli_table *t, struct json_out *j, const char *key);
/* The whole answer of a command that only lists: text, or {"<key>":[…]} with --json. */
void cli_table_show(const struct cli *cli, const struct cli_table *t, const char *key,
                    const char *none);

#endif

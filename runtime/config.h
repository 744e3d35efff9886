/* config.h - settings from the environment and a KEY=value file, described by one table per daemon.
 *
 * The environment wins over --config FILE, which wins over the default. A bad value, an unknown
 * name in the file (a name of any URR daemon is known), a missing required setting, a secret
 * shorter than 32 bytes, two equal secrets: refused at start, with the setting's name and what
 * would be right. An empty value counts as not given. In the file: KEY=value lines, blank lines and
 * # comments; a value may stand in single or double quotes, which are taken off. */
#ifndef CONFIG_H
#define CONFIG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct fault;

enum config_type {
    CONFIG_STRING,
    CONFIG_INT,    /* min..max */
    CONFIG_BOOL,   /* true|false|1|0|on|off */
    CONFIG_CHOICE, /* one of `choices`, separated by | */
    CONFIG_SECRET, /* >= 32 bytes, or empty when optional; never printed */
    CONFIG_URL     /* scheme one of `choices`; printed without its password */
};

enum {
    CONFIG_OPTIONAL = 1, /* flag: may be absent where `fallback` is NULL */
    CONFIG_BASE64 = 2 /* flag of a secret: its length counts after Base64 decoding, if it decodes */
};

struct config_item {
    const char *name;
    enum config_type type;
    const char *fallback; /* default as text; NULL: required unless CONFIG_OPTIONAL */
    int64_t min, max;     /* CONFIG_INT: value; CONFIG_STRING: length (0,0 = up to 4096) */
    const char *choices;  /* CONFIG_CHOICE, CONFIG_URL */
    const char *help;     /* one sentence, with the unit */
    int flags;
};

struct config; /* opaque, immutable once loaded: any thread may read */

/* `tables` is an array of tables, each ending with a NULL name; the array ends with NULL; where two
 * hold the same name the first counts. Tables are borrowed for the config's life. `known` lists
 * further names that a file may hold (settings of the other daemons), ending with NULL; may be
 * NULL. `file` may be NULL. RC_FATAL: *f names the setting. The caller frees *out with
 * config_free(). */
int config_load(const struct config_item *const *tables, const char *const *known, const char *file,
                struct config **out, struct fault *f);
void config_free(struct config *c);

/* `name` must be in the tables with the fitting type (aborts otherwise: a programming error). An
 * optional setting without value reads as NULL, 0, false. Strings live as long as the config. */
const char *config_str(const struct config *c, const char *name); /* STRING, CHOICE, SECRET, URL */
int64_t config_int(const struct config *c, const char *name);
bool config_bool(const struct config *c, const char *name);

/* The value as it may be shown (no secret, no password), in `scratch`; NULL when absent. */
const char *config_show(const struct config *c, const char *name, struct buf *scratch);

/* Appends what --help prints of the settings; `c` may be NULL, else the values in force are shown
 * (secrets as "(set)"). */
void config_help(const struct config_item *const *tables, const struct config *c, struct buf *out);

/* Appends a Markdown table (for docs/config.md). */
void config_describe(const struct config_item *table, struct buf *out);

#endif

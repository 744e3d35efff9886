/* config_check.h - is this value right for that setting? Used by config.c and config_help.c. */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H
#include <stdbool.h>
#include <stdint.h>

struct buf;
struct config_item;
struct fault;

enum { CONFIG_SECRET_MIN = 32 };

/* RC_FATAL: *f names the setting and what would be right; secrets and URLs are never quoted in it.
 */
int config_check(const struct config_item *item, const char *value, struct fault *f);

/* The readings of values that config_check() has passed. */
int64_t config_check_int(const char *value);
bool config_check_bool(const char *value);

/* Appends "1..65535", "debug|info", "a secret of at least 32 bytes" … */
void config_check_bounds(const struct config_item *item, struct buf *out);

/* Appends the value as it may be shown: no secret, no password inside a URL. */
void config_check_print(const struct config_item *item, const char *value, struct buf *out);

#endif

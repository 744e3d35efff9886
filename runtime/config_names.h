/* config_names.h - the name of every setting of every URR daemon and tool (docs/config-names.txt).
 *
 * For config_load()'s `known`: one --config file can then serve all of them. */
#ifndef CONFIG_NAMES_H
#define CONFIG_NAMES_H

/* Ends with NULL; lives as long as the process. Any thread. */
const char *const *config_names(void);

#endif

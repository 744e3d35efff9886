/* queue_settings.h - urr-queue's own settings (names as in SPEC 10). */
#ifndef QUEUE_SETTINGS_H
#define QUEUE_SETTINGS_H
#include "runtime/config.h"

struct room_rules;

extern const struct config_item QUEUE_SERVICE_SETTINGS[]; /* ends with a NULL name */
struct room_rules queue_settings_rules(const struct config *c);

#endif

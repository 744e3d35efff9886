/* room_settings.c - which ids and settings an event may have. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/room.h"
#include "runtime/fault.h"
#include "runtime/utf8.h"

const struct room_rules ROOM_RULES = {
    .threshold = 1000,
    .active_ttl_ms = 600000,
    .idle_ms = 90000,
    .claim_ttl_ms = 60000,
    .seen_ttl_ms = 600000,
    .batch = 100,
    .interval_ms = 1000,
    .restore_ms = 30000,
    .max_length = 1000000,
    .max_wait_ms = 0,
    .clean_ms = 30000,
    .vwr_batch = 500,
    .vwr_interval_ms = 10000,
    .log_every = 10000,
    .call_timeout_ms = 2000,
    .events_max = 1024,
};

/* Numbers with their bounds; texts have max 0. */
static const struct {
    const char *name;
    int64_t min, max;
} SETTINGS[] = {
    {"activeTtl", 1000, 86400000},
    {"artist", 0, 0},
    {"batch", 1, 100000},
    {"claimTtl", 1000, 86400000},
    {"closed", 0, 1},
    {"closedReason", 0, 0},
    {"idle", 0, 86400000},
    {"interval", 100, 3600000},
    {"maxLength", 0, 100000000},
    {"maxWait", 0, 864000000},
    {"opensAt", 0, INT64_C(1) << 50},
    {"paused", 0, 1},
    {"registered", 0, 1},
    {"seenTtl", 1000, 86400000},
    {"threshold", 0, 10000000},
    {"title", 0, 0},
    {"vwrBatch", 0, 1000000},
    {"vwrInterval", 100, 3600000},
};

static bool all_of(const char *text, size_t max, const char *marks)
{
    size_t len = 0;
    for (; text[len]; len++) {
        char c = text[len];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (len == max || (!plain && !strchr(marks, c)))
            return false;
    }
    return len > 0;
}

bool room_event_ok(const char *event)
{
    return event && all_of(event, ROOM_EVENT_MAX, "_-");
}

bool room_user_ok(const char *user)
{
    return user && all_of(user, ROOM_USER_MAX, "._@+:-");
}

static bool text_ok(const struct room_setting *s, struct fault *f)
{
    size_t len = strnlen(s->value, ROOM_TEXT_MAX + 1);
    bool ok = len <= ROOM_TEXT_MAX && utf8_valid(s->value, len);
    for (size_t i = 0; ok && i < len; i++)
        ok = (unsigned char)s->value[i] >= 0x20 && s->value[i] != 0x7f;
    if (!ok)
        (void)fault_set(f, RC_REJECT, "%s must be text of at most %d bytes on one line", s->name,
                        ROOM_TEXT_MAX);
    return ok;
}

/* One spelling per number: Lua and C must read the same. */
static bool number_ok(const struct room_setting *s, int64_t min, int64_t max, struct fault *f)
{
    const char *digits = "0123456789";
    size_t len = strnlen(s->value, 18);
    bool ok = len <= 16 && strspn(s->value, digits) == len && (s->value[0] != '0' || len == 1);
    int64_t value = ok ? strtoll(s->value, NULL, 10) : -1;
    if (!ok || value < min || value > max) {
        (void)fault_set(f, RC_REJECT, "%s must be a number from %" PRId64 " to %" PRId64, s->name,
                        min, max);
        return false;
    }
    return true;
}

bool room_setting_ok(const struct room_setting *s, struct fault *f)
{
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i++) {
        if (strcmp(s->name, SETTINGS[i].name) != 0)
            continue;
        if (!s->value) {
            (void)fault_set(f, RC_REJECT, "%s has no value", s->name);
            return false;
        }
        if (s->value[0] == '\0')
            return true;
        return SETTINGS[i].max == 0 ? text_ok(s, f)
                                    : number_ok(s, SETTINGS[i].min, SETTINGS[i].max, f);
    }
    (void)fault_set(f, RC_REJECT, "%.64s is no setting of an event", s->name);
    return false;
}

/* room_entry.c - one entry of the admission log, from the stream or from the file. */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "queue-core/room_audit.h"
#include "runtime/json.h"
#include "runtime/redis.h"

static const struct room_entry NOTHING = {.id = "",
                                          .kind = "",
                                          .user = "",
                                          .reason = "",
                                          .of = "",
                                          .members = "",
                                          .score = -1,
                                          .active = -1,
                                          .threshold = -1,
                                          .at_ms = -1};

static const char **text_field(struct room_entry *e, const char *name)
{
    if (strcmp(name, "k") == 0)
        return &e->kind;
    if (strcmp(name, "u") == 0)
        return &e->user;
    if (strcmp(name, "r") == 0)
        return &e->reason;
    if (strcmp(name, "of") == 0)
        return &e->of;
    return strcmp(name, "members") == 0 ? &e->members : NULL;
}

static int64_t *number_field(struct room_entry *e, const char *name)
{
    if (strcmp(name, "s") == 0)
        return &e->score;
    if (strcmp(name, "a") == 0)
        return &e->active;
    if (strcmp(name, "th") == 0)
        return &e->threshold;
    return strcmp(name, "at") == 0 ? &e->at_ms : NULL;
}

static void take(struct room_entry *e, const char *name, const char *value)
{
    const char **text = text_field(e, name);
    int64_t *number = number_field(e, name);
    if (text)
        *text = value;
    else if (number && *value)
        *number = strtoll(value, NULL, 10);
}

bool room_entry_of_reply(const struct redisReply *element, struct room_entry *out)
{
    struct room_entry e = NOTHING;
    const struct redisReply *fields = redis_reply_at(element, 1);
    size_t count = redis_reply_count(fields);
    e.id = redis_reply_str(redis_reply_at(element, 0), NULL);
    for (size_t i = 0; i + 1 < count; i += 2) {
        const char *name = redis_reply_str(redis_reply_at(fields, i), NULL);
        const char *value = redis_reply_str(redis_reply_at(fields, i + 1), NULL);
        if (!name || !value)
            return false;
        take(&e, name, value);
    }
    if (!e.id || !*e.kind)
        return false;
    *out = e;
    return true;
}

bool room_entry_of_json(const struct cJSON *object, struct room_entry *out)
{
    struct room_entry e = NOTHING;
    const struct cJSON *field = NULL;
    if (!cJSON_IsObject(object))
        return false;
    cJSON_ArrayForEach(field, object)
    {
        int64_t *number = number_field(&e, field->string);
        if (cJSON_IsString(field))
            take(&e, field->string, field->valuestring);
        else if (number)
            (void)json_int(object, field->string, number);
    }
    const char *id = json_str(object, "id");
    e.id = id ? id : "";
    if (!*e.kind)
        return false;
    *out = e;
    return true;
}

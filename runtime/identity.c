/* identity.c - claims userId, email and role of a verified token. */
#include "runtime/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/http_server.h"
#include "runtime/json.h"
#include "runtime/jwt.h"

const struct config_item IDENTITY_SETTINGS[] = {
    {"JWT_SECRET", CONFIG_SECRET, NULL, 0, 0, NULL,
     "Secret of the users' tokens (HS256), shared with the service that signs users in.",
     CONFIG_BASE64},
    {"JWT_SECRET_PREVIOUS", CONFIG_SECRET, NULL, 0, 0, NULL,
     "The secret before the last change: tokens signed with it stay good until they expire.",
     CONFIG_BASE64 | CONFIG_OPTIONAL},
    {NULL, 0, NULL, 0, 0, NULL, NULL, 0},
};

int identity_keys(const struct config *c, struct jwt_keys **out, struct fault *f)
{
    return jwt_keys_load(config_str(c, "JWT_SECRET"), config_str(c, "JWT_SECRET_PREVIOUS"),
                         JWT_SECRET_BASE64, out, f);
}

bool identity_is_user_id(const char *text)
{
    static const char ALLOWED[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._@+:-";
    size_t len = text ? strspn(text, ALLOWED) : 0;
    return len >= 1 && len <= IDENTITY_MAX_USER && text[len] == '\0';
}

/* The user's id may be text or a whole number: both kinds of sign-in service exist. */
static bool read_user(const cJSON *claims, struct identity *id)
{
    int64_t number;
    const char *text = json_str(claims, "userId");
    if (json_int(claims, "userId", &number)) {
        (void)snprintf(id->user_id, sizeof id->user_id, "%" PRId64, number);
        return number >= 0;
    }
    if (!identity_is_user_id(text))
        return false;
    memcpy(id->user_id, text, strlen(text) + 1);
    return true;
}

/* Absent or null leaves *out as it is. */
static bool read_text(const cJSON *claims, const char *name, char *out, size_t max)
{
    if (json_is_null_or_absent(claims, name))
        return true;
    const char *text = json_str(claims, name);
    if (!text || strlen(text) > max)
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

int identity_of_token(const struct jwt_keys *keys, const char *token, int64_t now_s,
                      struct identity *out, struct fault *f)
{
    struct identity id = {.role = "user"};
    cJSON *claims = NULL;
    int rc = jwt_verify(keys, token, now_s, &claims, f);
    if (rc != 0)
        return rc;
    bool good =
        read_user(claims, &id) && read_text(claims, "email", id.email, IDENTITY_MAX_EMAIL) &&
        read_text(claims, "role", id.role, IDENTITY_MAX_ROLE) && json_int(claims, "exp", &id.exp_s);
    cJSON_Delete(claims);
    if (!good)
        return fault_set(f, RC_REJECT,
                         "token refused: userId, email or role is not as it should be");
    id.admin = strcmp(id.role, "admin") == 0;
    *out = id;
    return 0;
}

/* The token after "Bearer ", or NULL when the header is another scheme's. */
static const char *bearer(const char *header)
{
    static const char SCHEME[] = "Bearer ";
    if (!header || strncasecmp(header, SCHEME, strlen(SCHEME)) != 0)
        return NULL;
    header += strlen(SCHEME);
    return header + strspn(header, " ");
}

int identity_of_request(const struct jwt_keys *keys, const struct http_request *req, int64_t now_s,
                        struct identity *out, struct fault *f)
{
    const char *token = bearer(http_header(req, "Authorization"));
    bool from_cookie = !token;
    if (from_cookie)
        token = http_cookie(req, "access_token");
    if (!token)
        return fault_set(f, RC_REJECT, "sign in first: no Bearer token and no access_token cookie");
    int rc = identity_of_token(keys, token, now_s, out, f);
    if (rc == 0)
        out->from_cookie = from_cookie;
    return rc;
}

/* identity.h - who a request comes from: the user token every daemon verifies for itself. */
#ifndef IDENTITY_H
#define IDENTITY_H
#include <stdbool.h>
#include <stdint.h>

#include "runtime/config.h"

struct fault;
struct http_request;
struct jwt_keys;

enum { IDENTITY_MAX_USER = 128, IDENTITY_MAX_EMAIL = 254, IDENTITY_MAX_ROLE = 32 };

struct identity {
    char user_id[IDENTITY_MAX_USER + 1]; /* A-Z a-z 0-9 . _ @ + : -  and at least one of them */
    char email[IDENTITY_MAX_EMAIL + 1];  /* "" when the token has none */
    char role[IDENTITY_MAX_ROLE + 1];    /* "user" when the token has none */
    int64_t exp_s;                       /* of the token */
    bool admin;                          /* role is "admin" */
    bool from_cookie; /* changes then need a matching Origin: a cookie is sent by any page */
};

/* JWT_SECRET and JWT_SECRET_PREVIOUS: for a daemon's tables. */
extern const struct config_item IDENTITY_SETTINGS[];
/* Keys from these settings; free them with jwt_keys_free(). RC_FATAL: unusable. */
int identity_keys(const struct config *c, struct jwt_keys **out, struct fault *f);

/* The token of `Authorization: Bearer`, else of the cookie access_token. A bad Bearer token is not
 * made good by a cookie. RC_REJECT: nobody we know (401); *out untouched. */
int identity_of_request(const struct jwt_keys *keys, const struct http_request *req, int64_t now_s,
                        struct identity *out, struct fault *f);
int identity_of_token(const struct jwt_keys *keys, const char *token, int64_t now_s,
                      struct identity *out, struct fault *f);

bool identity_is_user_id(const char *text);

#endif

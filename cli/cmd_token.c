/* cmd_token.c - urrctl token: a user's token for trying things out, as the sign-in service would
 * sign it. Whoever holds JWT_SECRET can do this anyway; the command only spares them the library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/config.h"
#include "runtime/fault.h"
#include "runtime/identity.h"
#include "runtime/json.h"
#include "runtime/jwt.h"

enum { TTL_S = 3600, MAX_TTL_S = 30 * 24 * 3600, MAX_CLAIMS = 4096 };

static const struct config_item *const TABLES[] = {IDENTITY_SETTINGS, NULL};

struct wish {
    const char *user, *email, *role;
    int64_t ttl_s;
};

/* 90, 90s, 15m, 2h, 7d; 0 when it is none of them, or more than MAX_TTL_S. */
static int64_t read_ttl(const char *text)
{
    static const char UNITS[] = "smhd";
    static const int64_t SECONDS[] = {1, 60, 3600, 86400};
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 7 || strlen(text) > digits + 1)
        return 0;
    const char *unit = text[digits] ? strchr(UNITS, text[digits]) : UNITS;
    int64_t ttl_s = unit ? strtoll(text, NULL, 10) * SECONDS[unit - UNITS] : 0;
    return ttl_s <= MAX_TTL_S ? ttl_s : 0;
}

static int read_wish(const struct cli *cli, int argc, char **argv, struct wish *w)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && strcmp(argv[i], "--user") == 0)
            w->user = value;
        else if (value && strcmp(argv[i], "--email") == 0)
            w->email = value;
        else if (value && strcmp(argv[i], "--role") == 0)
            w->role = value;
        else if (value && strcmp(argv[i], "--ttl") == 0)
            w->ttl_s = read_ttl(value);
        else
            return cli_fail(cli, CLI_USAGE,
                            "token: '%s' is not --user ID, --email ADDRESS, --role ROLE or --ttl "
                            "TIME",
                            argv[i]);
    }
    if (!w->user)
        return cli_fail(cli, CLI_USAGE, "token: --user is missing");
    if (!identity_is_user_id(w->user))
        return cli_fail(cli, CLI_USAGE, "token: --user takes 1-%d of A-Z a-z 0-9 . _ @ + : -",
                        IDENTITY_MAX_USER);
    if (strcmp(w->role, "user") != 0 && strcmp(w->role, "admin") != 0)
        return cli_fail(cli, CLI_USAGE, "token: --role is user or admin");
    if (w->ttl_s <= 0)
        return cli_fail(cli, CLI_USAGE, "token: --ttl takes 90, 15m, 2h or 7d, at most 30d");
    return CLI_OK;
}

static void put_claims(const struct wish *w, int64_t now_s, struct buf *out)
{
    struct json_out j;
    json_begin(&j, out);
    json_object(&j, NULL);
    json_put_str(&j, "userId", w->user);
    if (w->email)
        json_put_str(&j, "email", w->email);
    json_put_str(&j, "role", w->role);
    json_put_int(&j, "iat", now_s);
    json_put_int(&j, "exp", now_s + w->ttl_s);
    json_end(&j);
}

/* Signs, and reads it back as a daemon would: no token leaves that they would refuse. */
static int mint(const struct jwt_keys *keys, const struct wish *w, int64_t now_s, struct buf *out,
                struct fault *f)
{
    struct buf claims;
    struct identity id;
    buf_init(&claims, MAX_CLAIMS);
    put_claims(w, now_s, &claims);
    int rc = claims.failed ? fault_set(f, RC_REJECT, "the claims are too long")
                           : jwt_sign(keys, buf_text(&claims), out, f);
    buf_done(&claims);
    return rc != 0 ? rc : identity_of_token(keys, buf_text(out), now_s, &id, f);
}

static void show(const struct cli *cli, const struct wish *w, int64_t now_s, const char *token)
{
    if (!cli->json) {
        (void)puts(token);
        return;
    }
    struct buf out;
    struct json_out j;
    char expires[CLOCK_ISO_LEN + 1];
    clock_format_iso((now_s + w->ttl_s) * 1000, expires);
    buf_init(&out, JWT_MAX_LEN + MAX_CLAIMS);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_put_str(&j, "token", token);
    json_put_str(&j, "userId", w->user);
    json_put_str(&j, "role", w->role);
    json_put_str(&j, "expiresAt", expires);
    json_end(&j);
    (void)puts(buf_text(&out));
    buf_done(&out);
}

static int run(const struct cli *cli, int argc, char **argv)
{
    struct wish w = {.role = "user", .ttl_s = TTL_S};
    int code = read_wish(cli, argc, argv, &w);
    struct config *config = NULL;
    if (code == CLI_OK)
        code = cli_settings(cli, TABLES, &config);
    if (code != CLI_OK)
        return code;
    struct jwt_keys *keys = NULL;
    struct fault f = {0};
    struct buf token;
    int64_t now_s = clock_wall_ms() / 1000;
    buf_init(&token, JWT_MAX_LEN);
    int rc = identity_keys(config, &keys, &f);
    if (rc == 0)
        rc = mint(keys, &w, now_s, &token, &f);
    if (rc == 0)
        show(cli, &w, now_s, buf_text(&token));
    else
        code = cli_fail(cli, rc == RC_REJECT ? CLI_USAGE : cli_code(rc), "token: %s", f.text);
    buf_done(&token);
    jwt_keys_free(keys);
    config_free(config);
    return code;
}

const struct cli_command CMD_TOKEN = {
    "token", "mint a user's token for development",
    "urrctl token --user ID [--email ADDRESS] [--role user|admin] [--ttl 1h]\n\n"
    "Prints a token signed with JWT_SECRET (HS256), good for --ttl (90, 15m, 2h, 7d; at most\n"
    "30d). Send it as `Authorization: Bearer TOKEN` or as the cookie access_token.\n\nExample:\n"
    "  urrctl token --user u1 --role admin --ttl 15m\n",
    run, TABLES};

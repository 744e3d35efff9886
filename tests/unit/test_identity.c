#include "http_rig.h"

#include <stdio.h>

#include "runtime/buf.h"
#include "runtime/identity.h"
#include "runtime/json.h"
#include "runtime/jwt.h"

#define SECRET "0123456789-0123456789-0123456789-A"
#define OLD_SECRET "0123456789-0123456789-0123456789-B"
#define OTHER_SECRET "0123456789-0123456789-0123456789-C"
enum { NOW = 1000 };

static struct jwt_keys *keys_of(const char *secret, const char *previous)
{
    struct jwt_keys *keys = NULL;
    assert_int_equal(jwt_keys_load(secret, previous, JWT_SECRET_TEXT, &keys, NULL), 0);
    return keys;
}

/* In a static buffer: one token at a time. */
static const char *token(const char *secret, const char *claims)
{
    static char text[JWT_MAX_LEN + 1];
    struct jwt_keys *keys = keys_of(secret, NULL);
    struct buf out;
    buf_init(&out, JWT_MAX_LEN);
    assert_int_equal(jwt_sign(keys, claims, &out, NULL), 0);
    (void)snprintf(text, sizeof text, "%s", buf_text(&out));
    buf_done(&out);
    jwt_keys_free(keys);
    return text;
}

static int identify(const char *claims, struct identity *out)
{
    struct jwt_keys *keys = keys_of(SECRET, OLD_SECRET);
    int rc = identity_of_token(keys, token(SECRET, claims), NOW, out, NULL);
    jwt_keys_free(keys);
    return rc;
}

static void reads_user_email_and_role(void **state)
{
    (void)state;
    struct identity id;
    assert_int_equal(identify("{\"exp\":1100,\"userId\":\"user@example.com\",\"email\":\"u@e.com\","
                              "\"role\":\"admin\"}",
                              &id),
                     0);
    assert_string_equal(id.user_id, "user@example.com");
    assert_string_equal(id.email, "u@e.com");
    assert_true(id.admin);
}

static void a_user_without_role_is_a_plain_user(void **state)
{
    (void)state;
    struct identity id;
    assert_int_equal(identify("{\"exp\":1100,\"userId\":42,\"email\":null}", &id), 0);
    assert_string_equal(id.user_id, "42");
    assert_string_equal(id.email, "");
    assert_string_equal(id.role, "user");
    assert_false(id.admin);
}

static void only_the_exact_word_makes_an_admin(void **state)
{
    (void)state;
    static const char *const ROLES[] = {"Admin", "ADMIN", "admin ", "administrator", ""};
    for (size_t i = 0; i < sizeof ROLES / sizeof ROLES[0]; i++) {
        char claims[128];
        struct identity id = {.admin = true};
        (void)snprintf(claims, sizeof claims, "{\"exp\":1100,\"userId\":\"u\",\"role\":\"%s\"}",
                       ROLES[i]);
        assert_int_equal(identify(claims, &id), 0);
        assert_false(id.admin);
    }
}

static void refuses_claims_that_name_nobody(void **state)
{
    (void)state;
    static const char *const CLAIMS[] = {
        "{\"exp\":1100}",
        "{\"exp\":1100,\"userId\":\"\"}",
        "{\"exp\":1100,\"userId\":null}",
        "{\"exp\":1100,\"userId\":-1}",
        "{\"exp\":1100,\"userId\":1.5}",
        "{\"exp\":1100,\"userId\":true}",
        "{\"exp\":1100,\"userId\":[\"u\"]}",
        "{\"exp\":1100,\"userId\":\"a b\"}",
        "{\"exp\":1100,\"userId\":\"a\\nb\"}",
        "{\"exp\":1100,\"userId\":\"a{b}\"}",
        "{\"exp\":1100,\"UserId\":\"u\"}",
        "{\"exp\":1100,\"userId\":\"u\",\"role\":7}",
        "{\"exp\":1100,\"userId\":\"u\",\"email\":{}}",
        "{\"exp\":1100,\"userId\":\"u\",\"role\":\"rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\"}",
        "{\"exp\":1000,\"userId\":\"u\"}",
    };
    for (size_t i = 0; i < sizeof CLAIMS / sizeof CLAIMS[0]; i++) {
        struct identity id = {.user_id = "untouched"};
        assert_int_equal(identify(CLAIMS[i], &id), RC_REJECT);
        assert_string_equal(id.user_id, "untouched");
    }
}

static void an_id_ends_at_its_limit(void **state)
{
    (void)state;
    char longest[IDENTITY_MAX_USER + 2];
    memset(longest, 'a', sizeof longest);
    longest[IDENTITY_MAX_USER + 1] = '\0';
    assert_false(identity_is_user_id(longest));
    longest[IDENTITY_MAX_USER] = '\0';
    assert_true(identity_is_user_id(longest));
    assert_false(identity_is_user_id(NULL));
    assert_false(identity_is_user_id("\xc3\xa9"));
}

/* Answers with the user's id and where the token came from, or 401. */
static void who(struct http_request *req, void *arg)
{
    struct identity id;
    struct fault f;
    char text[200];
    if (identity_of_request(arg, req, NOW, &id, &f) != 0) {
        http_error(req, 401, "UNAUTHORIZED", f.text);
        return;
    }
    int n =
        snprintf(text, sizeof text, "%s by %s", id.user_id, id.from_cookie ? "cookie" : "header");
    http_respond(req, 200, "text/plain", text, (size_t)n);
}

static struct rig rig;
static struct jwt_keys *server_keys;

static int start_server(void **state)
{
    (void)state;
    static const struct http_route ROUTES[] = {{HTTP_GET, "/who", who, NULL}, {0}};
    server_keys = keys_of(SECRET, OLD_SECRET);
    rig_start(&rig, ROUTES, NULL, server_keys);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    rig_stop(&rig);
    jwt_keys_free(server_keys);
    return 0;
}

static const char *ask_with(const char *headers)
{
    static char request[3 * JWT_MAX_LEN];
    (void)snprintf(request, sizeof request,
                   "GET /who HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s\r\n", headers);
    return rig_ask(rig.port, request);
}

static const char *header(const char *start, const char *value)
{
    static char text[2 * JWT_MAX_LEN];
    (void)snprintf(text, sizeof text, "%s%s\r\n", start, value);
    return text;
}

#define USER "{\"exp\":1100,\"userId\":\"u1\"}"

static void takes_a_bearer_token_or_a_cookie(void **state)
{
    (void)state;
    assert_non_null(
        strstr(ask_with(header("Authorization: Bearer ", token(SECRET, USER))), "u1 by header"));
    assert_non_null(
        strstr(ask_with(header("authorization: bearer  ", token(SECRET, USER))), "u1 by header"));
    assert_non_null(strstr(ask_with(header("Cookie: a=b; access_token=", token(SECRET, USER))),
                           "u1 by cookie"));
}

static void honours_the_secret_before_the_last_change(void **state)
{
    (void)state;
    assert_non_null(strstr(ask_with(header("Authorization: Bearer ", token(OLD_SECRET, USER))),
                           "u1 by header"));
    assert_non_null(strstr(ask_with(header("Authorization: Bearer ", token(OTHER_SECRET, USER))),
                           "HTTP/1.1 401 "));
}

static void a_cookie_does_not_make_a_bad_bearer_good(void **state)
{
    (void)state;
    char both[2 * JWT_MAX_LEN];
    (void)snprintf(both, sizeof both, "Authorization: Bearer bad\r\nCookie: access_token=%s\r\n",
                   token(SECRET, USER));
    assert_non_null(strstr(ask_with(both), "HTTP/1.1 401 "));
    /* Another scheme is none of ours: the cookie speaks. */
    (void)snprintf(both, sizeof both, "Authorization: Basic dTpw\r\nCookie: access_token=%s\r\n",
                   token(SECRET, USER));
    assert_non_null(strstr(ask_with(both), "u1 by cookie"));
}

static void nobody_is_nobody_whatever_other_headers_say(void **state)
{
    (void)state;
    assert_non_null(strstr(ask_with(""), "HTTP/1.1 401 "));
    assert_non_null(strstr(ask_with("X-User-Id: u1\r\nX-User-Role: admin\r\n"), "HTTP/1.1 401 "));
    assert_non_null(strstr(ask_with("Authorization: Bearer \r\n"), "HTTP/1.1 401 "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_user_email_and_role),
        cmocka_unit_test(a_user_without_role_is_a_plain_user),
        cmocka_unit_test(only_the_exact_word_makes_an_admin),
        cmocka_unit_test(refuses_claims_that_name_nobody),
        cmocka_unit_test(an_id_ends_at_its_limit),
        cmocka_unit_test(takes_a_bearer_token_or_a_cookie),
        cmocka_unit_test(honours_the_secret_before_the_last_change),
        cmocka_unit_test(a_cookie_does_not_make_a_bad_bearer_good),
        cmocka_unit_test(nobody_is_nobody_whatever_other_headers_say),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

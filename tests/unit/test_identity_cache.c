/* Verified tokens are found again, by the whole token, until they expire. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "queue-core/identity_cache.h"
#include "runtime/fault.h"
#include "runtime/identity.h"

static const char TOKEN[] = "eyJhbGciOiJIUzI1NiJ9.eyJ1c2VySWQiOiJhbm4ifQ.c2lnbmF0dXJlc2lnbmF0dXJl";

static struct identity_cache *fresh(void)
{
    struct identity_cache *c = NULL;
    struct fault f;
    assert_int_equal(identity_cache_new(&c, &f), 0);
    return c;
}

static void gives_back_what_was_verified_until_it_expires(void **state)
{
    (void)state;
    struct identity_cache *c = fresh();
    struct identity id = {.user_id = "ann",
                          .email = "a@b.c",
                          .role = "admin",
                          .exp_s = 100,
                          .admin = true,
                          .from_cookie = true};
    struct identity out = {.user_id = "nobody"};
    assert_false(identity_cache_find(c, TOKEN, 50, &out));
    identity_cache_add(c, TOKEN, &id);
    assert_true(identity_cache_find(c, TOKEN, 99, &out));
    assert_string_equal(out.user_id, "ann");
    assert_string_equal(out.email, "a@b.c");
    assert_string_equal(out.role, "admin");
    assert_true(out.admin);
    assert_int_equal(out.exp_s, 100);
    strcpy(out.user_id, "nobody");
    assert_false(identity_cache_find(c, TOKEN, 100, &out));
    assert_string_equal(out.user_id, "nobody");
    identity_cache_free(c);
}

static void takes_no_token_for_another(void **state)
{
    (void)state;
    struct identity_cache *c = fresh();
    struct identity id = {.user_id = "ann", .role = "user", .exp_s = 100}, out;
    identity_cache_add(c, TOKEN, &id);
    for (size_t i = 0; i < sizeof TOKEN - 1; i++) {
        char other[sizeof TOKEN];
        memcpy(other, TOKEN, sizeof TOKEN);
        other[i] = other[i] == 'A' ? 'B' : 'A';
        assert_false(identity_cache_find(c, other, 50, &out));
    }
    char cut[sizeof TOKEN];
    memcpy(cut, TOKEN, sizeof TOKEN);
    cut[sizeof TOKEN - 2] = '\0';
    assert_false(identity_cache_find(c, cut, 50, &out));
    assert_false(identity_cache_find(c, "", 50, &out));
    identity_cache_free(c);
}

static void stays_bounded(void **state)
{
    (void)state;
    struct identity_cache *c = fresh();
    struct identity id = {.user_id = "ann", .role = "user", .exp_s = 100}, out;
    char token[64], large[IDENTITY_CACHE_TOKEN_MAX + 2];
    for (int i = 0; i < 3 * IDENTITY_CACHE_ENTRIES; i++) {
        (void)snprintf(token, sizeof token, "header.claims.%040d", i);
        identity_cache_add(c, token, &id);
        assert_true(identity_cache_find(c, token, 50, &out));
    }
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    identity_cache_add(c, large, &id);
    assert_false(identity_cache_find(c, large, 50, &out));
    identity_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_what_was_verified_until_it_expires),
        cmocka_unit_test(takes_no_token_for_another),
        cmocka_unit_test(stays_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tier 1 tokens: carry a number that we signed, for one event, and open nothing else. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "queue-core/entry_token.h"
#include "queue-core/signed_number.h"
#include "queue-core/token_keys.h"
#include "queue-core/vwr_token.h"
#include "runtime/fault.h"
#include "token_kit.h"

static const char SECRET[] = "the Tier 1 secret, at least 32 bytes";
static const int64_t NOW = 1795000000;

struct world {
    struct token_keys *keys;
    struct signed_keys numbers;
    char rid[SIGNED_NUMBER_LEN + 1];
    char token[VWR_TOKEN_MAX];
};

static void make_rid(struct world *w, int64_t number, int64_t issued_s)
{
    struct signed_number n = {.epoch = 92000, .number = number, .issued_s = issued_s};
    signed_number_encode(&w->numbers, SIGNED_REQUEST_ID, "ev-1", "anon-1", &n, w->rid);
}

static int open_world(void **state)
{
    static struct world w;
    struct fault f;
    assert_int_equal(token_keys_new(SECRET, NULL, &w.keys, &f), 0);
    assert_int_equal(signed_keys_init(&w.numbers, SECRET, NULL, &f), 0);
    make_rid(&w, 4711, NOW);
    assert_int_equal(vwr_token_sign(w.keys, "ev-1", "anon-1", 4711, w.rid, NOW,
                                    NOW + VWR_TOKEN_TTL_S, w.token, sizeof w.token, &f),
                     0);
    *state = &w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;
    token_keys_free(w->keys);
    signed_keys_done(&w->numbers);
    return 0;
}

static int verify(const struct world *w, const char *token, const char *event, int64_t now_s)
{
    struct vwr_claim claim = {-1, -1, -1};
    struct fault f;
    int rc = vwr_token_verify(w->keys, &w->numbers, token, event, now_s, &claim, &f);
    assert_int_equal(claim.number, rc == 0 ? 4711 : -1);
    assert_int_equal(claim.epoch, rc == 0 ? 92000 : -1);
    assert_int_equal(claim.exp_s, rc == 0 ? NOW + VWR_TOKEN_TTL_S : -1);
    return rc;
}

static void carries_the_number_for_ten_minutes_and_one_event(void **state)
{
    const struct world *w = *state;
    assert_int_equal(verify(w, w->token, "ev-1", NOW), 0);
    assert_int_equal(verify(w, w->token, "ev-1", NOW + 599), 0);
    assert_int_equal(verify(w, w->token, "ev-1", NOW + 600), RC_REJECT);
    assert_int_equal(verify(w, w->token, "ev-2", NOW), RC_REJECT);
}

static void is_no_entry_token_even_under_the_same_secret(void **state)
{
    const struct world *w = *state;
    struct fault f;
    assert_int_equal(entry_token_verify(w->keys, w->token, "ev-1", "anon-1", NOW, NULL, &f),
                     RC_REJECT);
    assert_non_null(strstr(f.text, "not an entry token"));
}

static void an_entry_token_is_no_tier_1_token(void **state)
{
    const struct world *w = *state;
    struct fault f;
    char token[ENTRY_TOKEN_MAX];
    assert_int_equal(
        entry_token_sign(w->keys, "ev-1", "anon-1", NOW, NOW + 600, token, sizeof token, &f), 0);
    assert_int_equal(verify(w, token, "ev-1", NOW), RC_REJECT);
}

/* Signed with the right secret, but saying something we never would. */
static void claims_that_do_not_agree_are_refused(void **state)
{
    struct world *w = *state;
    static const char *shapes[] = {
        "{\"sub\":\"ev-1\",\"uid\":\"anon-1\",\"tier\":1,\"pos\":4712,\"rid\":\"%s\",\"exp\":"
        "1795000600}",
        "{\"sub\":\"ev-1\",\"uid\":\"anon-2\",\"tier\":1,\"pos\":4711,\"rid\":\"%s\",\"exp\":"
        "1795000600}",
        "{\"sub\":\"ev-1\",\"uid\":\"anon-1\",\"tier\":2,\"pos\":4711,\"rid\":\"%s\",\"exp\":"
        "1795000600}",
        "{\"sub\":\"ev-1\",\"uid\":\"anon-1\",\"pos\":4711,\"rid\":\"%s\",\"exp\":1795000600}",
        "{\"sub\":\"ev-1\",\"uid\":\"anon-1\",\"tier\":1,\"rid\":\"%s\",\"exp\":1795000600}",
        "{\"sub\":\"ev-1\",\"tier\":1,\"pos\":4711,\"rid\":\"%s\",\"exp\":1795000600}",
        "{\"sub\":\"ev-1\",\"uid\":\"anon-1\",\"tier\":1,\"pos\":4711,\"rid\":\"%s\"}",
        "{\"sub\":\"ev-1\",\"uid\":\"anon-1\",\"tier\":1,\"pos\":4711,\"rid\":\"x%s\",\"exp\":"
        "1795000600}",
        "{\"uid\":\"anon-1\",\"tier\":1,\"pos\":4711,\"rid\":\"%s\",\"exp\":1795000600}",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char claims[512], token[KIT_TOKEN_MAX];
        const char *at = strstr(shapes[i], "%s");
        (void)snprintf(claims, sizeof claims, "%.*s%s%s", (int)(at - shapes[i]), shapes[i], w->rid,
                       at + 2);
        forge(EVP_sha256(), "{\"alg\":\"HS256\"}", claims, SECRET, token);
        assert_int_equal(verify(w, token, "ev-1", NOW), RC_REJECT);
    }
}

static void other_algorithms_and_secrets_are_refused(void **state)
{
    const struct world *w = *state;
    char claims[512], token[KIT_TOKEN_MAX];
    (void)snprintf(claims, sizeof claims,
                   "{\"sub\":\"ev-1\",\"uid\":\"anon-1\",\"tier\":1,\"pos\":4711,\"rid\":\"%s\","
                   "\"exp\":1795000600}",
                   w->rid);
    forge(EVP_sha256(), "{\"alg\":\"HS256\"}", claims, SECRET, token);
    assert_int_equal(verify(w, token, "ev-1", NOW), 0);
    forge(NULL, "{\"alg\":\"none\"}", claims, SECRET, token);
    assert_int_equal(verify(w, token, "ev-1", NOW), RC_REJECT);
    forge(EVP_sha512(), "{\"alg\":\"HS512\"}", claims, SECRET, token);
    assert_int_equal(verify(w, token, "ev-1", NOW), RC_REJECT);
    forge(EVP_sha256(), "{\"alg\":\"HS256\"}", claims, "not the secret but also of 32 bytes",
          token);
    assert_int_equal(verify(w, token, "ev-1", NOW), RC_REJECT);
}

static void a_request_id_of_yesterday_is_over(void **state)
{
    struct world *w = *state;
    struct fault f;
    char token[VWR_TOKEN_MAX];
    make_rid(w, 4711, NOW - SIGNED_NUMBER_LIFE_S - 1);
    assert_int_equal(vwr_token_sign(w->keys, "ev-1", "anon-1", 4711, w->rid, NOW,
                                    NOW + VWR_TOKEN_TTL_S, token, sizeof token, &f),
                     0);
    assert_int_equal(verify(w, token, "ev-1", NOW), RC_REJECT);
}

static void the_longest_of_everything_fits(void **state)
{
    const struct world *w = *state;
    struct fault f;
    char token[VWR_TOKEN_MAX], event[65], user[129], rid[SIGNED_NUMBER_LEN + 2];
    memset(event, 'e', 64);
    memset(user, 'u', 128);
    memset(rid, 'r', sizeof rid);
    event[64] = user[128] = rid[SIGNED_NUMBER_LEN] = rid[SIGNED_NUMBER_LEN + 1] = '\0';
    assert_int_equal(vwr_token_sign(w->keys, event, user, INT64_MAX, rid, INT64_MAX - 1, INT64_MAX,
                                    token, sizeof token, &f),
                     0);
    assert_int_equal(
        vwr_token_sign(w->keys, "e", "u\"", 1, "r", NOW, NOW + 1, token, sizeof token, &f),
        RC_REJECT);
    rid[SIGNED_NUMBER_LEN] = 'r';
    assert_int_equal(
        vwr_token_sign(w->keys, event, user, 1, rid, NOW, NOW + 1, token, sizeof token, &f),
        RC_REJECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(carries_the_number_for_ten_minutes_and_one_event,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(is_no_entry_token_even_under_the_same_secret, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(an_entry_token_is_no_tier_1_token, open_world, close_world),
        cmocka_unit_test_setup_teardown(claims_that_do_not_agree_are_refused, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(other_algorithms_and_secrets_are_refused, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_request_id_of_yesterday_is_over, open_world, close_world),
        cmocka_unit_test_setup_teardown(the_longest_of_everything_fits, open_world, close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

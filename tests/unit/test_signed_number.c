/* Numbers that their owners carry: nobody but us makes one, and each is good for one thing only. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "queue-core/signed_number.h"
#include "runtime/fault.h"

static const char SECRET[] = "a secret of the waiting room, 32+";
static const char OTHER[] = "another secret of the same length";
static const int64_t NOW = 1795000000;

static struct signed_keys keys(const char *secret, const char *previous)
{
    struct signed_keys k;
    struct fault f;
    assert_int_equal(signed_keys_init(&k, secret, previous, &f), 0);
    return k;
}

static void make(const struct signed_keys *k, enum signed_kind kind, int64_t epoch, int64_t number,
                 int64_t issued_s, char out[SIGNED_NUMBER_LEN + 1])
{
    struct signed_number n = {epoch, number, issued_s};
    signed_number_encode(k, kind, "ev-1", "anna", &n, out);
    assert_true(strlen(out) <= SIGNED_NUMBER_LEN);
}

static int verify(const struct signed_keys *k, const char *text)
{
    struct signed_number n = {-1, -1, -1};
    int rc = signed_number_verify(k, SIGNED_PLACE, "ev-1", "anna", text, NOW, &n);
    if (rc)
        assert_true(n.epoch == -1 && n.number == -1 && n.issued_s == -1);
    return rc;
}

static void what_was_signed_comes_back(void **state)
{
    (void)state;
    struct signed_keys k = keys(SECRET, NULL);
    static const int64_t numbers[] = {0, 1, 35, 36, 8589934591, (INT64_C(1) << 53) - 1};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[SIGNED_NUMBER_LEN + 1];
        struct signed_number n;
        make(&k, SIGNED_PLACE, numbers[i], numbers[i], NOW, text);
        assert_int_equal(signed_number_verify(&k, SIGNED_PLACE, "ev-1", "anna", text, NOW, &n), 0);
        assert_int_equal(n.epoch, numbers[i]);
        assert_int_equal(n.number, numbers[i]);
        assert_int_equal(n.issued_s, NOW);
    }
}

static void any_changed_cut_or_added_byte_is_refused(void **state)
{
    (void)state;
    struct signed_keys k = keys(SECRET, NULL);
    char text[SIGNED_NUMBER_LEN + 1];
    make(&k, SIGNED_PLACE, 92000, 123456, NOW, text);
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        for (int c = 1; c < 256; c++) {
            char changed[SIGNED_NUMBER_LEN + 1];
            memcpy(changed, text, len + 1);
            changed[i] = (char)c;
            assert_int_equal(verify(&k, changed), changed[i] == text[i] ? 0 : RC_REJECT);
        }
    for (size_t cut = 0; cut < len; cut++) {
        char shorter[SIGNED_NUMBER_LEN + 1];
        memcpy(shorter, text, len + 1);
        shorter[cut] = '\0';
        assert_int_equal(verify(&k, shorter), RC_REJECT);
    }
    char longer[2 * SIGNED_NUMBER_LEN];
    (void)snprintf(longer, sizeof longer, "%sA", text);
    assert_int_equal(verify(&k, longer), RC_REJECT);
}

static void refuses_another_event_user_or_kind(void **state)
{
    (void)state;
    struct signed_keys k = keys(SECRET, NULL);
    char text[SIGNED_NUMBER_LEN + 1];
    struct signed_number n;
    make(&k, SIGNED_PLACE, 92000, 7, NOW, text);
    assert_int_equal(signed_number_verify(&k, SIGNED_PLACE, "ev-2", "anna", text, NOW, &n),
                     RC_REJECT);
    assert_int_equal(signed_number_verify(&k, SIGNED_PLACE, "ev-1", "bert", text, NOW, &n),
                     RC_REJECT);
    assert_int_equal(signed_number_verify(&k, SIGNED_REQUEST_ID, "ev-1", "anna", text, NOW, &n),
                     RC_REJECT);
    text[0] = 'r'; /* the kind is signed too */
    assert_int_equal(signed_number_verify(&k, SIGNED_REQUEST_ID, "ev-1", "anna", text, NOW, &n),
                     RC_REJECT);
}

static void event_and_user_cannot_be_shifted_into_each_other(void **state)
{
    (void)state;
    struct signed_keys k = keys(SECRET, NULL);
    char text[SIGNED_NUMBER_LEN + 1];
    struct signed_number n = {1, 2, NOW}, out;
    signed_number_encode(&k, SIGNED_PLACE, "a", "b c", &n, text);
    assert_int_equal(signed_number_verify(&k, SIGNED_PLACE, "a b", "c", text, NOW, &out),
                     RC_REJECT);
}

static void lives_for_a_day_and_not_before_it_was_issued(void **state)
{
    (void)state;
    struct signed_keys k = keys(SECRET, NULL);
    static const struct {
        int64_t issued_s;
        int rc;
    } cases[] = {{NOW - SIGNED_NUMBER_LIFE_S, 0},
                 {NOW - SIGNED_NUMBER_LIFE_S - 1, RC_REJECT},
                 {NOW + 60, 0}, /* clocks of two instances */
                 {NOW + 61, RC_REJECT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[SIGNED_NUMBER_LEN + 1];
        make(&k, SIGNED_PLACE, 1, 1, cases[i].issued_s, text);
        assert_int_equal(verify(&k, text), cases[i].rc);
    }
}

static void the_previous_secret_is_read_and_never_used_to_sign(void **state)
{
    (void)state;
    struct signed_keys old = keys(SECRET, NULL), both = keys(OTHER, SECRET),
                       current = keys(OTHER, NULL), empty = keys(OTHER, "");
    char by_old[SIGNED_NUMBER_LEN + 1], by_both[SIGNED_NUMBER_LEN + 1];
    make(&old, SIGNED_PLACE, 1, 1, NOW, by_old);
    make(&both, SIGNED_PLACE, 1, 1, NOW, by_both);
    assert_int_equal(verify(&both, by_old), 0);
    assert_int_equal(verify(&both, by_both), 0);
    assert_int_equal(verify(&current, by_both), 0);
    assert_int_equal(verify(&current, by_old), RC_REJECT);
    assert_int_equal(verify(&empty, by_old), RC_REJECT);
    assert_int_equal(verify(&old, by_both), RC_REJECT);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct signed_keys k = keys(SECRET, NULL);
    static const char *const bad[] = {"",
                                      "p",
                                      "p.",
                                      "p....",
                                      "p.1.1.1.",
                                      "p.1.1.1",
                                      "p.-1.1.1.AAAAAAAAAAAAAAAAAAAAAA",
                                      "p.01.1.1.AAAAAAAAAAAAAAAAAAAAAA",
                                      "p.zzzzzzzzzzzzz.1.1.AAAAAAAAAAAAAAAAAAAAAA",
                                      "p.1.1.1.AAAAAAAAAAAAAAAAAAAAAA",
                                      "p.1.1.1.AAAAAAAAAAAAAAAAAAAAAA=="};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(verify(&k, bad[i]), RC_REJECT);
}

static void done_wipes_the_keys(void **state)
{
    (void)state;
    struct signed_keys k = keys(SECRET, OTHER);
    static const struct signed_keys zero;
    signed_keys_done(&k);
    assert_memory_equal(&k, &zero, sizeof k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_signed_comes_back),
        cmocka_unit_test(any_changed_cut_or_added_byte_is_refused),
        cmocka_unit_test(refuses_another_event_user_or_kind),
        cmocka_unit_test(event_and_user_cannot_be_shifted_into_each_other),
        cmocka_unit_test(lives_for_a_day_and_not_before_it_was_issued),
        cmocka_unit_test(the_previous_secret_is_read_and_never_used_to_sign),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(done_wipes_the_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

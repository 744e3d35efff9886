#include "check.h"

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/progress.h"

#define NOW INT64_C(1795012771000)

/* cli_fail() writes to standard output with json, where cmocka's own report is: text instead. */
static const struct cli QUIET = {.json = false};

static int parse(int argc, const char **argv, const char **topic, bool *dry, const char **words,
                 int *count)
{
    const struct cli_option options[] = {
        {"--topic", topic, NULL}, {"--dry-run", NULL, dry}, {NULL, NULL, NULL}};
    return cli_args(&QUIET, "replay", "GROUP", argc, (char **)(uintptr_t)argv, options, words, 1, 2,
                    count);
}

static void sorts_options_and_words(void **state)
{
    (void)state;
    const char *argv[] = {"replay", "g", "--topic", "t", "--dry-run", "more"};
    const char *topic = NULL, *words[2] = {NULL};
    bool dry = false;
    int count = 0;
    assert_int_equal(parse(6, argv, &topic, &dry, words, &count), CLI_OK);
    assert_string_equal(topic, "t");
    assert_true(dry);
    assert_int_equal(count, 2);
    assert_string_equal(words[0], "g");
    assert_string_equal(words[1], "more");
}

static void takes_a_value_after_an_equals_sign_and_words_after_two_dashes(void **state)
{
    (void)state;
    const char *argv[] = {"replay", "--topic=a=b", "--", "--dry-run"};
    const char *topic = NULL, *words[2] = {NULL};
    bool dry = false;
    assert_int_equal(parse(4, argv, &topic, &dry, words, NULL), CLI_OK);
    assert_string_equal(topic, "a=b");
    assert_false(dry);
    assert_string_equal(words[0], "--dry-run");
}

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    const char *wrong[][5] = {
        {"replay", "g", "--topics", "t", NULL},     /* no such option */
        {"replay", "g", "--topic", NULL, NULL},     /* no value */
        {"replay", "g", "--dry-run=1", NULL, NULL}, /* a value for a flag */
        {"replay", "--dry-run", NULL, NULL, NULL},  /* too few words */
        {"replay", "a", "b", "c", NULL},            /* too many */
        {"replay", "g", "--topic=", NULL, NULL},    /* an empty value */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *topic = NULL, *words[2] = {NULL};
        bool dry = false;
        int argc = 0;
        while (wrong[i][argc])
            argc++;
        assert_int_equal(parse(argc, wrong[i], &topic, &dry, words, NULL), CLI_USAGE);
    }
    const char *twice[] = {"replay", "g", "--topic=a", "--topic=b"};
    const char *topic = NULL, *words[2] = {NULL};
    bool dry = false;
    assert_int_equal(parse(4, twice, &topic, &dry, words, NULL), CLI_USAGE);
}

static void reads_times_in_every_form(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"now", NOW},
                {"15m", NOW - 900000},
                {"2h", NOW - 7200000},
                {"7d", NOW - INT64_C(604800000)},
                {"1795012771000", NOW},
                {"2026-11-18T16:00:00+09:00", INT64_C(1794985200000)},
                {"2026-11-18T07:00:00Z", INT64_C(1794985200000)}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t ms = 0;
        assert_int_equal(cli_time_parse(good[i].text, NOW, &ms), 0);
        assert_int_equal(ms, good[i].ms);
    }
}

static void refuses_times_that_could_be_misread(void **state)
{
    (void)state;
    const char *bad[] = {"",   "yesterday", "2026-11-18T07:00:00", "1795012771", "-5m", "5 m",
                         "5w", "m",         "99999999999d",        "15mm"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ms = 42;
        assert_int_not_equal(cli_time_parse(bad[i], NOW, &ms), 0);
        assert_int_equal(ms, 42);
    }
}

static void keeps_numbers_within_their_bounds(void **state)
{
    (void)state;
    int64_t n = 7;
    assert_int_equal(cli_number(&QUIET, "--shift", "-20", -100, 100, &n), CLI_OK);
    assert_int_equal(n, -20);
    const char *bad[] = {"", "1x", " 1", "+1", "101", "99999999999999999999", "0x10"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(cli_number(&QUIET, "--shift", bad[i], -100, 100, &n), CLI_USAGE);
    assert_int_equal(n, -20);
}

static void tells_durations_in_two_units(void **state)
{
    (void)state;
    const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0s"},        {59.4, "59s"}, {61, "1m01s"}, {3725, "1h02m"},
                 {90000, "1d01h"}, {-1, "?"},     {1e12, "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[24];
        cli_duration(cases[i].seconds, out, sizeof out);
        assert_string_equal(out, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_options_and_words),
        cmocka_unit_test(takes_a_value_after_an_equals_sign_and_words_after_two_dashes),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(reads_times_in_every_form),
        cmocka_unit_test(refuses_times_that_could_be_misread),
        cmocka_unit_test(keeps_numbers_within_their_bounds),
        cmocka_unit_test(tells_durations_in_two_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

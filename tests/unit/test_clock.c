#include "check.h"

#include <string.h>

#include "runtime/clock.h"
#include "runtime/fault.h"

static int64_t parsed(const char *text)
{
    int64_t ms = -1;
    assert_int_equal(clock_parse_iso(text, strlen(text), &ms), 0);
    return ms;
}

static void reads_zones_and_fractions(void **state)
{
    (void)state;
    assert_int_equal(parsed("1970-01-01T00:00:00Z"), 0);
    assert_int_equal(parsed("2026-11-18T12:51:11.042Z"), INT64_C(1795006271042));
    assert_int_equal(parsed("2026-11-18T21:51:11.042+09:00"), INT64_C(1795006271042));
    assert_int_equal(parsed("2026-11-18T21:51:11.042999999+0900"), INT64_C(1795006271042));
    assert_int_equal(parsed("2026-11-18T12:51Z"), INT64_C(1795006260000));
    assert_int_equal(parsed("2024-02-29T00:00:00-01"), parsed("2024-02-29T01:00:00Z"));
    assert_int_equal(parsed("2016-12-31T23:59:60Z"), parsed("2017-01-01T00:00:00Z"));
}

static void refuses_what_is_no_moment(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2026-11-18",
        "2026-11-18T12:51:11",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:00Zx",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+25:00",
        " 2026-01-01T00:00:00Z",
        "20x6-01-01T00:00:00Z",
        "2026-01-01T00:00:00+09:0",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ms = 77;
        assert_int_equal(clock_parse_iso(bad[i], strlen(bad[i]), &ms), RC_REJECT);
        assert_int_equal(ms, 77);
    }
}

static void writes_what_it_reads(void **state)
{
    (void)state;
    char text[CLOCK_ISO_LEN + 1];
    clock_format_iso(INT64_C(1795006271042), text);
    assert_string_equal(text, "2026-11-18T12:51:11.042Z");
}

static void monotonic_time_never_goes_back(void **state)
{
    (void)state;
    int64_t last = clock_mono_us();
    for (int i = 0; i < 10000; i++) {
        int64_t now = clock_mono_us();
        assert_true(now >= last);
        last = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_zones_and_fractions),
        cmocka_unit_test(refuses_what_is_no_moment),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(monotonic_time_never_goes_back),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}

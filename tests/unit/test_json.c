#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"

static const struct {
    const char *text, *why;
} REFUSED[] = {
    {"", "ends too early"},
    {"   ", "ends too early"},
    {"{", "key was expected"},
    {"[", "ends too early"},
    {"[1,", "ends too early"},
    {"[1,]", "no JSON value"},
    {"{\"a\":1,}", "key was expected"},
    {"{\"a\" 1}", "colon"},
    {"{a:1}", "key was expected"},
    {"{\"a\":1]", "comma or an end"},
    {"[1 2]", "comma or an end"},
    {"{} {}", "bytes after"},
    {"1 x", "bytes after"},
    {"nul", "no JSON value"},
    {"nullx", "bytes after"},
    {"True", "no JSON value"},
    {"NaN", "no JSON value"},
    {"Infinity", "no JSON value"},
    {"'a'", "no JSON value"},
    {"\xef\xbb\xbf{}", "no JSON value"},
    {"/* c */ 1", "no JSON value"},
    {"\"a", "without its end"},
    {"\"a\nb\"", "control character"},
    {"\"\\x41\"", "unknown escape"},
    {"\"\\", "unknown escape"},
    {"\"\\u12g4\"", "\\u escape"},
    {"\"admin\\u0000evil\"", "NUL"},
    {"{\"a\\u0000b\":1}", "NUL"},
    {"\"\\ud800\"", "surrogate"},
    {"\"\\udc00\"", "surrogate"},
    {"\"\\ud800\\u0041\"", "surrogate"},
    {"\"\xff\"", "UTF-8"},
    {"\"\xc0\xaf\"", "UTF-8"},
    {"\"\xed\xa0\x80\"", "UTF-8"},
    {"\"\xf4\x90\x80\x80\"", "UTF-8"},
    {"\"\xe2\x82\"", "UTF-8"},
    {"01", "malformed number"},
    {"-", "malformed number"},
    {"1.", "malformed number"},
    {"1e", "malformed number"},
    {"+1", "no JSON value"},
    {".5", "no JSON value"},
    {"0x10", "bytes after"},
    {"9007199254740993", "lose its value"},
    {"-9007199254740993", "lose its value"},
    {"99999999999999999999", "lose its value"},
    {"9007199254740993.0", "lose its value"},
    {"1e400", "lose its value"},
    {"-1e400", "lose its value"},
    {"1e-400", "lose its value"},
    {"1e16", "lose its value"},
    {"50000.000000000000001", "lose its value"},
    {"0.1000000000000000000000000000000000000000000000000000000000000", "lose its value"},
    {"{\"a\":1,\"a\":2}", "twice"},
    {"{\"a\":1,\"\\u0061\":2}", "twice"},
    {"[{\"b\":{\"c\":1,\"c\":1}}]", "twice"},
};

static void refuses_what_cjson_would_bend(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        cJSON *out = NULL;
        struct fault f = {0};
        int rc = json_parse(REFUSED[i].text, strlen(REFUSED[i].text), &out, &f);
        if (rc != RC_REJECT || !strstr(f.text, REFUSED[i].why))
            fail_msg("%s: rc %d, \"%s\", expected \"%s\"", REFUSED[i].text, rc, f.text,
                     REFUSED[i].why);
        assert_null(out);
        assert_int_equal(f.rc, RC_REJECT);
    }
}

/* What cJSON would bend stays refused, save numbers: those are there, but never as an integer. */
static void a_loose_reader_keeps_numbers_that_no_integer_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        cJSON *out = NULL;
        bool number = strstr(REFUSED[i].why, "lose its value") != NULL;
        char text[1200];
        int len = snprintf(text, sizeof text, "{\"x\":%s,\"y\":7}", REFUSED[i].text);
        if (number) {
            int64_t value = 0;
            assert_int_equal(json_parse_loose(text, (size_t)len, &out, NULL), 0);
            assert_true(cJSON_IsNumber(json_get(out, "x")));
            assert_false(json_int(out, "x", &value));
            assert_true(json_int(out, "y", &value) && value == 7);
            cJSON_Delete(out);
        } else {
            assert_int_equal(json_parse_loose(REFUSED[i].text, strlen(REFUSED[i].text), &out, NULL),
                             RC_REJECT);
        }
    }
}

static void refuses_a_nul_byte_in_the_text(void **state)
{
    (void)state;
    cJSON *out = NULL;
    assert_int_equal(json_parse("\"a\0b\"", 5, &out, NULL), RC_REJECT);
    assert_int_equal(json_parse("1\0", 2, &out, NULL), RC_REJECT);
    assert_int_equal(json_parse("[\0]", 3, &out, NULL), RC_REJECT);
}

static const char *const ACCEPTED[] = {
    "null",
    " true ",
    "0",
    "-0",
    "\"\"",
    "[]",
    "{}",
    "[ ]",
    "{ }",
    "[[],{}]",
    "9007199254740992",
    "-9007199254740992",
    "0.30000000000000004",
    "1.50000000000000000000",
    "5e-324",
    "1E3",
    "1e+3",
    "\"\\ud83c\\udfab \\u00e9 \\/ \\n\"",
    "\"\xf0\x9f\x8e\xab\"",
    "{\"a\":1,\"A\":2}",
    "\t{\"k\"\r\n:\t[1 , -2.5, \"x\"] }\n",
    "0.0",
    "0e0",
};

static void accepts_what_is_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ACCEPTED / sizeof ACCEPTED[0]; i++) {
        cJSON *out = NULL;
        struct fault f = {0};
        if (json_parse(ACCEPTED[i], strlen(ACCEPTED[i]), &out, &f) != 0)
            fail_msg("%s: %s", ACCEPTED[i], f.text);
        cJSON_Delete(out);
    }
}

static void nests_to_its_limit_and_not_beyond(void **state)
{
    (void)state;
    char text[2 * JSON_MAX_DEPTH + 4];
    for (int depth = JSON_MAX_DEPTH; depth <= JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        text[depth] = '1';
        memset(text + depth + 1, ']', (size_t)depth);
        cJSON *out = NULL;
        int rc = json_parse(text, 2 * (size_t)depth + 1, &out, NULL);
        assert_int_equal(rc, depth <= JSON_MAX_DEPTH ? 0 : RC_REJECT);
        cJSON_Delete(out);
    }
}

static void finds_a_duplicate_among_thousands_of_keys(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    (void)buf_putc(&b, '{');
    for (int i = 0; i < 20000; i++)
        (void)buf_printf(&b, "\"k%d\":1,", i);
    size_t open = b.len;
    (void)buf_puts(&b, "\"z\":1}");
    cJSON *out = NULL;
    assert_int_equal(json_parse(b.data, b.len, &out, NULL), 0);
    cJSON_Delete(out);
    b.len = open;
    (void)buf_puts(&b, "\"k77\":1}");
    assert_int_equal(json_parse(b.data, b.len, &out, NULL), RC_REJECT);
    buf_done(&b);
}

static void reads_members_by_type_and_exact_key(void **state)
{
    (void)state;
    const char *text = "{\"s\":\"x\",\"i\":-42,\"big\":9007199254740992,\"r\":1.5,\"t\":true,"
                       "\"n\":null,\"whole\":3.0,\"o\":{\"s\":\"in\"}}";
    cJSON *o = NULL;
    assert_int_equal(json_parse(text, strlen(text), &o, NULL), 0);
    int64_t i = 7;
    bool flag = false;
    assert_string_equal(json_str(o, "s"), "x");
    assert_null(json_str(o, "S"));
    assert_null(json_str(o, "i"));
    assert_false(json_int(o, "r", &i));
    assert_false(json_int(o, "s", &i));
    assert_false(json_int(o, "none", &i));
    assert_int_equal(i, 7);
    assert_true(json_int(o, "i", &i) && i == -42);
    assert_true(json_int(o, "big", &i) && i == JSON_MAX_INT);
    assert_true(json_int(o, "whole", &i) && i == 3);
    assert_false(json_bool(o, "i", &flag));
    assert_true(json_bool(o, "t", &flag) && flag);
    assert_true(json_is_null_or_absent(o, "n") && json_is_null_or_absent(o, "none"));
    assert_false(json_is_null_or_absent(o, "i"));
    assert_non_null(json_get(o, "n"));
    assert_string_equal(json_str(json_get(o, "o"), "s"), "in");
    assert_null(json_get(json_get(o, "i"), "x"));
    assert_null(json_get(NULL, "x"));
    cJSON_Delete(o);
}

static void writes_what_it_would_read(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10000);
    struct json_out j;
    json_begin(&j, &b);
    json_object(&j, NULL);
    json_put_str(&j, "s", "a\"b\\c\nd\x01\x7f 한\xff");
    json_put_strn(&j, "nul", "a\0b", 3);
    json_put_str(&j, "none", NULL);
    json_put_int(&j, "min", INT64_MIN);
    json_put_real(&j, "r", 0.1);
    json_put_real(&j, "third", 1.0 / 3);
    json_put_real(&j, "nan", NAN);
    json_put_bool(&j, "yes", true);
    json_array(&j, "list");
    json_put_int(&j, NULL, 1);
    json_object(&j, NULL);
    json_end(&j);
    json_put_raw(&j, NULL, "[2]", 3);
    json_end(&j);
    json_end(&j);
    assert_string_equal(
        buf_text(&b), "{\"s\":\"a\\\"b\\\\c\\nd\\u0001\x7f 한\xef\xbf\xbd\",\"nul\":\"a\\u0000b\","
                      "\"none\":null,\"min\":-9223372036854775808,\"r\":0.1,"
                      "\"third\":0.33333333333333331,\"nan\":null,\"yes\":true,"
                      "\"list\":[1,{},[2]]}");
    buf_done(&b);
}

static void a_writer_past_its_limits_fails_for_good(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10000);
    struct json_out j;
    json_begin(&j, &b);
    for (int i = 0; i <= JSON_MAX_DEPTH; i++)
        json_array(&j, NULL);
    assert_true(b.failed);
    buf_reset(&b);
    json_begin(&j, &b);
    json_end(&j);
    assert_true(b.failed);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_cjson_would_bend),
        cmocka_unit_test(a_loose_reader_keeps_numbers_that_no_integer_holds),
        cmocka_unit_test(refuses_a_nul_byte_in_the_text),
        cmocka_unit_test(accepts_what_is_json),
        cmocka_unit_test(nests_to_its_limit_and_not_beyond),
        cmocka_unit_test(finds_a_duplicate_among_thousands_of_keys),
        cmocka_unit_test(reads_members_by_type_and_exact_key),
        cmocka_unit_test(writes_what_it_would_read),
        cmocka_unit_test(a_writer_past_its_limits_fails_for_good),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}

#include "check.h"

#include <string.h>

#include "runtime/base64.h"
#include "runtime/fault.h"

static void url_form_goes_there_and_back(void **state)
{
    (void)state;
    unsigned char data[64], back[64];
    char text[BASE64_URL_LEN(64) + 1];
    for (size_t len = 0; len <= sizeof data; len++) {
        for (size_t i = 0; i < len; i++)
            data[i] = (unsigned char)(i * 37 + len * 11);
        base64_url_encode(data, len, text);
        assert_int_equal(strlen(text), BASE64_URL_LEN(len));
        size_t got = 0;
        assert_int_equal(base64_url_decode(text, strlen(text), back, sizeof back, &got), 0);
        assert_int_equal(got, len);
        assert_memory_equal(back, data, len);
    }
}

static void url_form_has_one_spelling_only(void **state)
{
    (void)state;
    static const char *const bad[] = {"QQ==", "QR", "Q", "QUI=", "QUJ", "a+b/", "QQ\n", "Q Q"};
    unsigned char out[16];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t len = 0;
        assert_int_equal(base64_url_decode(bad[i], strlen(bad[i]), out, sizeof out, &len),
                         RC_REJECT);
    }
}

static void standard_form_takes_padding_or_none(void **state)
{
    (void)state;
    char out[16];
    size_t len = 0;
    assert_int_equal(base64_decode("YWI=", 4, out, sizeof out, &len), 0);
    assert_int_equal(len, 2);
    assert_int_equal(base64_decode("YQ==", 4, out, sizeof out, &len), 0);
    assert_int_equal(len, 1);
    assert_int_equal(base64_decode("YWI", 3, out, sizeof out, &len), 0);
    assert_memory_equal(out, "ab", 2);
    assert_int_equal(base64_decode("Y===", 4, out, sizeof out, &len), RC_REJECT);
    assert_int_equal(base64_decode("YWI-", 4, out, sizeof out, &len), RC_REJECT);
    assert_int_equal(base64_decode("YWJjZGVm", 8, out, 5, &len), RC_REJECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(url_form_goes_there_and_back),
        cmocka_unit_test(url_form_has_one_spelling_only),
        cmocka_unit_test(standard_form_takes_padding_or_none),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}

#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/fault.h"

static void grows_to_its_maximum_and_not_beyond(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    char block[100];
    memset(block, 'x', sizeof block);
    assert_int_equal(buf_append(&b, block, 100), 0);
    assert_int_equal(buf_putc(&b, 'y'), RC_REJECT);
    assert_int_equal(b.len, 100);
    assert_true(b.failed);
    buf_done(&b);
}

static void stays_failed_so_that_an_encoder_checks_once(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4);
    assert_int_equal(buf_puts(&b, "hello"), RC_REJECT);
    assert_int_equal(buf_puts(&b, "x"), RC_REJECT);
    assert_string_equal(buf_text(&b), "");
    buf_reset(&b);
    assert_int_equal(buf_puts(&b, "x"), 0);
    buf_done(&b);
}

static void refuses_a_length_that_would_wrap_around(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    assert_int_equal(buf_puts(&b, "abc"), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 1), RC_REJECT);
    buf_done(&b);
}

static void prints_consumes_and_hands_over(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    assert_int_equal(buf_printf(&b, "%s=%d", "seat", 42), 0);
    buf_consume(&b, 5);
    assert_string_equal(buf_text(&b), "42");
    char *text = buf_take(&b);
    assert_string_equal(text, "42");
    assert_int_equal(b.len, 0);
    free(text);
    buf_done(&b);
}

static void is_always_followed_by_a_nul(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(buf_putc(&b, 'a'), 0);
        assert_int_equal(b.data[b.len], '\0');
    }
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_to_its_maximum_and_not_beyond),
        cmocka_unit_test(stays_failed_so_that_an_encoder_checks_once),
        cmocka_unit_test(refuses_a_length_that_would_wrap_around),
        cmocka_unit_test(prints_consumes_and_hands_over),
        cmocka_unit_test(is_always_followed_by_a_nul),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}

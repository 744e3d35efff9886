#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/redis_url.h"

static struct redis_url good(const char *text)
{
    struct redis_url u;
    struct fault f = {0};
    if (redis_url_parse(text, &u, &f) != 0)
        fail_msg("%s: %s", text, f.text);
    return u;
}

static const char *refused(const char *text)
{
    static struct fault f;
    struct redis_url u = {.host = "untouched"};
    if (redis_url_parse(text, &u, &f) != RC_REJECT)
        fail_msg("%s was accepted", text);
    assert_string_equal(u.host, "untouched");
    return f.text;
}

static void reads_every_part(void **state)
{
    (void)state;
    struct redis_url u = good("redis://bob:s3cret@redis.example:6380/7");
    assert_string_equal(u.host, "redis.example");
    assert_int_equal(u.port, 6380);
    assert_int_equal(u.db, 7);
    assert_string_equal(u.user, "bob");
    assert_string_equal(u.password, "s3cret");
}

static void fills_in_port_and_database(void **state)
{
    (void)state;
    const char *const urls[] = {"redis://h", "redis://h/", "redis://h:/", "REDIS://h:6379/0"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct redis_url u = good(urls[i]);
        assert_string_equal(u.host, "h");
        assert_int_equal(u.port, 6379);
        assert_int_equal(u.db, 0);
        assert_string_equal(u.user, "");
        assert_string_equal(u.password, "");
    }
}

static void decodes_passwords_with_reserved_characters(void **state)
{
    (void)state;
    struct redis_url u = good("redis://:p%40ss%2Fw%3Ard%25@127.0.0.1:1");
    assert_string_equal(u.user, "");
    assert_string_equal(u.password, "p@ss/w:rd%");
    assert_string_equal(good("redis://u:a:b@c@h").password, "a:b@c");
}

static void reads_an_ipv6_address(void **state)
{
    (void)state;
    struct redis_url u = good("redis://[::1]:7000/3");
    assert_string_equal(u.host, "::1");
    assert_int_equal(u.port, 7000);
    assert_int_equal(u.db, 3);
    assert_int_equal(good("redis://[fe80::2]").port, 6379);
}

static void refuses_tls_with_a_plain_message(void **state)
{
    (void)state;
    assert_non_null(strstr(refused("rediss://h:6379/0"), "no TLS"));
    assert_non_null(strstr(refused("REDISS://h"), "no TLS"));
}

static void refuses_what_is_no_redis_url(void **state)
{
    (void)state;
    const char *const bad[] = {"",
                               "redis",
                               "redis:",
                               "redis:/h",
                               "http://h",
                               "redis://",
                               "redis://:6379",
                               "redis:///0",
                               "redis://h:0",
                               "redis://h:65536",
                               "redis://h:99999999999999999999",
                               "redis://h:6379x",
                               "redis://h:-1",
                               "redis://h/x",
                               "redis://h/1/2",
                               "redis://h/0?db=1",
                               "redis://h?db=1",
                               "redis://h#f",
                               "redis://h/10000",
                               "redis://secret@h",
                               "redis://u:p%2@h",
                               "redis://u:p%zz@h",
                               "redis://u:p%00@h",
                               "redis://[::1",
                               "redis://[::1]6379",
                               "redis://[]",
                               "redis://@"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        (void)refused(bad[i]);
}

static void refuses_parts_that_are_too_long(void **state)
{
    (void)state;
    char url[2048] = "redis://";
    memset(url + 8, 'h', 300);
    (void)refused(url);
    memset(url + 8, 'p', 1000);
    url[8] = ':';
    (void)strcpy(url + 1000, "@h");
    (void)refused(url);
}

static void never_repeats_a_password(void **state)
{
    (void)state;
    const char *const bad[] = {"redis://u:hunter2@",    "redis://u:hunter2%zz@h",
                               "redis://u:hunter2@h:x", "redis://u:hunter2@h/x",
                               "rediss://u:hunter2@h",  "hunter2://u:hunter2@h"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(strstr(refused(bad[i]), "hunter2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_part),
        cmocka_unit_test(fills_in_port_and_database),
        cmocka_unit_test(decodes_passwords_with_reserved_characters),
        cmocka_unit_test(reads_an_ipv6_address),
        cmocka_unit_test(refuses_tls_with_a_plain_message),
        cmocka_unit_test(refuses_what_is_no_redis_url),
        cmocka_unit_test(refuses_parts_that_are_too_long),
        cmocka_unit_test(never_repeats_a_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

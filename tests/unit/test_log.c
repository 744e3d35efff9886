#include "check.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/json.h"
#include "runtime/log.h"

static int pipe_fds[2];

static void start(enum log_level level, enum log_format format)
{
    assert_int_equal(pipe(pipe_fds), 0);
    log_init("urr-test", level, format, pipe_fds[1]);
}

/* What was written since start(); ends the capture. */
static const char *written(void)
{
    static char text[65536];
    (void)close(pipe_fds[1]);
    size_t len = 0;
    ssize_t n;
    while ((n = read(pipe_fds[0], text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    (void)close(pipe_fds[0]);
    log_init("urr-test", LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT, 2);
    return text;
}

static void writes_one_logfmt_line_with_its_fields(void **state)
{
    (void)state;
    start(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
    LOG_INFO("batch applied", LOG_STR("topic", "payment-events"), LOG_INT("events", 12),
             LOG_FLOAT("seconds", 0.25), LOG_STR("absent", NULL));
    const char *line = written();
    assert_memory_equal(line, "ts=20", 5);
    assert_string_equal(line + strlen("ts=2026-11-18T12:51:11.042Z"),
                        " level=info daemon=urr-test msg=\"batch applied\" topic=payment-events"
                        " events=12 seconds=0.25\n");
}

static void leaves_out_lines_below_its_level(void **state)
{
    (void)state;
    start(LOG_LEVEL_WARN, LOG_FORMAT_LOGFMT);
    LOG_DEBUG("a");
    LOG_INFO("b");
    assert_false(log_enabled(LOG_LEVEL_INFO));
    assert_true(log_enabled(LOG_LEVEL_ERROR));
    assert_string_equal(written(), "");
}

static const char *const NASTY[] = {
    "two\nlines level=error msg=forged",
    "quote \" and \\ backslash",
    "tab\tand\x01control\x7f",
    "stray \xff byte \xc0\xaf overlong",
    "nel \xc2\x85 ls \xe2\x80\xa8 end",
    "한글 and = signs",
    "",
    "carriage\rreturn",
    "esc \x1b[31m red",
};

static void no_value_can_forge_a_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof NASTY / sizeof NASTY[0]; i++) {
        start(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
        LOG_INFO(NASTY[i], LOG_STR("value", NASTY[i]));
        const char *line = written();
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        for (const char *p = line; p[1]; p++)
            assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
    }
}

static void json_lines_read_back_as_what_was_meant(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof NASTY / sizeof NASTY[0]; i++) {
        start(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
        LOG_ERROR("said", LOG_STR("value", NASTY[i]), LOG_INT("n", -7), LOG_FLOAT("inf", INFINITY));
        const char *line = written();
        cJSON *json = NULL;
        assert_int_equal(json_parse(line, strlen(line), &json, NULL), 0);
        int64_t n = 0;
        assert_true(json_int(json, "n", &n));
        assert_int_equal(n, -7);
        assert_string_equal(json_str(json, "level"), "error");
        assert_true(json_is_null_or_absent(json, "inf"));
        if (!strstr(NASTY[i], "stray"))
            assert_string_equal(json_str(json, "value"), NASTY[i]);
        cJSON_Delete(json);
    }
}

static void a_line_too_long_is_cut_and_stays_whole(void **state)
{
    (void)state;
    char *big = malloc(10000);
    assert_non_null(big);
    for (size_t len = LOG_LINE_MAX - 200; len < LOG_LINE_MAX + 40; len++) {
        memset(big, len % 2 ? 'x' : '"', len);
        big[len] = '\0';
        start(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
        LOG_INFO("long", LOG_STR("value", big), LOG_INT("after", 1), LOG_STR("more", "text"));
        const char *line = written();
        assert_true(strlen(line) <= LOG_LINE_MAX);
        cJSON *json = NULL;
        assert_int_equal(json_parse(line, strlen(line), &json, NULL), 0);
        assert_true(json_get(json, "more") || cJSON_IsTrue(json_get(json, "cut")));
        cJSON_Delete(json);
    }
    memset(big, 'x', 9999);
    big[9999] = '\0';
    start(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
    LOG_INFO("long", LOG_STR("value", big));
    const char *line = written();
    assert_true(strlen(line) <= LOG_LINE_MAX);
    assert_string_equal(line + strlen(line) - strlen("xx\" cut=true\n"), "xx\" cut=true\n");
    free(big);
}

static void leaves_errno_alone(void **state)
{
    (void)state;
    log_init("urr-test", LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT, -1);
    errno = ENOENT;
    LOG_INFO("to nowhere");
    assert_int_equal(errno, ENOENT);
    log_init("urr-test", LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT, 2);
}

static void *write_many(void *arg)
{
    for (int i = 0; i < 100; i++)
        LOG_INFO("from a thread", LOG_STR("who", arg), LOG_INT("i", i));
    return NULL;
}

static void lines_of_two_threads_never_mix(void **state)
{
    (void)state;
    start(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    pthread_t a, b;
    assert_int_equal(pthread_create(&a, NULL, write_many, "a"), 0);
    assert_int_equal(pthread_create(&b, NULL, write_many, "b"), 0);
    (void)pthread_join(a, NULL);
    (void)pthread_join(b, NULL);
    int lines = 0;
    for (const char *line = written(), *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        cJSON *json = NULL;
        assert_int_equal(json_parse(line, (size_t)(end - line), &json, NULL), 0);
        cJSON_Delete(json);
    }
    assert_int_equal(lines, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_one_logfmt_line_with_its_fields),
        cmocka_unit_test(leaves_out_lines_below_its_level),
        cmocka_unit_test(no_value_can_forge_a_line),
        cmocka_unit_test(json_lines_read_back_as_what_was_meant),
        cmocka_unit_test(a_line_too_long_is_cut_and_stays_whole),
        cmocka_unit_test(leaves_errno_alone),
        cmocka_unit_test(lines_of_two_threads_never_mix),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}

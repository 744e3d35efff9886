#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/config_file.h"
#include "runtime/fault.h"

#define SECRET_A "0123456789-abcdefghij-0123456789-A"
#define SECRET_B "0123456789-abcdefghij-0123456789-B"

static const struct config_item FIRST[] = {
    {"T_PORT", CONFIG_INT, "3007", 1, 65535, NULL, "Port of the HTTP server.", 0},
    {"T_NAME", CONFIG_STRING, NULL, 2, 8, NULL, "A name.", CONFIG_OPTIONAL},
    {"T_FLAG", CONFIG_BOOL, "off", 0, 0, NULL, "A switch.", 0},
    {"T_LEVEL", CONFIG_CHOICE, "info", 0, 0, "debug|info", "How much.", 0},
    {NULL, 0, NULL, 0, 0, NULL, NULL, 0},
};
static const struct config_item SECOND[] = {
    {"T_SECRET", CONFIG_SECRET, NULL, 0, 0, NULL, "Signs things.", CONFIG_OPTIONAL},
    {"T_OTHER_SECRET", CONFIG_SECRET, NULL, 0, 0, NULL, "Signs others.", CONFIG_OPTIONAL},
    {"T_JWT", CONFIG_SECRET, NULL, 0, 0, NULL, "Signs users.", CONFIG_OPTIONAL | CONFIG_BASE64},
    {"T_URL", CONFIG_URL, NULL, 0, 0, "redis", "The server.", CONFIG_OPTIONAL},
    {"T_PORT", CONFIG_INT, "1", 0, 0, NULL, "Hidden by the first table.", 0},
    {NULL, 0, NULL, 0, 0, NULL, NULL, 0},
};
static const struct config_item NEEDED[] = {
    {"T_NEEDED", CONFIG_STRING, NULL, 0, 0, NULL, "Must be given.", 0},
    {NULL, 0, NULL, 0, 0, NULL, NULL, 0},
};
static const struct config_item *const TABLES[] = {FIRST, SECOND, NULL};
static const char *const KNOWN[] = {"QUEUE_THRESHOLD", NULL};

static int clear_environment(void **state)
{
    (void)state;
    return clearenv();
}

static char path[] = "/tmp/test_config_XXXXXX";

static const char *file_with(const char *text)
{
    (void)strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    return path;
}

static struct config *loaded(const char *file)
{
    struct config *c = NULL;
    struct fault f = {0};
    if (config_load(TABLES, KNOWN, file, &c, &f) != 0)
        fail_msg("%s", f.text);
    return c;
}

static void takes_environment_over_file_over_default(void **state)
{
    (void)state;
    const char *file = file_with("T_PORT=4000\nT_LEVEL=debug\n");
    (void)setenv("T_PORT", "5000", 1);
    struct config *c = loaded(file);
    assert_int_equal(config_int(c, "T_PORT"), 5000);
    assert_string_equal(config_str(c, "T_LEVEL"), "debug");
    assert_false(config_bool(c, "T_FLAG"));
    assert_null(config_str(c, "T_NAME"));
    config_free(c);
    (void)unlink(file);
}

static void reads_quotes_comments_and_blank_lines(void **state)
{
    (void)state;
    const char *file = file_with("# comment\r\n\r\n  T_NAME = \"a # b\"  \r\nT_FLAG='ON'\n"
                                 "QUEUE_THRESHOLD=77");
    struct config *c = loaded(file);
    assert_string_equal(config_str(c, "T_NAME"), "a # b");
    assert_true(config_bool(c, "T_FLAG"));
    config_free(c);
    (void)unlink(file);
}

static void an_empty_value_counts_as_not_given(void **state)
{
    (void)state;
    const char *file = file_with("T_PORT=4000\nT_NAME=\n");
    (void)setenv("T_PORT", "", 1);
    struct config *c = loaded(file);
    assert_int_equal(config_int(c, "T_PORT"), 4000);
    assert_null(config_str(c, "T_NAME"));
    config_free(c);
    (void)unlink(file);
}

static const struct {
    const char *name, *value, *says;
} BAD_VALUES[] = {
    {"T_PORT", "0", "T_PORT: \"0\" is not 1..65535"},
    {"T_PORT", "65536", "1..65535"},
    {"T_PORT", "12x", "1..65535"},
    {"T_PORT", " 12", "1..65535"},
    {"T_PORT", "+12", "1..65535"},
    {"T_PORT", "99999999999999999999", "1..65535"},
    {"T_FLAG", "maybe", "true|false"},
    {"T_LEVEL", "inf", "debug|info"},
    {"T_LEVEL", "debug|info", "debug|info"},
    {"T_NAME", "x", "2..8 bytes"},
    {"T_NAME", "far too long", "2..8 bytes"},
    {"T_NAME", "\xff\xfe", "UTF-8"},
    {"T_SECRET", "short-and-sweet", "T_SECRET: must be at least 32 bytes, this one has 15"},
    {"T_JWT",
     "QUJDREVGR0hJSktMTU5PUFFSU1RVVg==", "32 bytes after Base64 decoding, this one has 22"},
    {"T_URL", "rediss://host", "T_URL: must be a URL that begins with redis://"},
    {"T_URL", "host:6379", "begins with redis://"},
    {"T_URL", "redis://", "names no server"},
    {"T_URL", "redis://a b", "space"},
};

static void names_the_bad_setting_and_what_would_be_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD_VALUES / sizeof BAD_VALUES[0]; i++) {
        (void)clearenv();
        (void)setenv(BAD_VALUES[i].name, BAD_VALUES[i].value, 1);
        struct config *c = NULL;
        struct fault f = {0};
        int rc = config_load(TABLES, KNOWN, NULL, &c, &f);
        if (rc != RC_FATAL || !strstr(f.text, BAD_VALUES[i].says))
            fail_msg("%s=%s: %d \"%s\"", BAD_VALUES[i].name, BAD_VALUES[i].value, rc, f.text);
        assert_non_null(strstr(f.text, BAD_VALUES[i].name));
        assert_null(c);
        if (strstr(BAD_VALUES[i].name, "SECRET") || strstr(BAD_VALUES[i].name, "JWT"))
            assert_null(strstr(f.text, BAD_VALUES[i].value));
    }
}

static const struct {
    const char *text, *says;
} BAD_FILES[] = {
    {"T_PORTT=1\n", "line 1: T_PORTT is no setting of URR: did you mean T_PORT?"},
    {"\n\nWHATEVER_IT_IS=1\n", "line 3: WHATEVER_IT_IS is no setting of URR"},
    {"T_PORT\n", "line 1: not of the form"},
    {"t_port=1\n", "line 1: the name"},
    {"=1\n", "line 1: the name"},
    {"T_PORT=1\nT_PORT=2\n", "line 2: this name was set"},
    {"T_NAME=\"open\n", "line 1: a quote"},
    {"T_NAME=\"a\"b\"\n", "line 1: a quote"},
    {"T_NAME=\xff\n", "not a UTF-8 text file"},
    {"T_PORT=0\n", "T_PORT"},
    {"QUEUE_THRESHOLDS=1", "did you mean QUEUE_THRESHOLD?"},
};

static void refuses_a_bad_file_with_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD_FILES / sizeof BAD_FILES[0]; i++) {
        const char *file = file_with(BAD_FILES[i].text);
        struct config *c = NULL;
        struct fault f = {0};
        int rc = config_load(TABLES, KNOWN, file, &c, &f);
        if (rc != RC_FATAL || !strstr(f.text, BAD_FILES[i].says))
            fail_msg("%s: %d \"%s\"", BAD_FILES[i].text, rc, f.text);
        (void)unlink(file);
    }
    struct fault f = {0};
    struct config *c = NULL;
    assert_int_equal(config_load(TABLES, KNOWN, "/no/such/file", &c, &f), RC_FATAL);
    assert_non_null(strstr(f.text, "/no/such/file: No such file"));
    assert_int_equal(config_load(TABLES, KNOWN, "/tmp", &c, &f), RC_FATAL);
}

static void refuses_a_file_without_end(void **state)
{
    (void)state;
    struct config_file *file = NULL;
    struct fault f = {0};
    assert_int_equal(config_file_read("/dev/zero", &file, &f), RC_FATAL);
    assert_non_null(strstr(f.text, "larger than"));
}

static void a_required_setting_must_be_there(void **state)
{
    (void)state;
    const struct config_item *const tables[] = {NEEDED, NULL};
    struct config *c = NULL;
    struct fault f = {0};
    assert_int_equal(config_load(tables, NULL, NULL, &c, &f), RC_FATAL);
    assert_string_equal(f.text, "T_NEEDED: is required, give text");
}

static void refuses_one_secret_for_two_purposes(void **state)
{
    (void)state;
    (void)setenv("T_SECRET", SECRET_A, 1);
    (void)setenv("T_OTHER_SECRET", SECRET_A, 1);
    struct config *c = NULL;
    struct fault f = {0};
    assert_int_equal(config_load(TABLES, KNOWN, NULL, &c, &f), RC_FATAL);
    assert_string_equal(f.text,
                        "T_SECRET and T_OTHER_SECRET: must differ, give each its own secret");
    (void)setenv("T_OTHER_SECRET", SECRET_B, 1);
    config_free(loaded(NULL));
}

static void counts_a_base64_secret_by_its_bytes(void **state)
{
    (void)state;
    (void)setenv("T_JWT", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", 1);
    config_free(loaded(NULL));
    (void)setenv("T_JWT", "not-base64-but-long-enough-to-be-a-secret", 1);
    config_free(loaded(NULL));
}

static void help_shows_values_but_no_secret(void **state)
{
    (void)state;
    (void)setenv("T_SECRET", SECRET_A, 1);
    (void)setenv("T_URL", "redis://user:pa/ss@wo:rd@host:6379/0?password=hunter2&x=1", 1);
    struct config *c = loaded(NULL);
    struct buf b;
    buf_init(&b, 100000);
    config_help(TABLES, c, &b);
    assert_null(strstr(buf_text(&b), SECRET_A));
    assert_null(strstr(buf_text(&b), "wo:rd"));
    assert_null(strstr(buf_text(&b), "hunter2"));
    assert_non_null(strstr(buf_text(&b), "now: redis://user:***@host:6379/0?password=***&x=1\n"));
    assert_non_null(strstr(buf_text(&b), "  T_SECRET\n      Signs things.\n      a secret of at "
                                         "least 32 bytes, optional\n      now: (set)\n"));
    assert_non_null(strstr(buf_text(&b), "1..65535, default 3007\n      now: 3007\n"));
    buf_reset(&b);
    config_help(TABLES, NULL, &b);
    assert_null(strstr(buf_text(&b), "now:"));
    buf_done(&b);
    config_free(c);
}

static void describes_itself_for_the_docs(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100000);
    config_describe(FIRST, &b);
    assert_non_null(
        strstr(buf_text(&b), "| `T_PORT` | 1..65535 | `3007` | Port of the HTTP server. |\n"));
    assert_non_null(strstr(buf_text(&b), "| `T_LEVEL` | debug\\|info | `info` | How much. |\n"));
    buf_done(&b);
}

#define TEST(t) cmocka_unit_test_setup(t, clear_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(takes_environment_over_file_over_default),
        TEST(reads_quotes_comments_and_blank_lines),
        TEST(an_empty_value_counts_as_not_given),
        TEST(names_the_bad_setting_and_what_would_be_right),
        TEST(refuses_a_bad_file_with_its_line),
        TEST(refuses_a_file_without_end),
        TEST(a_required_setting_must_be_there),
        TEST(refuses_one_secret_for_two_purposes),
        TEST(counts_a_base64_secret_by_its_bytes),
        TEST(help_shows_values_but_no_secret),
        TEST(describes_itself_for_the_docs),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}

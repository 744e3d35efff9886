/* args.c - command lines are read once, by one reader, so that all commands behave alike. */
#include "cli/args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "runtime/clock.h"
#include "runtime/fault.h"

enum { MAX_OPTIONS = 32 };

static int find_option(const struct cli_option *options, const char *word, size_t len)
{
    for (int i = 0; options && options[i].name; i++)
        if (strlen(options[i].name) == len && memcmp(options[i].name, word, len) == 0)
            return i;
    return -1;
}

static int take_option(const struct cli *cli, const char *what, const struct cli_option *option,
                       const char *given, char **argv, int argc, int *at)
{
    if (option->flag) {
        *option->flag = true;
        return given ? cli_fail(cli, CLI_USAGE, "%s: %s takes no value", what, option->name)
                     : CLI_OK;
    }
    if (!given && *at + 1 < argc)
        given = argv[++*at];
    if (!given || !*given)
        return cli_fail(cli, CLI_USAGE, "%s: %s needs a value", what, option->name);
    *option->value = given;
    return CLI_OK;
}

int cli_args(const struct cli *cli, const char *what, const char *usage, int argc, char **argv,
             const struct cli_option *options, const char **words, int min, int max, int *out_count)
{
    bool seen[MAX_OPTIONS] = {false};
    bool only_words = false;
    int count = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!only_words && strcmp(word, "--") == 0) {
            only_words = true;
            continue;
        }
        if (only_words || word[0] != '-' || !word[1]) {
            if (count == max)
                return cli_fail(cli, CLI_USAGE, "%s: '%s' is too much; expected %s", what, word,
                                *usage ? usage : "no arguments");
            words[count++] = word;
            continue;
        }
        const char *equals = strchr(word, '=');
        size_t len = equals ? (size_t)(equals - word) : strlen(word);
        int found = find_option(options, word, len);
        if (found < 0)
            return cli_fail(cli, CLI_USAGE, "%s: no option '%.*s'; --help lists them", what,
                            (int)len, word);
        if (found < MAX_OPTIONS && seen[found])
            return cli_fail(cli, CLI_USAGE, "%s: %s is given twice", what, options[found].name);
        if (found < MAX_OPTIONS)
            seen[found] = true;
        int code =
            take_option(cli, what, &options[found], equals ? equals + 1 : NULL, argv, argc, &i);
        if (code != CLI_OK)
            return code;
    }
    if (count < min)
        return cli_fail(cli, CLI_USAGE, "%s: expected %s", what, usage);
    if (out_count)
        *out_count = count;
    return CLI_OK;
}

int cli_sub(const struct cli *cli, const char *what, const struct cli_sub *subs, int argc,
            char **argv)
{
    char names[160] = "";
    size_t used = 0;
    for (int i = 0; subs[i].name; i++) {
        if (argc > 1 && strcmp(argv[1], subs[i].name) == 0)
            return subs[i].run(cli, argc - 1, argv + 1);
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                     subs[i].name);
    }
    if (argc > 1)
        return cli_fail(cli, CLI_USAGE, "%s: '%s' is none of %s", what, argv[1], names);
    return cli_fail(cli, CLI_USAGE, "%s: expected one of %s", what, names);
}

static int read_number(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    if (errno || end == text || *end || text[0] == ' ' || text[0] == '+')
        return RC_REJECT;
    *out = value;
    return 0;
}

int cli_number(const struct cli *cli, const char *option, const char *text, int64_t min,
               int64_t max, int64_t *out)
{
    int64_t value = 0;
    if (read_number(text, &value) != 0 || value < min || value > max)
        return cli_fail(cli, CLI_USAGE, "%s takes a whole number from %lld to %lld, not '%s'",
                        option, (long long)min, (long long)max, text);
    *out = value;
    return CLI_OK;
}

/* 90s, 15m, 2h, 7d: that long ago. */
static int read_ago(const char *text, int64_t now_ms, int64_t *out_ms)
{
    static const char UNITS[] = "smhd";
    static const int64_t MS[] = {1000, 60000, 3600000, 86400000};
    size_t digits = strspn(text, "0123456789");
    const char *unit = digits && digits < 10 && text[digits] ? strchr(UNITS, text[digits]) : NULL;
    if (!unit || text[digits + 1])
        return RC_REJECT;
    int64_t ago = strtoll(text, NULL, 10) * MS[unit - UNITS];
    *out_ms = now_ms > ago ? now_ms - ago : 0;
    return 0;
}

int cli_time_parse(const char *text, int64_t now_ms, int64_t *out_ms)
{
    int64_t ms = 0;
    if (strcmp(text, "now") == 0)
        ms = now_ms;
    else if (read_ago(text, now_ms, &ms) != 0 && clock_parse_iso(text, strlen(text), &ms) != 0 &&
             (read_number(text, &ms) != 0 || ms < INT64_C(1000000000000)))
        return RC_REJECT;
    *out_ms = ms;
    return 0;
}

int cli_time(const struct cli *cli, const char *option, const char *text, int64_t *out_ms)
{
    if (cli_time_parse(text, clock_wall_ms(), out_ms) != 0)
        return cli_fail(cli, CLI_USAGE,
                        "%s takes a time with its zone (2026-11-18T03:00:00+09:00), ms since "
                        "1970, now, or 15m, 2h, 7d ago; not '%s'",
                        option, text);
    return CLI_OK;
}

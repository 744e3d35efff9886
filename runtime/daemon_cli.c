/* daemon_cli.c - the command line of every daemon, and the settings runtime adds to its tables. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/buf.h"
#include "runtime/config_names.h"
#include "runtime/daemon_internal.h"
#include "runtime/log.h"
#include "runtime/metrics.h"

enum { MAX_TEXT_BYTES = 1 << 20 };

enum action { RUN, HELP, VERSION, CHECK, DESCRIBE_CONFIG, DESCRIBE_METRICS, WRONG };

struct command {
    enum action action;
    const char *file;
};

static const struct config_item OWN[] = {
    {"HTTP_ADDRESS", CONFIG_STRING, "127.0.0.1", 2, 45, NULL,
     "IP address to listen on; 0.0.0.0 or :: for all.", 0},
    {"MAX_CONNECTIONS", CONFIG_INT, "10000", 1, 1000000, NULL,
     "Open HTTP connections of the process, shared out evenly among its workers; past it 503.", 0},
    {"ACCESS_LOG", CONFIG_BOOL, "false", 0, 0, NULL, "One log line per HTTP request.", 0},
    {"LOG_LEVEL", CONFIG_CHOICE, "info", 0, 0, "debug|info|warn|error",
     "The least important lines that are logged.", 0},
    {"LOG_FORMAT", CONFIG_CHOICE, "logfmt", 0, 0, "logfmt|json", "How log lines are written.", 0},
    {"DRAIN_SECONDS", CONFIG_INT, "10", 0, 600, NULL,
     "Seconds that requests and batches under way get to finish after SIGTERM.", 0},
};

static const struct config_item WORKERS = {
    "WORKERS",
    CONFIG_INT,
    NULL,
    1,
    DAEMON_MAX_WORKERS,
    NULL,
    "Event loops, each a thread; without it one per core, at most 8.",
    CONFIG_OPTIONAL};

/* The daemon's tables come first: where it names a setting of runtime's, its own row counts. */
static void gather_tables(struct daemon *d)
{
    const struct daemon_spec *spec = d->spec;
    size_t n = 0, tables = 0, routes = 0;
    d->own[n++] = (struct config_item){
        .name = spec->port_setting ? spec->port_setting : "HTTP_PORT",
        .type = CONFIG_INT,
        .fallback = spec->default_port,
        .min = 0,
        .max = 65535,
        .help = "Port of the API, /health, /readyz and /metrics; 0: any free one."};
    for (size_t i = 0; i < sizeof OWN / sizeof OWN[0]; i++)
        d->own[n++] = OWN[i];
    if (!spec->single_worker)
        d->own[n++] = WORKERS;
    for (; spec->settings && spec->settings[tables] && tables < DAEMON_MAX_TABLES; tables++)
        d->settings[tables] = spec->settings[tables];
    d->settings[tables] = d->own;
    for (; spec->routes && spec->routes[routes] && routes < DAEMON_MAX_TABLES; routes++)
        d->routes[routes] = spec->routes[routes];
    d->routes[routes] = DAEMON_HEALTH_ROUTES;
}

static void start_log(const struct daemon *d)
{
    static const char *const LEVELS[] = {"debug", "info", "warn", "error"};
    const char *level = config_str(d->config, "LOG_LEVEL");
    enum log_level least = LOG_LEVEL_INFO;
    for (unsigned i = 0; i < sizeof LEVELS / sizeof LEVELS[0]; i++)
        if (strcmp(level, LEVELS[i]) == 0)
            least = (enum log_level)i;
    bool json = strcmp(config_str(d->config, "LOG_FORMAT"), "json") == 0;
    log_init(d->spec->name, least, json ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT, STDERR_FILENO);
}

static void put_help(const struct daemon *d, struct buf *out)
{
    (void)buf_printf(
        out,
        "%s - %s\n\n"
        "Usage: %s [--config FILE]\n\n"
        "  --config FILE           read KEY=value lines; the environment wins over them\n"
        "  --check-config          check all settings, show them, and exit\n"
        "  --describe config       the settings as Markdown\n"
        "  --describe metrics      the metrics as Markdown\n"
        "  --version               print the version\n"
        "  --help                  print this\n\n"
        "SIGTERM and SIGINT finish what is under way within DRAIN_SECONDS; a second one\n"
        "ends the process at once.\n"
        "Exit codes: 0 stopped as asked, 1 failed, 2 wrong usage or settings.\n\n"
        "Settings:\n",
        d->spec->name, d->spec->purpose, d->spec->name);
    config_help(d->settings, NULL, out);
}

static void put_settings(const struct daemon *d, struct buf *out)
{
    (void)buf_printf(out, "## %s\n\n%s\n", d->spec->name, d->spec->purpose);
    for (const struct config_item *const *table = d->settings; *table; table++) {
        (void)buf_putc(out, '\n');
        config_describe(*table, out);
    }
}

static void put_metric_table(const struct metric_def *table, struct buf *out)
{
    size_t count = 0;
    while (table[count].name)
        count++;
    (void)buf_putc(out, '\n');
    metrics_describe(out, table, count);
}

static void put_metrics(const struct daemon *d, struct buf *out)
{
    (void)buf_printf(out, "## %s\n\n%s\n", d->spec->name, d->spec->purpose);
    for (const struct metric_def *const *t = d->spec->metrics; t && *t; t++)
        put_metric_table(*t, out);
    put_metric_table(HTTP_METRICS, out);
    put_metric_table(DAEMON_METRICS, out);
}

static bool parse_describe(const char *what, struct command *c)
{
    if (strcmp(what, "config") == 0)
        c->action = DESCRIBE_CONFIG;
    else if (strcmp(what, "metrics") == 0)
        c->action = DESCRIBE_METRICS;
    else
        return false;
    return true;
}

static struct command parse(int argc, char **argv)
{
    static const struct option OPTIONS[] = {
        {"help", no_argument, NULL, 'h'},           {"version", no_argument, NULL, 'V'},
        {"check-config", no_argument, NULL, 'n'},   {"config", required_argument, NULL, 'c'},
        {"describe", required_argument, NULL, 'd'}, {NULL, 0, NULL, 0}};
    struct command c = {RUN, NULL};
    int option;
    optind = 0; /* glibc: forget an earlier parse */
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (option == 'h')
            c.action = HELP;
        else if (option == 'V')
            c.action = VERSION;
        else if (option == 'n')
            c.action = CHECK;
        else if (option == 'c')
            c.file = optarg;
        else if (option != 'd' || !parse_describe(optarg, &c))
            return (struct command){WRONG, NULL};
    }
    return optind < argc ? (struct command){WRONG, NULL} : c;
}

/* A full disk or a closed pipe is a failure too. */
static int print(struct buf *out)
{
    bool written = !out->failed && fwrite(out->data, 1, out->len, stdout) == out->len;
    return fflush(stdout) == 0 && written ? DAEMON_EXIT_OK : DAEMON_EXIT_FAILED;
}

static int check(struct daemon *d, const char *file, struct buf *out)
{
    struct fault f = {0};
    if (config_load(d->settings, config_names(), file, &d->config, &f) != 0) {
        (void)fprintf(stderr, "%s: %s\n", d->spec->name, f.text);
        return DAEMON_EXIT_USAGE;
    }
    config_help(d->settings, d->config, out);
    (void)buf_puts(out, "The settings are good.\n");
    return print(out);
}

static int answer(struct daemon *d, const struct command *c, struct buf *out)
{
    switch (c->action) {
    case HELP:
        put_help(d, out);
        return print(out);
    case VERSION:
        (void)buf_printf(out, "%s %s\n", d->spec->name, URR_VERSION);
        return print(out);
    case DESCRIBE_CONFIG:
        put_settings(d, out);
        return print(out);
    case DESCRIBE_METRICS:
        put_metrics(d, out);
        return print(out);
    case CHECK:
        return check(d, c->file, out);
    default:
        (void)fprintf(stderr, "%s: try --help\n", d->spec->name);
        return DAEMON_EXIT_USAGE;
    }
}

/* LOG_FORMAT is not known to be good yet: asked for all the same, as a log collector reads this. */
static int refuse(const struct daemon *d, const struct fault *f)
{
    const char *format = getenv("LOG_FORMAT");
    bool json = format && strcmp(format, "json") == 0;
    log_init(d->spec->name, LOG_LEVEL_INFO, json ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT,
             STDERR_FILENO);
    LOG_ERROR("bad settings", LOG_STR("reason", f->text));
    return DAEMON_EXIT_USAGE;
}

bool daemon_cli(struct daemon *d, int argc, char **argv, int *out_exit)
{
    gather_tables(d);
    struct command c = parse(argc, argv);
    struct fault f = {0};
    if (c.action == RUN) {
        if (config_load(d->settings, config_names(), c.file, &d->config, &f) == 0) {
            start_log(d);
            return false;
        }
        *out_exit = refuse(d, &f);
        return true;
    }
    struct buf out;
    buf_init(&out, MAX_TEXT_BYTES);
    *out_exit = answer(d, &c, &out);
    buf_done(&out);
    return true;
}

/* urr-publish.c - JSON lines to Kafka, each one validated first. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "events/event.h"
#include "producers/urr_publish.h"
#include "runtime/arena.h"
#include "runtime/clock.h"
#include "runtime/fault.h"

enum { FLUSH_MS = 30000, PROGRESS_LINES = 1000, ARENA_BYTES = 1 << 20, MAX_TIMEOUT_S = 3600 };

static const char USAGE[] =
    "urr-publish [--brokers LIST] [--topic NAME] [--dry-run] [--timeout SECONDS] < events.jsonl\n"
    "urr-publish --example[=NAME] [--print]\n"
    "  Validates each line and publishes it under its key to its type's topic.\n"
    "  --brokers LIST     host:port,... (default: KAFKA_BROKERS, else 127.0.0.1:9092)\n"
    "  --topic NAME       instead of the topic that belongs to the type\n"
    "  --dry-run          validate only\n"
    "  --timeout SECONDS  how long to wait for the last acknowledgement (30)\n"
    "  --example[=NAME]   instead of standard input: confirmed (default), transfer, membership,\n"
    "                     refunded, legacy, requested\n"
    "  --print            the example to standard output, for a file of your own\n"
    "KAFKA_CONFIG_FILE names a file of librdkafka properties.\n"
    "Exit code: 0 all sent, 1 some refused or not sent, 2 usage or settings.\n";

/* Without timestamps: the record's own time counts. */
static const struct {
    const char *name, *json;
} EXAMPLES[] = {
    {"confirmed", "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"pay-example-1\","
                  "\"orderId\":\"order-example-1\",\"userId\":\"user@example.com\","
                  "\"reservationId\":\"0191f7c4-3b2a-7c11-8e1f-000000000001\","
                  "\"paymentType\":\"reservation\",\"amount\":50000,\"paymentMethod\":\"card\"}\n"},
    {"transfer", "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"pay-example-2\","
                 "\"orderId\":\"order-example-2\",\"userId\":\"user@example.com\","
                 "\"referenceId\":\"0191f7c4-3b2a-7c11-8e1f-000000000002\","
                 "\"paymentType\":\"transfer\",\"amount\":48000,\"paymentMethod\":\"card\"}\n"},
    {"membership", "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"pay-example-3\","
                   "\"orderId\":\"order-example-3\",\"userId\":\"user@example.com\","
                   "\"referenceId\":\"0191f7c4-3b2a-7c11-8e1f-000000000003\","
                   "\"paymentType\":\"membership\",\"amount\":30000,\"paymentMethod\":\"card\"}\n"},
    {"refunded", "{\"type\":\"PAYMENT_REFUNDED\",\"paymentId\":\"pay-example-1\","
                 "\"orderId\":\"order-example-1\",\"userId\":\"user@example.com\","
                 "\"reservationId\":\"0191f7c4-3b2a-7c11-8e1f-000000000001\","
                 "\"paymentType\":\"reservation\",\"amount\":50000,\"reason\":\"requested\"}\n"},
    {"legacy", "{\"paymentId\":\"pay-example-4\",\"orderId\":\"order-example-4\","
               "\"userId\":\"user@example.com\","
               "\"reservationId\":\"0191f7c4-3b2a-7c11-8e1f-000000000004\",\"amount\":50000,"
               "\"paymentMethod\":\"card\"}\n"},
    {"requested", "{\"type\":\"PAYMENT_REFUND_REQUESTED\",\"sagaId\":\"saga-example-1\","
                  "\"paymentId\":\"pay-example-1\",\"orderId\":\"order-example-1\","
                  "\"userId\":\"user@example.com\",\"amount\":50000,\"reason\":\"seat_lost\"}\n"}};

static const char *example_named(const char *name)
{
    for (size_t i = 0; i < sizeof EXAMPLES / sizeof *EXAMPLES; i++)
        if (strcmp(name, EXAMPLES[i].name) == 0)
            return EXAMPLES[i].json;
    return NULL;
}

struct settings {
    const char *brokers, *example;
    bool dry, print;
    int timeout_ms;
};

struct run {
    struct urr_publisher *publisher; /* NULL: dry run */
    const char *topic;
    long sent, refused;
    bool progress;
};

static void refuse(struct run *r, long line, const char *reason)
{
    r->refused++;
    (void)fprintf(stderr, "%sline %ld: %s\n", r->progress ? "\r" : "", line, reason);
}

static void on_delivery(void *arg, void *tag, const char *error, int refused)
{
    struct run *r = arg;
    (void)refused;
    if (error)
        refuse(r, (long)(intptr_t)tag, error);
    else
        r->sent++;
}

static void publish_line(struct run *r, struct arena *arena, const char *text, size_t len,
                         long line)
{
    struct event e;
    struct event_reject reject = {0};
    struct fault f = {0};
    arena_reset(arena);
    struct event_source source = {
        .topic = r->topic, .value = text, .len = len, .now_ms = clock_wall_ms()};
    source.record_time_ms = source.now_ms;
    if (event_decode(&source, arena, &e, &reject, &f) != 0) {
        char reason[256];
        (void)snprintf(reason, sizeof reason, "%s: %s", event_reason_name(reject.reason), f.text);
        refuse(r, line, reason);
        return;
    }
    if (!r->publisher) {
        r->sent++;
        return;
    }
    char why[URR_PUBLISH_ERROR];
    const char *topic = r->topic ? r->topic : event_topic(e.type);
    int rc;
    while ((rc = urr_publish(r->publisher, topic, event_kafka_key(&e), text, len,
                             (void *)(intptr_t)line, why)) == URR_PUBLISH_AGAIN &&
           urr_publish_pending(r->publisher) > 0)
        (void)urr_publish_poll(r->publisher, 100);
    if (rc)
        refuse(r, line, why);
    (void)urr_publish_poll(r->publisher, 0);
}

static void publish_input(struct run *r, FILE *in)
{
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    char *text = NULL;
    size_t cap = 0;
    ssize_t len;
    for (long line = 1; (len = getline(&text, &cap, in)) >= 0; line++) {
        while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
            len--;
        if (len > 0)
            publish_line(r, &arena, text, (size_t)len, line);
        if (r->progress && line % PROGRESS_LINES == 0)
            (void)fprintf(stderr, "\r%ld sent, %ld refused", r->sent, r->refused);
    }
    free(text);
    arena_done(&arena);
}

/* False: the command line is wrong. */
static bool read_arguments(int argc, char **argv, struct settings *o, struct run *r)
{
    static const struct option OPTIONS[] = {
        {"brokers", required_argument, NULL, 'b'}, {"topic", required_argument, NULL, 't'},
        {"dry-run", no_argument, NULL, 'n'},       {"timeout", required_argument, NULL, 's'},
        {"example", optional_argument, NULL, 'e'}, {"print", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        char *end = NULL;
        long seconds;
        switch (option) {
        case 'b':
            o->brokers = optarg;
            break;
        case 't':
            r->topic = optarg;
            break;
        case 'n':
            o->dry = true;
            break;
        case 'p':
            o->print = true;
            break;
        case 's':
            seconds = strtol(optarg ? optarg : "", &end, 10);
            if (*end || seconds < 1 || seconds > MAX_TIMEOUT_S)
                return false;
            o->timeout_ms = (int)seconds * 1000;
            break;
        case 'e':
            o->example = example_named(optarg ? optarg : "confirmed");
            if (!o->example)
                return false;
            break;
        case 'h':
            (void)fputs(USAGE, stdout);
            exit(0);
        default:
            return false;
        }
    }
    return optind == argc && (!o->print || o->example);
}

static int publish_all(const struct settings *o, struct run *r)
{
    char why[URR_PUBLISH_ERROR];
    struct urr_publish_options options = {.brokers = o->brokers,
                                          .config_file = getenv("KAFKA_CONFIG_FILE"),
                                          .on_delivery = on_delivery,
                                          .arg = r};
    if (!o->dry && urr_publish_open(&options, &r->publisher, why) != 0) {
        (void)fprintf(stderr, "urr-publish: %s\n", why);
        return 2;
    }
    FILE *in =
        o->example ? fmemopen((void *)(uintptr_t)o->example, strlen(o->example), "r") : stdin;
    if (in)
        publish_input(r, in);
    if (r->publisher && urr_publish_flush(r->publisher, o->timeout_ms, why) != 0)
        (void)fprintf(stderr, "urr-publish: %s\n", why);
    urr_publish_close(r->publisher); /* what is pending is reported as refused, line by line */
    (void)fprintf(stderr, "%s%ld %s, %ld refused\n", r->progress ? "\r" : "", r->sent,
                  o->dry ? "valid" : "sent", r->refused);
    bool broken = !in || ferror(in);
    if (in && in != stdin)
        (void)fclose(in);
    return r->refused > 0 || broken ? 1 : 0;
}

int main(int argc, char **argv)
{
    const char *brokers = getenv("KAFKA_BROKERS");
    struct settings o = {.brokers = brokers ? brokers : "127.0.0.1:9092", .timeout_ms = FLUSH_MS};
    struct run r = {.progress = isatty(STDERR_FILENO) == 1};
    if (!read_arguments(argc, argv, &o, &r)) {
        (void)fputs(USAGE, stderr);
        return 2;
    }
    if (o.print)
        return fputs(o.example, stdout) < 0 ? 1 : 0;
    return publish_all(&o, &r);
}

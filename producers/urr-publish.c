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

enum { FLUSH_MS = 30000, PROGRESS_LINES = 1000, ARENA_BYTES = 1 << 20 };

static const char USAGE[] =
    "urr-publish [--brokers LIST] [--topic NAME] [--dry-run] [--example] < events.jsonl\n"
    "  Validates each line and publishes it under its key to its type's topic.\n"
    "  --brokers LIST   host:port,... (default: KAFKA_BROKERS, else 127.0.0.1:9092)\n"
    "  --topic NAME     instead of the topic that belongs to the type\n"
    "  --dry-run        validate only\n"
    "  --example        one PAYMENT_CONFIRMED instead of standard input\n"
    "KAFKA_CONFIG_FILE names a file of librdkafka properties.\n"
    "Exit code: 0 all sent, 1 some refused or not sent, 2 usage or settings.\n";

static const char EXAMPLE[] =
    "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"pay-example-1\",\"orderId\":\"order-example-"
    "1\","
    "\"userId\":\"user@example.com\",\"reservationId\":\"0191f7c4-3b2a-7c11-8e1f-000000000001\","
    "\"paymentType\":\"reservation\",\"amount\":50000,\"paymentMethod\":\"card\"}";

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

int main(int argc, char **argv)
{
    static const struct option OPTIONS[] = {
        {"brokers", required_argument, NULL, 'b'}, {"topic", required_argument, NULL, 't'},
        {"dry-run", no_argument, NULL, 'n'},       {"example", no_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    const char *brokers = getenv("KAFKA_BROKERS");
    struct run r = {.progress = isatty(STDERR_FILENO) == 1};
    bool dry = false, example = false;
    int option;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        switch (option) {
        case 'b':
            brokers = optarg;
            break;
        case 't':
            r.topic = optarg;
            break;
        case 'n':
            dry = true;
            break;
        case 'e':
            example = true;
            break;
        case 'h':
            (void)fputs(USAGE, stdout);
            return 0;
        default:
            (void)fputs(USAGE, stderr);
            return 2;
        }
    }
    char why[URR_PUBLISH_ERROR];
    struct urr_publish_options o = {.brokers = brokers ? brokers : "127.0.0.1:9092",
                                    .config_file = getenv("KAFKA_CONFIG_FILE"),
                                    .on_delivery = on_delivery,
                                    .arg = &r};
    if (!dry && urr_publish_open(&o, &r.publisher, why) != 0) {
        (void)fprintf(stderr, "urr-publish: %s\n", why);
        return 2;
    }
    FILE *in = example ? fmemopen((void *)(uintptr_t)EXAMPLE, sizeof EXAMPLE - 1, "r") : stdin;
    if (in)
        publish_input(&r, in);
    if (r.publisher && urr_publish_flush(r.publisher, FLUSH_MS, why) != 0)
        (void)fprintf(stderr, "urr-publish: %s\n", why);
    urr_publish_close(r.publisher); /* what is pending is reported as refused, line by line */
    (void)fprintf(stderr, "%s%ld %s, %ld refused\n", r.progress ? "\r" : "", r.sent,
                  dry ? "valid" : "sent", r.refused);
    return r.refused > 0 || !in ? 1 : 0;
}

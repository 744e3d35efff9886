/* latency_bench.c - how long after a payment was published its follow-up can be read.
 *
 *   latency_bench BROKERS RATE SECONDS WARM_SECONDS
 *
 * Publishes PAYMENT_CONFIRMED for reservations number 0, 1, 2 … (tests/bench/latency made them) at
 * a steady rate, whatever comes back (open loop), and reads reservation-events beside it. Each
 * latency counts from the moment the event was due, so that a stall of any part is charged to every
 * event it delays. Prints: count lost p50 p90 p99 max (milliseconds) behind (most the publisher was
 * late). */
#ifdef __clang__ /* librdkafka's RD_KAFKA_V_… macros */
#pragma clang diagnostic ignored "-Wgnu-statement-expression"
#endif
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARTITIONS = 3, ID_PREFIX = 24, ID_LEN = 36, DRAIN_MS = 10000, AMOUNT = 50000 };

struct run {
    const char *brokers;
    long rate, count, warm;
    _Atomic int64_t start_us; /* when event 0 is due; 0: not known yet */
    int64_t behind_us;
    int64_t *seen_us;    /* by number; 0: not yet. Written by the reader alone */
    atomic_bool reading; /* the reader stands at the end of the log */
    atomic_long seen;
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "latency_bench: %s: %s\n", what, why);
    exit(1);
}

static rd_kafka_t *client(rd_kafka_type_t type, const char *const *settings)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (size_t i = 0; settings[i]; i += 2)
        if (rd_kafka_conf_set(conf, settings[i], settings[i + 1], text, sizeof text) !=
            RD_KAFKA_CONF_OK)
            die(settings[i], text);
    rd_kafka_t *rk = rd_kafka_new(type, conf, text, sizeof text);
    if (!rk)
        die("client", text);
    return rk;
}

static void take(struct run *r, const rd_kafka_message_t *m, int64_t at)
{
    if (m->key_len != ID_LEN)
        return;
    char digits[ID_LEN - ID_PREFIX + 1] = {0};
    memcpy(digits, (const char *)m->key + ID_PREFIX, ID_LEN - ID_PREFIX);
    long number = strtol(digits, NULL, 10);
    if (number < 0 || number >= r->count || r->seen_us[number])
        return; /* not ours, or a repetition */
    r->seen_us[number] = at;
    atomic_fetch_add(&r->seen, 1);
}

static void *read_follow_ups(void *arg)
{
    struct run *r = arg;
    const char *settings[] = {"bootstrap.servers",
                              r->brokers,
                              "group.id",
                              "latency-bench",
                              "enable.auto.commit",
                              "false",
                              "fetch.wait.max.ms",
                              "100",
                              "enable.partition.eof",
                              "true",
                              NULL};
    rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, settings);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(PARTITIONS);
    for (int i = 0; i < PARTITIONS; i++)
        rd_kafka_topic_partition_list_add(all, "reservation-events", i)->offset =
            RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(rk, all);
    rd_kafka_topic_partition_list_destroy(all);
    int ends = 0;
    int64_t deadline = INT64_MAX;
    while (atomic_load(&r->seen) < r->count && now_us() < deadline) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 100);
        int64_t at = now_us();
        if (m && !m->err)
            take(r, m, at);
        else if (m && m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF && ++ends == PARTITIONS)
            atomic_store(&r->reading, true);
        if (m)
            rd_kafka_message_destroy(m);
        if (deadline == INT64_MAX && r->start_us)
            deadline = r->start_us + r->count * 1000000 / r->rate + DRAIN_MS * 1000;
    }
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
    return NULL;
}

static void publish(rd_kafka_t *rk, long number)
{
    char order[32], value[640], time[32];
    struct timespec wall;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &wall);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", gmtime_r(&wall.tv_sec, &utc));
    int key = snprintf(order, sizeof order, "order-%ld", number);
    int len =
        snprintf(value, sizeof value,
                 "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"pay-%ld\",\"orderId\":\"%s\","
                 "\"userId\":\"user%ld@example.com\",\"reservationId\":"
                 "\"00000000-0000-4000-8000-%012ld\",\"referenceId\":null,"
                 "\"paymentType\":\"reservation\",\"amount\":%d,\"paymentMethod\":\"card\","
                 "\"sagaId\":\"saga-%ld\",\"timestamp\":\"%s.%03ldZ\"}",
                 number, order, number, number, AMOUNT, number, time, wall.tv_nsec / 1000000);
    rd_kafka_resp_err_t err =
        rd_kafka_producev(rk, RD_KAFKA_V_TOPIC("payment-events"),
                          RD_KAFKA_V_KEY(order, (size_t)key), RD_KAFKA_V_VALUE(value, (size_t)len),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (err)
        die("produce", rd_kafka_err2str(err));
}

static void publish_all(struct run *r, rd_kafka_t *rk)
{
    r->start_us = now_us() + 10000;
    for (long i = 0; i < r->count; i++) {
        int64_t due = r->start_us + i * 1000000 / r->rate, now = now_us();
        if (now < due) {
            rd_kafka_poll(rk, 0);
            struct timespec wait = {.tv_nsec = (due - now) * 1000 % 1000000000};
            nanosleep(&wait, NULL);
            now = now_us();
        }
        if (now - due > r->behind_us)
            r->behind_us = now - due;
        publish(rk, i);
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at_share(const int64_t *sorted, long n, double share)
{
    return n ? (double)sorted[(long)((double)(n - 1) * share)] / 1000.0 : 0;
}

static void report(const struct run *r)
{
    int64_t *took = calloc((size_t)r->count, sizeof *took);
    long n = 0, lost = 0;
    if (!took)
        die("report", "no memory");
    for (long i = 0; i < r->count; i++)
        if (!r->seen_us[i])
            lost++;
        else if (i >= r->warm)
            took[n++] = r->seen_us[i] - (r->start_us + i * 1000000 / r->rate);
    qsort(took, (size_t)n, sizeof *took, by_value);
    printf("%ld %ld %.2f %.2f %.2f %.2f %.2f\n", n, lost, at_share(took, n, 0.5),
           at_share(took, n, 0.9), at_share(took, n, 0.99), at_share(took, n, 1),
           (double)r->behind_us / 1000.0);
    free(took);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        die("usage", "latency_bench BROKERS RATE SECONDS WARM_SECONDS");
    struct run r = {.brokers = argv[1], .rate = strtol(argv[2], NULL, 10)};
    r.warm = r.rate * strtol(argv[4], NULL, 10);
    r.count = r.rate * strtol(argv[3], NULL, 10) + r.warm;
    if (r.rate < 1 || r.count < 1)
        die("usage", "a rate and a time above 0");
    r.seen_us = calloc((size_t)r.count, sizeof *r.seen_us);
    if (!r.seen_us)
        die("start", "no memory");
    const char *settings[] = {"bootstrap.servers",  r.brokers, "acks",        "all",
                              "enable.idempotence", "true",    "partitioner", "murmur2_random",
                              "linger.ms",          "0",       NULL};
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, settings);
    pthread_t reader;
    if (pthread_create(&reader, NULL, read_follow_ups, &r) != 0)
        die("start", "no thread");
    while (!atomic_load(&r.reading))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    publish_all(&r, rk);
    if (rd_kafka_flush(rk, DRAIN_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        die("publish", "Kafka does not take the events");
    pthread_join(reader, NULL);
    rd_kafka_destroy(rk);
    report(&r);
    free(r.seen_us);
    return 0;
}

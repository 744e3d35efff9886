/* relay_bench.c - fills an outbox, and sends its bytes with a bare librdkafka producer.
 *
 *   relay_bench fill URL TOPIC ROWS   rows of 370-byte values, 5,000 keys
 *   relay_bench bare URL BROKERS      reads them into memory, then times the producer alone
 *   relay_bench empty URL             fails unless the outbox is empty */
#ifdef __clang__ /* librdkafka's RD_KAFKA_V_… macros */
#pragma clang diagnostic ignored "-Wgnu-statement-expression"
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>

#include "runtime/clock.h"

static long unacknowledged, failed;

static PGconn *connect_to(const char *url)
{
    PGconn *c = PQconnectdb(url);
    if (PQstatus(c) == CONNECTION_OK)
        return c;
    (void)fprintf(stderr, "relay_bench: %s", PQerrorMessage(c));
    exit(1);
}

static PGresult *query(PGconn *c, const char *sql, int count, const char *const *values)
{
    PGresult *r = PQexecParams(c, sql, count, NULL, values, NULL, NULL, 1);
    if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)
        return r;
    (void)fprintf(stderr, "relay_bench: %s", PQerrorMessage(c));
    exit(1);
}

static void fill(const char *url, const char *topic, const char *rows)
{
    PGconn *c = connect_to(url);
    PQclear(query(c,
                  "INSERT INTO outbox (topic, key, value) SELECT $1, convert_to('order-' || i % "
                  "5000, 'UTF8'), convert_to(rpad('{\"type\":\"RESERVATION_CONFIRMED\",\"n\":' || "
                  "i, 368, ' ') || ' }', 'UTF8') FROM generate_series(1, $2::int) i",
                  2, (const char *const[]){topic, rows}));
    PQclear(query(c, "ANALYZE outbox", 0, NULL)); /* not in the middle of a measurement */
    PQfinish(c);
}

static void empty(const char *url)
{
    PGconn *c = connect_to(url);
    PGresult *r = query(c, "SELECT FROM outbox LIMIT 1", 0, NULL);
    if (PQntuples(r) != 0) {
        (void)fprintf(stderr, "relay_bench: the outbox is not empty\n");
        exit(1);
    }
    PQclear(r);
    PQclear(query(c, "TRUNCATE outbox", 0, NULL));
    PQfinish(c);
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    (void)rk;
    (void)opaque;
    unacknowledged--;
    failed += m->err != 0;
}

static rd_kafka_t *producer(const char *brokers)
{
    static const char *const SETTINGS[][2] = {{"acks", "all"},
                                              {"enable.idempotence", "true"},
                                              {"partitioner", "murmur2_random"},
                                              {"message.timeout.ms", "0"},
                                              {"linger.ms", "5"},
                                              {"queue.buffering.max.messages", "1000000"}};
    char why[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    (void)rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof why);
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++)
        if (rd_kafka_conf_set(conf, SETTINGS[i][0], SETTINGS[i][1], why, sizeof why) != 0)
            exit(1);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (rk)
        return rk;
    (void)fprintf(stderr, "relay_bench: %s\n", why);
    exit(1);
}

/* Values are borrowed, not copied: the limit gives away nothing. */
static void bare(const char *url, const char *brokers)
{
    PGconn *c = connect_to(url);
    PGresult *r = query(c, "SELECT topic, key, value FROM outbox ORDER BY id", 0, NULL);
    int rows = PQntuples(r);
    int64_t began = clock_mono_ms();
    rd_kafka_t *rk = producer(brokers);
    for (int i = 0; i < rows; i++) {
        rd_kafka_resp_err_t error = rd_kafka_producev(
            rk, RD_KAFKA_V_TOPIC(PQgetvalue(r, i, 0)),
            RD_KAFKA_V_KEY(PQgetvalue(r, i, 1), (size_t)PQgetlength(r, i, 1)),
            RD_KAFKA_V_VALUE(PQgetvalue(r, i, 2), (size_t)PQgetlength(r, i, 2)), RD_KAFKA_V_END);
        failed += error != 0;
        unacknowledged += error == 0;
        if (i % 100 == 0)
            (void)rd_kafka_poll(rk, 0);
    }
    while (unacknowledged > 0)
        (void)rd_kafka_poll(rk, 100);
    int64_t took_ms = clock_mono_ms() - began;
    rd_kafka_destroy(rk);
    PQclear(r);
    PQfinish(c);
    if (failed > 0 || rows == 0) {
        (void)fprintf(stderr, "relay_bench: %ld of %d rows failed\n", failed, rows);
        exit(1);
    }
    (void)printf("%ld\n", (long)rows * 1000 / (long)(took_ms > 0 ? took_ms : 1));
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "fill") == 0)
        fill(argv[2], argv[3], argv[4]);
    else if (argc == 4 && strcmp(argv[1], "bare") == 0)
        bare(argv[2], argv[3]);
    else if (argc == 3 && strcmp(argv[1], "empty") == 0)
        empty(argv[2]);
    else
        return 2;
    return 0;
}

/* kafka.c - error classes and metric declarations of the Kafka modules. */
#include "runtime/kafka.h"

#include <librdkafka/rdkafka.h>

#include "runtime/fault.h"
#include "runtime/kafka_client.h"
#include "runtime/metrics.h"

const struct metric_def KAFKA_METRICS[] = {
    [KAFKA_METRIC_SENT] = {"urr_kafka_sent_bytes_total", METRIC_COUNTER,
                           "Bytes sent to Kafka brokers.", "client", NULL, 0},
    [KAFKA_METRIC_RECEIVED] = {"urr_kafka_received_bytes_total", METRIC_COUNTER,
                               "Bytes received from Kafka brokers.", "client", NULL, 0},
    [KAFKA_METRIC_UP] = {"urr_kafka_brokers_up", METRIC_GAUGE,
                         "Kafka brokers with a working connection.", "client", NULL, 0},
    [KAFKA_METRIC_ROUND_TRIP] = {"urr_kafka_round_trip_seconds", METRIC_GAUGE,
                                 "99th percentile of the slowest broker's round trips of late.",
                                 "client", NULL, 0},
    [KAFKA_METRIC_UNACKED] = {"urr_kafka_unacknowledged_messages", METRIC_GAUGE,
                              "Messages given to the producer and not yet acknowledged.", "client",
                              NULL, 0},
    [KAFKA_METRIC_PREFETCHED] = {"urr_kafka_prefetched_bytes", METRIC_GAUGE,
                                 "Bytes received by the consumer and not yet polled.", "client",
                                 NULL, 0},
    [KAFKA_METRIC_ERRORS] = {"urr_kafka_errors_total", METRIC_COUNTER,
                             "Errors reported by librdkafka, by name.", "client,error", NULL, 0},
    [KAFKA_METRIC_REBALANCES] = {"urr_kafka_rebalances_total", METRIC_COUNTER,
                                 "Assignments received from the consumer group.", "client", NULL,
                                 0},
    [KAFKA_METRIC_COMMIT_FAILURES] = {"urr_kafka_commit_failures_total", METRIC_COUNTER,
                                      "Offset commits to Kafka (for lag tools) that failed.",
                                      "client", NULL, 0},
    [KAFKA_METRIC_DELIVERIES] = {"urr_kafka_deliveries_total", METRIC_COUNTER,
                                 "Messages whose fate is known: delivered, retry, refused, fatal.",
                                 "client,outcome", NULL, 0},
    [KAFKA_METRIC_RECREATED] = {"urr_kafka_producer_recreated_total", METRIC_COUNTER,
                                "Producers made anew after a fatal error.", "client", NULL, 0},
    [KAFKA_METRIC_COUNT_] = {0}};
const size_t KAFKA_METRICS_COUNT = KAFKA_METRIC_COUNT_;

enum kafka_class kafka_classify(int error)
{
    switch (error) {
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
        return KAFKA_RANGE;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR__BAD_MSG:
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
        return KAFKA_REFUSE;
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE:
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
    case RD_KAFKA_RESP_ERR_PRODUCER_FENCED:
    case RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER:
    case RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID:
    case RD_KAFKA_RESP_ERR__INCONSISTENT:
    case RD_KAFKA_RESP_ERR__DESTROY:
        return KAFKA_FATAL;
    default:
        return KAFKA_RETRY;
    }
}

int kafka_class_rc(enum kafka_class c)
{
    switch (c) {
    case KAFKA_REFUSE:
        return RC_REJECT;
    case KAFKA_RANGE:
    case KAFKA_FATAL:
        return RC_FATAL;
    case KAFKA_RETRY:
        break;
    }
    return RC_RETRY;
}

/* kafka_settings.c - the settings of the Kafka modules, and options made from them. */
#include "runtime/config.h"
#include "runtime/kafka.h"
#include "runtime/kafka_consumer.h"

const struct config_item KAFKA_SETTINGS[] = {
    {"KAFKA_BROKERS", CONFIG_STRING, "127.0.0.1:9092", 3, 1024, NULL,
     "Kafka bootstrap servers, host:port, separated by commas.", 0},
    {"KAFKA_CONFIG_FILE", CONFIG_STRING, NULL, 0, 0, NULL,
     "File with librdkafka properties (security.protocol, sasl.*, ssl.*), one name=value per line.",
     CONFIG_OPTIONAL},
    {0}};

const struct config_item KAFKA_CONSUMER_SETTINGS[] = {
    {"KAFKA_GROUP_INSTANCE_ID", CONFIG_STRING, NULL, 0, 128, NULL,
     "Static group membership: a restart with the same id takes over at once; unique per process.",
     CONFIG_OPTIONAL},
    {"KAFKA_SESSION_TIMEOUT_MS", CONFIG_INT, "10000", 1000, 300000, NULL,
     "Milliseconds without a heartbeat after which the group gives a consumer's partitions away.",
     0},
    {"KAFKA_PREFETCH_KB", CONFIG_INT, "8192", 64, 1048576, NULL,
     "Kilobytes a consumer may have received and not yet handled.", 0},
    {0}};

void kafka_client_from_config(const struct config *c, const char *client_id,
                              struct kafka_client_options *out)
{
    *out = (struct kafka_client_options){.brokers = config_str(c, "KAFKA_BROKERS"),
                                         .client_id = client_id,
                                         .config_file = config_str(c, "KAFKA_CONFIG_FILE")};
}

void kafka_consumer_from_config(const struct config *c, const char *client_id,
                                struct kafka_consumer_options *out)
{
    kafka_client_from_config(c, client_id, &out->client);
    out->instance_id = config_str(c, "KAFKA_GROUP_INSTANCE_ID");
    out->session_timeout_ms = (uint32_t)config_int(c, "KAFKA_SESSION_TIMEOUT_MS");
    out->prefetch_kb = (uint32_t)config_int(c, "KAFKA_PREFETCH_KB");
}

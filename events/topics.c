/* topics.c - the topic table. Domain topics keep everything: stats are rebuilt from them. */
#include "events/topics.h"

#include <stdio.h>
#include <string.h>

#include "runtime/config.h"

const struct topic_def TOPICS[] = {
    {TOPIC_PAYMENT_EVENTS, "orderId", "payment services", "ticket, stats",
     "Money that came in and money that went back."},
    {TOPIC_RESERVATION_EVENTS, "reservationId", "ticket", "stats", "The life of reservations."},
    {TOPIC_TRANSFER_EVENTS, "transferId", "ticket", "stats", "Tickets that change hands."},
    {TOPIC_MEMBERSHIP_EVENTS, "membershipId", "ticket", "stats", "Fan club memberships."},
    {TOPIC_PAYMENT_COMMANDS, "orderId", "ticket", "payment services",
     "What payment services are asked to do."},
    {0},
};

const struct config_item TOPIC_SETTINGS[] = {
    {"KAFKA_TOPIC_PARTITIONS", CONFIG_INT, "3", 1, 1000, NULL,
     "Partitions of each domain topic when it is created (dead-letter topics have one).", 0},
    {"KAFKA_REPLICATION_FACTOR", CONFIG_INT, "1", 1, 15, NULL,
     "Copies of each topic when it is created.", 0},
    {"KAFKA_TOPIC_RETENTION_MS", CONFIG_INT, "-1", -1, INT64_C(3153600000000), NULL,
     "How long domain topics keep records, in milliseconds; -1 keeps everything (stats are rebuilt "
     "from them).",
     0},
    {0},
};

bool topic_dlq(const char *topic, char out[TOPIC_NAME_MAX + 1])
{
    size_t len = strlen(topic), suffix = strlen(TOPIC_DLQ_SUFFIX);
    if (len >= suffix && strcmp(topic + len - suffix, TOPIC_DLQ_SUFFIX) == 0)
        suffix = 0;
    if (len + suffix > TOPIC_NAME_MAX)
        return false;
    memcpy(out, topic, len);
    memcpy(out + len, TOPIC_DLQ_SUFFIX, suffix);
    out[len + suffix] = '\0';
    return true;
}

static void plan_config(struct topic_plan *p, const char *name, int64_t value)
{
    p->configs[p->config_count].name = name;
    snprintf(p->configs[p->config_count].value, sizeof p->configs[0].value, "%lld",
             (long long)value);
    p->config_count++;
}

bool topic_plan(const struct config *c, size_t index, struct topic_plan *out)
{
    if (index / 2 >= sizeof TOPICS / sizeof *TOPICS - 1)
        return false;
    const struct topic_def *def = &TOPICS[index / 2];
    bool dead = index % 2 == 1;
    *out = (struct topic_plan){0};
    if (dead)
        topic_dlq(def->name, out->name);
    else
        snprintf(out->name, sizeof out->name, "%s", def->name);
    out->partitions = dead ? 1 : (int)config_int(c, "KAFKA_TOPIC_PARTITIONS");
    out->replication = (int)config_int(c, "KAFKA_REPLICATION_FACTOR");
    /* A dead letter waits for a person, however long that takes. */
    plan_config(out, "retention.ms", dead ? -1 : config_int(c, "KAFKA_TOPIC_RETENTION_MS"));
    if (out->replication >= 3)
        plan_config(out, "min.insync.replicas", 2); /* acks=all means two copies, not one */
    return true;
}

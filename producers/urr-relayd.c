/* urr-relayd.c - the outboxes of every database that is set, to Kafka. */
#include <stdio.h>

#include "producers/relay.h"
#include "runtime/config.h"
#include "runtime/daemon.h"
#include "runtime/fault.h"
#include "runtime/log.h"

enum { DRAIN_MS = 5000 };

static const struct config_item SETTINGS[] = {
    {"TICKET_DATABASE_URL", CONFIG_URL, NULL, 0, 0, "postgresql|postgres", "ticket_db.",
     CONFIG_OPTIONAL},
    {"PAYMENT_DATABASE_URL", CONFIG_URL, NULL, 0, 0, "postgresql|postgres", "payment_db.",
     CONFIG_OPTIONAL},
    {"STATS_DATABASE_URL", CONFIG_URL, NULL, 0, 0, "postgresql|postgres", "stats_db.",
     CONFIG_OPTIONAL},
    {0}};
static const struct config_item *const TABLES[] = {SETTINGS, KAFKA_SETTINGS, NULL};
static const struct metric_def *const METRICS[] = {RELAY_METRICS, KAFKA_METRICS, NULL};

static struct database {
    const char *name, *setting, *client;
    struct relay *relay;
    struct readiness *pg, *kafka;
} databases[] = {
    {.name = "ticket", .setting = "TICKET_DATABASE_URL", .client = "urr-relay-ticket"},
    {.name = "payment", .setting = "PAYMENT_DATABASE_URL", .client = "urr-relay-payment"},
    {.name = "stats", .setting = "STATS_DATABASE_URL", .client = "urr-relay-stats"}};
enum { DATABASES = sizeof databases / sizeof *databases };

static int serve(struct daemon *d, void *arg)
{
    struct database *db = arg;
    bool failing = false;
    while (!daemon_stopping(d)) {
        struct fault f = {0};
        int wait_ms, rc = relay_step(db->relay, &wait_ms, &f);
        bool kafka = relay_kafka_connected(db->relay);
        readiness_set(db->pg, rc == 0, rc ? f.text : NULL);
        readiness_set(db->kafka, kafka, kafka ? NULL : "Kafka does not answer");
        if (rc && !failing)
            LOG_WARN("relay waits", LOG_STR("database", db->name), LOG_STR("reason", f.text));
        else if (rc == 0 && failing)
            LOG_INFO("relay goes on", LOG_STR("database", db->name));
        failing = rc != 0;
        if (wait_ms > 0 && daemon_wait(d, wait_ms))
            break;
    }
    relay_drain(db->relay, DRAIN_MS);
    return 0;
}

static int start(struct daemon *d, struct fault *f)
{
    const struct config *c = daemon_config(d);
    int count = 0, rc = 0;
    for (int i = 0; i < DATABASES && rc == 0; i++) {
        struct database *db = &databases[i];
        struct relay_options o = {.name = db->name, .database_url = config_str(c, db->setting)};
        if (!o.database_url)
            continue;
        count++;
        char name[32];
        kafka_client_from_config(c, db->client, &o.client);
        rc = relay_new(&o, &db->relay, f);
        (void)snprintf(name, sizeof name, "postgresql-%s", db->name);
        db->pg = daemon_readiness(d, name);
        (void)snprintf(name, sizeof name, "kafka-%s", db->name);
        db->kafka = daemon_readiness(d, name);
        if (rc == 0)
            rc = daemon_thread(d, db->name, serve, db, f);
    }
    if (rc == 0 && count == 0)
        rc = fault_set(f, RC_FATAL, "set at least one of TICKET_, PAYMENT_ and STATS_DATABASE_URL");
    return rc;
}

static void stop(struct daemon *d)
{
    (void)d;
    for (int i = 0; i < DATABASES; i++)
        relay_free(databases[i].relay);
}

int main(int argc, char **argv)
{
    static const struct daemon_spec SPEC = {.name = "urr-relay",
                                            .purpose = "Sends outbox rows to Kafka, in order.",
                                            .settings = TABLES,
                                            .metrics = METRICS,
                                            .default_port = "3013",
                                            .port_setting = "RELAY_PORT",
                                            .start = start,
                                            .stop = stop,
                                            .single_worker = true};
    return daemon_main(&SPEC, argc, argv);
}

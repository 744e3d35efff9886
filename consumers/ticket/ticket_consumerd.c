/* ticket_consumerd.c - urr-ticket-consumer: wiring only. */
#include "consumers/engine/engine.h"
#include "consumers/ticket/ticket_consumer.h"
#include "runtime/daemon.h"
#include "runtime/kafka_consumer.h"

static struct ticket_consumer *consumer;
static struct engine *engine;

static int start(struct daemon *d, struct fault *f)
{
    int rc = ticket_consumer_new(daemon_config(d), &consumer, f);
    return rc ? rc : engine_start(d, ticket_consumer_spec(consumer), &engine, f);
}

static void stop(struct daemon *d)
{
    (void)d;
    engine_free(engine);
    ticket_consumer_free(consumer);
}

int main(int argc, char **argv)
{
    static const struct config_item *const settings[] = {
        TICKET_CONSUMER_SETTINGS, KAFKA_SETTINGS, KAFKA_CONSUMER_SETTINGS, ENGINE_SETTINGS, NULL};
    static const struct metric_def *const metrics[] = {TICKET_CONSUMER_METRICS, ENGINE_METRICS,
                                                       KAFKA_METRICS, NULL};
    static const struct daemon_spec daemon = {
        .name = "urr-ticket-consumer",
        .purpose = "Applies payments to reservations, transfers and memberships.",
        .settings = settings,
        .metrics = metrics,
        .default_port = "3012",
        .port_setting = "TICKET_CONSUMER_PORT",
        .start = start,
        .stop = stop,
        .single_worker = true};
    return daemon_main(&daemon, argc, argv);
}

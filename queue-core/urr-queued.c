/* urr-queued.c - urr-queue: the waiting room of both tiers. Wiring only. */
#include "queue-core/queue_service.h"
#include "runtime/daemon.h"

int main(int argc, char **argv)
{
    static const struct daemon_spec spec = {
        .name = "urr-queue",
        .purpose = "Keeps the waiting rooms: who waits, in which order, and who may enter.",
        .settings = QUEUE_SETTINGS,
        .routes = QUEUE_ROUTES,
        .metrics = QUEUE_METRICS,
        .default_port = "3007",
        .port_setting = "QUEUE_PORT",
        .start = queue_service_check,
        .worker_start = queue_service_open,
        .worker_stop = queue_service_close,
    };
    return daemon_main(&spec, argc, argv);
}

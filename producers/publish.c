/* publish.c - the publisher library: a plain face on runtime/kafka_producer. */
#include "producers/urr_publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/kafka_producer.h"

struct urr_publisher {
    struct kafka_producer *producer;
    urr_publish_fn on_delivery;
    void *arg;
};

static int told(int rc, const struct fault *f, char *why)
{
    if (rc && why)
        (void)snprintf(why, URR_PUBLISH_ERROR, "%s", f->text);
    return rc; /* the RC_ codes are the URR_PUBLISH_ ones */
}

static void on_delivery(void *arg, const struct kafka_delivery *d)
{
    struct urr_publisher *p = arg;
    if (p->on_delivery)
        p->on_delivery(p->arg, d->tag, d->reason, d->outcome == KAFKA_REFUSED);
}

int urr_publish_open(const struct urr_publish_options *o, struct urr_publisher **out, char *why)
{
    struct fault f = {.rc = RC_FATAL, .text = "no memory for a publisher"};
    struct urr_publisher *p = calloc(1, sizeof *p);
    if (!p)
        return told(RC_FATAL, &f, why);
    p->on_delivery = o->on_delivery;
    p->arg = o->arg;
    struct kafka_producer_options options = {.client = {.brokers = o->brokers,
                                                        .client_id = "urr-publish",
                                                        .config_file = o->config_file},
                                             .forever = o->timeout_ms == 0,
                                             .timeout_ms = o->timeout_ms,
                                             .max_messages = o->max_messages,
                                             .on_delivery = on_delivery,
                                             .arg = p};
    int rc = kafka_producer_open(&options, &p->producer, &f);
    if (rc)
        free(p);
    else
        *out = p;
    return told(rc, &f, why);
}

int urr_publish(struct urr_publisher *p, const char *topic, const char *key, const void *value,
                size_t len, void *tag, char *why)
{
    struct fault f = {0};
    struct kafka_record r = {.topic = topic,
                             .key = key,
                             .key_len = key ? strlen(key) : 0,
                             .value = value,
                             .value_len = len,
                             .tag = tag};
    return told(kafka_producer_send(p->producer, &r, &f), &f, why);
}

int urr_publish_poll(struct urr_publisher *p, int timeout_ms)
{
    return kafka_producer_poll(p->producer, timeout_ms);
}

int urr_publish_flush(struct urr_publisher *p, int timeout_ms, char *why)
{
    struct fault f = {0};
    return told(kafka_producer_flush(p->producer, timeout_ms, &f), &f, why);
}

size_t urr_publish_pending(const struct urr_publisher *p)
{
    return kafka_producer_pending(p->producer);
}

void urr_publish_close(struct urr_publisher *p)
{
    if (!p)
        return;
    kafka_producer_close(p->producer);
    free(p);
}

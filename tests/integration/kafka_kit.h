/* kafka_kit.h - what the Kafka tests share: the broker, fresh topics, a producer that collects
 * fates. */
#ifndef KAFKA_KIT_H
#define KAFKA_KIT_H
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/kafka_admin.h"
#include "runtime/kafka_consumer.h"
#include "runtime/kafka_producer.h"

/* Fails the test with the fault's text. */
#define OK(call)                                      \
    do {                                              \
        struct fault ok_fault = {0};                  \
        struct fault *f = &ok_fault;                  \
        if ((call) != 0)                              \
            fail_msg("%s: %s", #call, ok_fault.text); \
    } while (0)

static inline const char *need_env(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fail_msg("%s is not set: run me through tests/run integration", name);
    return value;
}

static inline struct kafka_client_options kit_client(const char *id)
{
    return (struct kafka_client_options){.brokers = need_env("URR_TEST_KAFKA"), .client_id = id};
}

static inline void control(const char *verb)
{
    char command[512];
    (void)snprintf(command, sizeof command, "%s %s kafka", need_env("URR_TEST_CONTROL"), verb);
    assert_int_equal(system(command), 0);
}

/* A topic nobody has used: the name goes to `out`. */
static inline void fresh_topic(char out[64], int partitions, const char *const *configs)
{
    static int serial;
    (void)snprintf(out, 64, "kit-%d-%" PRId64 "-%d", (int)getpid(), clock_wall_ms(), serial++);
    struct kafka_client_options o = kit_client("kit-admin");
    struct kafka_admin *a;
    OK(kafka_admin_open(&o, &a, f));
    struct kafka_topic_spec spec = {out, partitions, 1, configs};
    struct kafka_topic_result result;
    OK(kafka_admin_create_topics(a, &spec, 1, &result, 30000, f));
    assert_int_equal(result.outcome, KAFKA_TOPIC_CREATED);
    kafka_admin_close(a);
}

struct fates {
    int count[4];
    long last_delivered; /* tags are numbers here */
    int disorder;
};

static inline void on_fate(void *arg, const struct kafka_delivery *d)
{
    struct fates *fates = arg;
    fates->count[d->outcome]++;
    if (d->outcome == KAFKA_DELIVERED) {
        if ((long)(intptr_t)d->tag < fates->last_delivered)
            fates->disorder++;
        fates->last_delivered = (long)(intptr_t)d->tag;
    }
}

static inline struct kafka_producer *kit_producer(struct fates *fates)
{
    memset(fates, 0, sizeof *fates);
    struct kafka_producer_options o = {.client = kit_client("kit-producer"),
                                       .forever = true,
                                       .on_delivery = on_fate,
                                       .arg = fates};
    struct kafka_producer *p;
    OK(kafka_producer_open(&o, &p, f));
    return p;
}

/* Values "0", "1", … from `first`, all to one partition. */
static inline void fill(const char *topic, int32_t partition, int first, int count)
{
    struct fates fates;
    struct kafka_producer *p = kit_producer(&fates);
    for (int i = first; i < first + count; i++) {
        char value[16];
        struct kafka_record r = {.topic = topic,
                                 .to_partition = true,
                                 .partition = partition,
                                 .value = value,
                                 .value_len = (size_t)snprintf(value, sizeof value, "%d", i),
                                 .tag = (void *)(intptr_t)i};
        OK(kafka_producer_send(p, &r, f));
    }
    OK(kafka_producer_flush(p, 30000, f));
    assert_int_equal(fates.count[KAFKA_DELIVERED], count);
    kafka_producer_close(p);
}

static inline int value_number(const struct kafka_message *m)
{
    char text[16] = "";
    memcpy(text, m->value, m->value_len < 15 ? m->value_len : 15);
    return atoi(text);
}

#endif

/* kafka_ends.c - a thread that asks brokers for the ends of partitions. */
#include "runtime/kafka_ends.h"

#include <pthread.h>
#include <stdlib.h>

#include "runtime/fault.h"

enum state { IDLE, ASKED, ANSWERED, STOPPING };

struct kafka_ends {
    rd_kafka_t *rk;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    enum state state;
    int64_t tag;
    rd_kafka_topic_partition_list_t *parts; /* the thread's own while ASKED */
    rd_kafka_topic_partition_list_t *nudge;
};

static void ask_brokers(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *parts)
{
    for (int i = 0; i < parts->cnt; i++)
        parts->elems[i].offset = RD_KAFKA_OFFSET_END; /* as a "time": the end of the log */
    rd_kafka_resp_err_t err = rd_kafka_offsets_for_times(rk, parts, KAFKA_ENDS_TIMEOUT_MS);
    for (int i = 0; err && i < parts->cnt; i++)
        if (parts->elems[i].offset < 0 || !parts->elems[i].err)
            parts->elems[i].err = err;
}

static void *run(void *arg)
{
    struct kafka_ends *e = arg;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (e->state != ASKED && e->state != STOPPING && !e->nudge)
            pthread_cond_wait(&e->changed, &e->lock);
        if (e->state == STOPPING)
            break;
        if (e->nudge) {
            rd_kafka_topic_partition_list_t *nudge = e->nudge;
            e->nudge = NULL;
            pthread_mutex_unlock(&e->lock);
            ask_brokers(e->rk, nudge);
            rd_kafka_topic_partition_list_destroy(nudge);
            pthread_mutex_lock(&e->lock);
            continue;
        }
        rd_kafka_topic_partition_list_t *parts = e->parts;
        pthread_mutex_unlock(&e->lock);
        ask_brokers(e->rk, parts);
        pthread_mutex_lock(&e->lock);
        if (e->state == ASKED)
            e->state = ANSWERED;
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

int kafka_ends_new(rd_kafka_t *rk, struct kafka_ends **out, struct fault *f)
{
    struct kafka_ends *e = calloc(1, sizeof *e);
    if (!e)
        return fault_set(f, RC_FATAL, "no memory for a Kafka consumer");
    e->rk = rk;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    if (pthread_create(&e->thread, NULL, run, e) != 0) {
        free(e);
        return fault_set(f, RC_FATAL, "no thread for a Kafka consumer");
    }
    *out = e;
    return 0;
}

void kafka_ends_free(struct kafka_ends *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->state = STOPPING;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    if (e->parts)
        rd_kafka_topic_partition_list_destroy(e->parts);
    if (e->nudge)
        rd_kafka_topic_partition_list_destroy(e->nudge);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

int kafka_ends_ask(struct kafka_ends *e, rd_kafka_topic_partition_list_t *parts, int64_t tag,
                   struct fault *f)
{
    pthread_mutex_lock(&e->lock);
    bool idle = e->state == IDLE;
    if (idle) {
        e->state = ASKED;
        e->tag = tag;
        e->parts = parts;
        pthread_cond_signal(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    if (idle)
        return 0;
    rd_kafka_topic_partition_list_destroy(parts);
    return fault_set(f, RC_RETRY, "the ends of the partitions are being asked already");
}

bool kafka_ends_take(struct kafka_ends *e, int64_t *out_tag,
                     rd_kafka_topic_partition_list_t **out_parts)
{
    pthread_mutex_lock(&e->lock);
    bool answered = e->state == ANSWERED;
    if (answered) {
        *out_tag = e->tag;
        *out_parts = e->parts;
        e->parts = NULL;
        e->state = IDLE;
    }
    pthread_mutex_unlock(&e->lock);
    return answered;
}

void kafka_ends_nudge(struct kafka_ends *e, rd_kafka_topic_partition_list_t *parts)
{
    pthread_mutex_lock(&e->lock);
    if (!e->nudge) {
        e->nudge = parts;
        parts = NULL;
        pthread_cond_signal(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    if (parts)
        rd_kafka_topic_partition_list_destroy(parts);
}

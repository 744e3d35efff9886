/* relay_state.h - one relay from inside, for relay*.c alone.
 *
 * relay.c leads and looks, relay_read.c reads and sends, relay_delivery.c settles what Kafka says.
 */
#ifndef RELAY_STATE_H
#define RELAY_STATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producers/relay.h"
#include "producers/relay_gaps.h"
#include "producers/relay_row.h"
#include "runtime/pg.h"

struct kafka_delivery;
struct kafka_producer;
struct metric;

enum {
    RELAY_READ_ROWS = 4000,
    RELAY_READ_BYTES = 4 << 20,
    RELAY_MAX_ON_WAY = 16000,
    RELAY_MAX_BYTES_ON_WAY = 16 << 20, /* begun reads may exceed it by one */
    RELAY_MAX_SUSPECTS = 2000,
    RELAY_MAX_HELD_TOPICS = 16,
    RELAY_BUSY_MS = 5,
    RELAY_BUSY_FOR_MS = 1000, /* after a row: consumers commit a batch every 10 ms or so */
    RELAY_IDLE_MS = 100
};

struct relay_held_topic {
    char name[250];
    int64_t until_ms;
};

struct relay {
    char name[32];
    struct pg *pg;
    struct kafka_producer *producer;
    bool leads;

    struct relay_row *on_way[RELAY_MAX_ON_WAY];
    size_t on_way_count, bytes_on_way;
    int64_t delivered[RELAY_MAX_ON_WAY]; /* ids to delete */
    size_t delivered_count;
    struct pg_array firsts, lasts; /* scratch: ranges of ids */
    /* Refused with their batch: to be sent alone. What does not fit is found out by the next
     * refusal. */
    int64_t suspects[RELAY_MAX_SUSPECTS];
    size_t suspect_count;
    int64_t alone_id; /* the suspect on its way by itself, or 0 */
    int64_t refused_id;
    char refused_reason[128];
    bool trouble; /* a row was not delivered: give up the rest and begin again */

    struct relay_held_topic held[RELAY_MAX_HELD_TOPICS];
    size_t held_count;
    struct relay_gaps gaps;
    bool reopen; /* old ids may have come back: when nothing is on its way, read from the start */
    bool has_failed;
    int64_t look_ms, full_look_ms, talked_ms, busy_until_ms;

    struct metric *leader, *oldest, *failed_rows, *sent, *moved, *restarts;
};

/* Runs an embedded statement of producers/sql. */
int relay_run(struct relay *r, const char *file, const struct pg_params *p, struct pg_result **out,
              struct fault *f);

/* relay_read.c: one read, sent in order. How long to wait then: *out_wait_ms. */
int relay_read_and_send(struct relay *r, int *out_wait_ms, struct fault *f);
void relay_release_topics(struct relay *r, int64_t now);

/* relay_delivery.c */
void relay_on_delivery(void *arg, const struct kafka_delivery *d);
int relay_delete_delivered(struct relay *r, struct fault *f);
/* Everything not acknowledged is forgotten here and still in the table: the next reads find it. */
void relay_begin_again(struct relay *r);
int relay_settle_trouble(struct relay *r, struct fault *f);
int relay_move_refused(struct relay *r, int64_t id, const char *reason, struct fault *f);
bool relay_is_suspect(const struct relay *r, int64_t id);

#endif

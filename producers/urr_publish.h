/* urr_publish.h - publish payment events to URR: key, partitions, idempotence and order done right.
 *
 *   struct urr_publisher *p;
 *   struct urr_publish_options o = {.brokers = "kafka:9092", .on_delivery = done};
 *   char why[URR_PUBLISH_ERROR];
 *   if (urr_publish_open(&o, &p, why)) …
 *   rc = urr_publish(p, "payment-events", order_id, json, json_len, tag, why);
 *   urr_publish_poll(p, 100);                   // often: calls done()
 *   urr_publish_flush(p, 10000, why); urr_publish_close(p);
 *
 * Not thread-safe: one thread per publisher, or your own lock. Never fork with one open. */
#ifndef URR_PUBLISH_H
#define URR_PUBLISH_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URR_PUBLISH_API __attribute__((visibility("default")))

struct urr_publisher;

enum { URR_PUBLISH_ERROR = 192 }; /* size of `why`: one sentence, written on failure; may be NULL */
enum {
    URR_PUBLISH_AGAIN = -1,   /* queue full or broker away: poll, try again */
    URR_PUBLISH_REFUSED = -2, /* this event can't be sent, now or later */
    URR_PUBLISH_BROKEN = -3   /* bad options */
};

/* Once per accepted event, inside poll, flush or close. error NULL: written to Kafka for good.
 * Otherwise it may not have been written: publish it again (consumers drop repetitions) before
 * later events of its order, unless `refused`. */
typedef void (*urr_publish_fn)(void *arg, void *tag, const char *error, int refused);

struct urr_publish_options {
    const char *brokers;     /* "host:port,host:port" */
    const char *config_file; /* librdkafka properties (TLS, SASL), name=value per line; or NULL */
    uint32_t max_messages;   /* accepted and not yet reported; 0 = 100000 */
    uint32_t timeout_ms;     /* give an event up after so long; 0 = never, which keeps the order */
    urr_publish_fn on_delivery; /* may be NULL */
    void *arg;
};

URR_PUBLISH_API int urr_publish_open(const struct urr_publish_options *o,
                                     struct urr_publisher **out, char *why);

/* `key`: the orderId for payment-events (paymentId where there is none): events of one key keep
 * their order. Copies key and value. */
URR_PUBLISH_API int urr_publish(struct urr_publisher *p, const char *topic, const char *key,
                                const void *value, size_t len, void *tag, char *why);
URR_PUBLISH_API int urr_publish_poll(struct urr_publisher *p,
                                     int timeout_ms); /* how many were reported */
URR_PUBLISH_API int urr_publish_flush(struct urr_publisher *p, int timeout_ms, char *why);
URR_PUBLISH_API size_t urr_publish_pending(const struct urr_publisher *p);
URR_PUBLISH_API void urr_publish_close(
    struct urr_publisher *p); /* reports what is pending as not written; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif

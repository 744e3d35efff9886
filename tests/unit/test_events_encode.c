#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events/asyncapi.h"
#include "events/event.h"
#include "events/topics.h"
#include "runtime/arena.h"
#include "runtime/buf.h"
#include "runtime/config.h"
#include "runtime/fault.h"

#define NOW INT64_C(1795006271042)

static struct arena arena;
static struct buf out;
static struct fault fault;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 20);
    buf_init(&out, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    buf_done(&out);
    return 0;
}

static const char *encoded(const struct event *e)
{
    buf_reset(&out);
    if (event_encode(e, &out, &fault) != 0)
        fail_msg("%s", fault.text);
    return buf_text(&out);
}

static struct event sample(enum event_type type)
{
    struct event e = {.type = type, .timestamp_ms = NOW, .saga_id = "s"};
    switch (type) {
    case EVENT_PAYMENT_CONFIRMED:
    case EVENT_PAYMENT_REFUNDED:
        e.payment = (struct event_payment){"p", "o", "u", "r", NULL, 0, 5, "card", "why"};
        if (type == EVENT_PAYMENT_CONFIRMED)
            e.payment.reason = NULL;
        else
            e.payment.method = NULL;
        break;
    case EVENT_RESERVATION_CREATED:
    case EVENT_RESERVATION_CONFIRMED:
    case EVENT_RESERVATION_CANCELLED:
        e.reservation = (struct event_reservation){"r", "u", "e", 5, NULL, 0};
        if (type == EVENT_RESERVATION_CANCELLED)
            e.reservation.cancel_reason = EVENT_CANCEL_EVENT_CANCELLED;
        break;
    case EVENT_TRANSFER_COMPLETED:
        e.transfer = (struct event_transfer){"t", "r", "a", "b", 5, NULL};
        break;
    case EVENT_TRANSFER_CANCELLED:
        e.transfer = (struct event_transfer){"t", "r", "a", NULL, 0, "user"};
        break;
    case EVENT_MEMBERSHIP_ACTIVATED:
        e.membership = (struct event_membership){"m", "u", "a"};
        break;
    default:
        e.refund_request = (struct event_refund_request){"p", "o", "u", 5, "late"};
    }
    return e;
}

static void what_is_encoded_decodes_to_the_same(void **state)
{
    (void)state;
    for (int type = 0; type < EVENT_TYPE_COUNT; type++) {
        struct event e = sample((enum event_type)type), back;
        char first[2000];
        snprintf(first, sizeof first, "%s", encoded(&e));
        struct event_source src = {event_topic(e.type), first, strlen(first), 0, NOW};
        struct event_reject reject;
        if (event_decode(&src, &arena, &back, &reject, &fault) != 0)
            fail_msg("%s: %s", first, fault.text);
        assert_string_equal(encoded(&back), first);
    }
}

static void writes_the_wire_form(void **state)
{
    (void)state;
    struct event e = sample(EVENT_RESERVATION_CANCELLED);
    assert_string_equal(encoded(&e), "{\"type\":\"RESERVATION_CANCELLED\",\"sagaId\":\"s\","
                                     "\"reservationId\":\"r\",\"userId\":\"u\",\"eventId\":\"e\","
                                     "\"totalAmount\":5,\"reason\":\"event_cancelled\","
                                     "\"timestamp\":\"2026-11-18T12:51:11.042Z\"}");
}

static void refuses_to_write_what_it_would_not_read(void **state)
{
    (void)state;
    struct event bad[8];
    for (size_t i = 0; i < 8; i++)
        bad[i] = sample(EVENT_PAYMENT_CONFIRMED);
    bad[0].payment.amount = -5;
    bad[1].payment.amount = EVENT_AMOUNT_MAX + 1;
    bad[2].payment.user_id = "";
    bad[3].payment.payment_type = 9;
    bad[4].payment.reservation_id = NULL;
    bad[5].timestamp_ms = 0;
    bad[6].payment.amount = EVENT_NO_AMOUNT;
    bad[7].payment.order_id = "new\nline";
    buf_reset(&out);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(event_encode(&bad[i], &out, &fault), RC_REJECT);
        assert_int_equal(out.len, 0);
    }
}

static void keys_follow_the_rules_of_each_group(void **state)
{
    (void)state;
    struct event e = sample(EVENT_PAYMENT_CONFIRMED);
    assert_string_equal(event_ticket_key(&e, &arena), "PAYMENT_CONFIRMED:p");
    assert_string_equal(event_stats_key(&e, &arena), "PAYMENT_CONFIRMED:p");
    e.payment.payment_id = NULL;
    assert_string_equal(event_ticket_key(&e, &arena), "PAYMENT_CONFIRMED:s");
    e.saga_id = NULL;
    assert_string_equal(event_ticket_key(&e, &arena), "PAYMENT_CONFIRMED:reservation:r");
    e.payment.payment_type = EVENT_PAY_MEMBERSHIP;
    e.payment.reference_id = "m";
    assert_string_equal(event_ticket_key(&e, &arena), "PAYMENT_CONFIRMED:membership:m");
    e = sample(EVENT_RESERVATION_CONFIRMED);
    assert_string_equal(event_stats_key(&e, &arena), "RESERVATION_CONFIRMED:r:1795006271042");
    e = sample(EVENT_TRANSFER_CANCELLED);
    assert_string_equal(event_stats_key(&e, &arena), "TRANSFER_CANCELLED:t:1795006271042");
    e = sample(EVENT_MEMBERSHIP_ACTIVATED);
    assert_string_equal(event_stats_key(&e, &arena), "MEMBERSHIP_ACTIVATED:m:1795006271042");
}

static void uuids_are_told_from_other_ids(void **state)
{
    (void)state;
    char id[EVENT_UUID_LEN + 1] = "untouched";
    assert_false(event_uuid(NULL, id));
    assert_false(event_uuid("", id));
    assert_false(event_uuid("abc-123", id));
    assert_false(event_uuid("0b9a3c527d0e4a539d6e3b1c9f1c7a10", id));
    assert_false(event_uuid("0b9a3c52-7d0e-4a53-9d6e-3b1c9f1c7a1g", id));
    assert_false(event_uuid("0b9a3c52-7d0e-4a53-9d6e-3b1c9f1c7a100", id));
    assert_false(event_uuid("{b9a3c52-7d0e-4a53-9d6e-3b1c9f1c7a10}", id));
    assert_string_equal(id, "untouched");
    assert_true(event_uuid("0B9A3C52-7d0e-4a53-9d6e-3b1c9f1c7A10", id));
    assert_string_equal(id, "0b9a3c52-7d0e-4a53-9d6e-3b1c9f1c7a10");
}

static void every_topic_has_its_dead_letters(void **state)
{
    (void)state;
    char name[TOPIC_NAME_MAX + 1], long_name[TOPIC_NAME_MAX + 1];
    assert_true(topic_dlq("payment-events", name));
    assert_string_equal(name, "payment-events.dlq");
    assert_true(topic_dlq("payment-events.dlq", name));
    assert_string_equal(name, "payment-events.dlq");
    memset(long_name, 'x', TOPIC_NAME_MAX);
    long_name[TOPIC_NAME_MAX] = '\0';
    assert_false(topic_dlq(long_name, name));
}

static void plans_ten_topics_as_configured(void **state)
{
    (void)state;
    setenv("KAFKA_REPLICATION_FACTOR", "3", 1);
    const struct config_item *tables[] = {TOPIC_SETTINGS, NULL};
    struct config *c = NULL;
    assert_int_equal(config_load(tables, NULL, NULL, &c, &fault), 0);
    struct topic_plan p;
    size_t n = 0;
    for (; topic_plan(c, n, &p); n++) {
        bool dead = strstr(p.name, ".dlq") != NULL;
        assert_int_equal(p.partitions, dead ? 1 : 3);
        assert_int_equal(p.replication, 3);
        assert_string_equal(p.configs[0].name, "retention.ms");
        assert_string_equal(p.configs[0].value, "-1");
        assert_string_equal(p.configs[1].name, "min.insync.replicas");
    }
    assert_int_equal(n, 10);
    config_free(c);
    unsetenv("KAFKA_REPLICATION_FACTOR");
}

static char *contents(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be read", path);
    char *text = calloc(1, 1 << 20);
    size_t len = fread(text, 1, (1 << 20) - 1, file);
    text[len] = '\0';
    fclose(file);
    return text;
}

static void the_asyncapi_in_docs_is_the_generated_one(void **state)
{
    (void)state;
    char *docs = contents(SOURCE_DIR "/docs/asyncapi.yaml");
    buf_reset(&out);
    asyncapi_write(&out);
    assert_false(out.failed);
    if (strcmp(docs, buf_text(&out)) != 0)
        fail_msg("run build/dev/bin/urr-asyncapi > docs/asyncapi.yaml");
    free(docs);
}

static void every_reason_is_documented(void **state)
{
    (void)state;
    char *docs = contents(SOURCE_DIR "/docs/dead-letters.md");
    for (int i = EVENT_OK + 1; i < EVENT_REASON_COUNT; i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "| `%s` |", event_reason_name((enum event_reason)i));
        if (!strstr(docs, wanted))
            fail_msg("docs/dead-letters.md does not explain %s", wanted);
    }
    free(docs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_encoded_decodes_to_the_same),
        cmocka_unit_test(writes_the_wire_form),
        cmocka_unit_test(refuses_to_write_what_it_would_not_read),
        cmocka_unit_test(keys_follow_the_rules_of_each_group),
        cmocka_unit_test(uuids_are_told_from_other_ids),
        cmocka_unit_test(every_topic_has_its_dead_letters),
        cmocka_unit_test(plans_ten_topics_as_configured),
        cmocka_unit_test(the_asyncapi_in_docs_is_the_generated_one),
        cmocka_unit_test(every_reason_is_documented),
    };
    return cmocka_run_group_tests_name("events_encode", tests, set_up, tear_down);
}

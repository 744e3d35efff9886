#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events/event.h"
#include "events/topics.h"
#include "runtime/arena.h"
#include "runtime/clock.h"
#include "runtime/fault.h"

#define NOW INT64_C(1795006271042) /* 2026-11-18T12:51:11.042Z */
#define RECORD_TIME INT64_C(1795006000000)
#define PAY TOPIC_PAYMENT_EVENTS
#define RES TOPIC_RESERVATION_EVENTS

static struct arena arena;
static struct event_reject reject;
static struct fault fault;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

static int decode(const char *topic, const char *json, struct event *out)
{
    struct event_source src = {topic, json, strlen(json), RECORD_TIME, NOW};
    return event_decode(&src, &arena, out, &reject, &fault);
}

static struct event decoded(const char *topic, const char *json)
{
    struct event e = {0};
    if (decode(topic, json, &e) != 0)
        fail_msg("%s: %s (%s)", json, fault.text, event_reason_name(reject.reason));
    return e;
}

static void reads_a_confirmation_with_every_field(void **state)
{
    (void)state;
    struct event e = decoded(
        PAY,
        "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p-1\",\"orderId\":\"o-1\","
        "\"userId\":\"user@example.com\",\"reservationId\":\"abc-123\",\"referenceId\":null,"
        "\"paymentType\":\"reservation\",\"amount\":50000,\"paymentMethod\":\"card\","
        "\"sagaId\":\"s-1\",\"timestamp\":\"2026-11-18T21:51:11.042+09:00\",\"extra\":[1,{}]}");
    assert_int_equal(e.type, EVENT_PAYMENT_CONFIRMED);
    assert_string_equal(e.payment.payment_id, "p-1");
    assert_string_equal(e.payment.order_id, "o-1");
    assert_string_equal(e.payment.user_id, "user@example.com");
    assert_string_equal(e.payment.reservation_id, "abc-123");
    assert_null(e.payment.reference_id);
    assert_int_equal(e.payment.payment_type, EVENT_PAY_RESERVATION);
    assert_int_equal(e.payment.amount, 50000);
    assert_string_equal(e.payment.method, "card");
    assert_string_equal(e.saga_id, "s-1");
    assert_int_equal(e.timestamp_ms, NOW);
    assert_string_equal(event_payment_subject(&e), "abc-123");
    assert_string_equal(event_kafka_key(&e), "o-1");
}

static void a_refund_needs_nothing_but_its_payment_id(void **state)
{
    (void)state;
    struct event e =
        decoded(PAY, "{\"type\":\"PAYMENT_REFUNDED\",\"paymentId\":\"p-1\",\"orderId\":null,"
                     "\"referenceId\":null,\"paymentType\":\"reservation\"}");
    assert_int_equal(e.type, EVENT_PAYMENT_REFUNDED);
    assert_int_equal(e.payment.amount, EVENT_NO_AMOUNT);
    assert_null(event_payment_subject(&e));
    assert_string_equal(event_kafka_key(&e), "p-1");
}

static void legacy_payments_without_a_type_are_told_apart_by_reason(void **state)
{
    (void)state;
    struct event e = decoded(PAY, "{\"paymentId\":\"p\",\"reservationId\":\"r\",\"amount\":1}");
    assert_int_equal(e.type, EVENT_PAYMENT_CONFIRMED);
    assert_int_equal(e.payment.payment_type, EVENT_PAY_RESERVATION);
    e = decoded(PAY, "{\"paymentId\":\"p\",\"reason\":\"user asked\"}");
    assert_int_equal(e.type, EVENT_PAYMENT_REFUNDED);
    assert_string_equal(e.payment.reason, "user asked");
    e = decoded(PAY, "{\"type\":null,\"paymentId\":\"p\",\"reason\":null}");
    assert_int_equal(e.type, EVENT_PAYMENT_REFUNDED);
}

static void the_subject_of_transfers_and_memberships_is_the_reference(void **state)
{
    (void)state;
    struct event e =
        decoded(PAY, "{\"paymentType\":\"transfer\",\"reservationId\":\"r\",\"amount\":1,"
                     "\"referenceId\":\"t\",\"userId\":\"u\",\"paymentId\":\"p\"}");
    assert_int_equal(e.payment.payment_type, EVENT_PAY_TRANSFER);
    assert_string_equal(event_payment_subject(&e), "t");
    e = decoded(PAY, "{\"paymentType\":\"membership\",\"referenceId\":\"m\",\"amount\":0}");
    assert_int_equal(e.payment.payment_type, EVENT_PAY_MEMBERSHIP);
    assert_string_equal(event_payment_subject(&e), "m");
}

static void reads_the_follow_ups(void **state)
{
    (void)state;
    struct event e = decoded(RES, "{\"type\":\"RESERVATION_CANCELLED\",\"sagaId\":\"s\","
                                  "\"reservationId\":\"r\",\"userId\":\"u\",\"eventId\":\"e\","
                                  "\"totalAmount\":9007199254740992,\"reason\":\"seat_lost\"}");
    assert_int_equal(e.reservation.cancel_reason, EVENT_CANCEL_SEAT_LOST);
    assert_true(e.reservation.total_amount == INT64_C(9007199254740992));
    assert_string_equal(event_kafka_key(&e), "r");
    e = decoded(TOPIC_TRANSFER_EVENTS,
                "{\"type\":\"TRANSFER_COMPLETED\",\"transferId\":\"t\",\"reservationId\":\"r\","
                "\"sellerId\":\"a\",\"buyerId\":\"b\",\"totalPrice\":7}");
    assert_string_equal(e.transfer.buyer_id, "b");
    assert_string_equal(event_kafka_key(&e), "t");
    e = decoded(TOPIC_TRANSFER_EVENTS,
                "{\"type\":\"TRANSFER_CANCELLED\",\"transferId\":\"t\","
                "\"reservationId\":\"r\",\"sellerId\":\"a\",\"reason\":\"x\"}");
    assert_string_equal(e.transfer.reason, "x");
    e = decoded(TOPIC_MEMBERSHIP_EVENTS,
                "{\"type\":\"MEMBERSHIP_ACTIVATED\",\"membershipId\":\"m\","
                "\"userId\":\"u\",\"artistId\":\"a\"}");
    assert_string_equal(event_kafka_key(&e), "m");
    e = decoded(TOPIC_PAYMENT_COMMANDS,
                "{\"type\":\"PAYMENT_REFUND_REQUESTED\",\"paymentId\":\"p\",\"orderId\":\"o\","
                "\"userId\":\"u\",\"amount\":5,\"reason\":\"late\"}");
    assert_string_equal(event_kafka_key(&e), "o");
}

static void times_are_iso_or_epoch_or_the_records_own(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int64_t ms;
    } cases[] = {
        {"{\"paymentId\":\"p\",\"reason\":\"\",\"timestamp\":1795006271042}", NOW},
        {"{\"paymentId\":\"p\",\"reason\":\"\",\"timestamp\":\"2026-11-18T12:51:11.042Z\"}", NOW},
        {"{\"paymentId\":\"p\",\"reason\":\"\",\"timestamp\":\"2026-11-18T12:51Z\"}",
         INT64_C(1795006260000)},
        {"{\"paymentId\":\"p\",\"reason\":\"\"}", RECORD_TIME},
        {"{\"paymentId\":\"p\",\"reason\":\"\",\"timestamp\":null}", RECORD_TIME},
        {"{\"paymentId\":\"p\",\"reason\":\"\",\"timestamp\":1577836800000}", EVENT_MIN_TIME_MS},
        {"{\"paymentId\":\"p\",\"reason\":\"\",\"timestamp\":1795092671042}", NOW + 86400000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(decoded(PAY, cases[i].json).timestamp_ms, cases[i].ms);
}

#define C "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p\",\"reservationId\":\"r\",\"amount\":1"
#define R \
    "{\"type\":\"RESERVATION_CREATED\",\"reservationId\":\"r\",\"userId\":\"u\",\"eventId\":\"e\""

static void every_broken_rule_has_its_reason(void **state)
{
    (void)state;
    static const struct {
        const char *topic, *json;
        enum event_reason reason;
    } cases[] = {
        {PAY, "", EVENT_EMPTY_VALUE},
        {PAY, "{", EVENT_BAD_JSON},
        {PAY, "\xff\xfe", EVENT_BAD_JSON},
        {PAY, C ",\"userId\":\"a\\u0000b\"}", EVENT_BAD_JSON},
        {PAY, C ",\"amount\":2}", EVENT_BAD_JSON},
        {PAY, C "} x", EVENT_BAD_JSON},
        {PAY, "[1]", EVENT_NOT_OBJECT},
        {PAY, "\"PAYMENT_CONFIRMED\"", EVENT_NOT_OBJECT},
        {RES, "{\"reservationId\":\"r\"}", EVENT_MISSING_TYPE},
        {PAY, "{\"type\":\"PAYMENT_EATEN\"}", EVENT_UNKNOWN_TYPE},
        {PAY, "{\"type\":7}", EVENT_UNKNOWN_TYPE},
        {PAY, "{\"type\":\"payment_confirmed\"}", EVENT_UNKNOWN_TYPE},
        {PAY, "{\"type\":\"RESERVATION_CREATED\"}", EVENT_WRONG_TOPIC},
        {RES, "{\"type\":\"PAYMENT_CONFIRMED\"}", EVENT_WRONG_TOPIC},
        {PAY, C ",\"paymentType\":\"gift\"}", EVENT_UNKNOWN_PAYMENT_TYPE},
        {PAY, C ",\"paymentType\":3}", EVENT_UNKNOWN_PAYMENT_TYPE},
        {RES,
         "{\"type\":\"RESERVATION_CANCELLED\",\"reservationId\":\"r\",\"userId\":\"u\","
         "\"eventId\":\"e\",\"totalAmount\":1,\"reason\":\"bored\"}",
         EVENT_UNKNOWN_CANCEL_REASON},
        {RES,
         "{\"type\":\"RESERVATION_CANCELLED\",\"reservationId\":\"r\",\"userId\":\"u\","
         "\"eventId\":\"e\",\"totalAmount\":1}",
         EVENT_MISSING_FIELD},
        {PAY, "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p\",\"reservationId\":\"r\"}",
         EVENT_MISSING_FIELD},
        {PAY, "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p\",\"amount\":1}",
         EVENT_MISSING_FIELD},
        {PAY, C ",\"paymentType\":\"membership\"}", EVENT_MISSING_FIELD},
        {PAY, C ",\"paymentType\":\"transfer\",\"referenceId\":\"t\"}", EVENT_MISSING_FIELD},
        {PAY, "{\"type\":\"PAYMENT_REFUNDED\",\"orderId\":\"o\"}", EVENT_MISSING_FIELD},
        {RES, R "}", EVENT_MISSING_FIELD},
        {RES, R ",\"totalAmount\":null}", EVENT_MISSING_FIELD},
        {PAY, C ",\"userId\":\"\"}", EVENT_BAD_ID},
        {PAY, C ",\"userId\":12}", EVENT_BAD_ID},
        {PAY, C ",\"userId\":\"a\\nb\"}", EVENT_BAD_ID},
        {PAY, C ",\"userId\":\"\\u007f\"}", EVENT_BAD_ID},
        {PAY, C ",\"userId\":\"한\"}", EVENT_BAD_ID},
        {PAY, C ",\"sagaId\":{}}", EVENT_BAD_ID},
        {PAY, C ",\"paymentMethod\":1}", EVENT_BAD_TEXT},
        {RES, R ",\"totalAmount\":1.5}", EVENT_BAD_AMOUNT},
        {RES, R ",\"totalAmount\":-1}", EVENT_BAD_AMOUNT},
        {RES, R ",\"totalAmount\":\"1\"}", EVENT_BAD_AMOUNT},
        {RES, R ",\"totalAmount\":true}", EVENT_BAD_AMOUNT},
        {PAY, C ",\"timestamp\":\"yesterday\"}", EVENT_BAD_TIMESTAMP},
        {PAY, C ",\"timestamp\":\"2026-11-18T12:51:11\"}", EVENT_BAD_TIMESTAMP},
        {PAY, C ",\"timestamp\":1795006271042.5}", EVENT_BAD_TIMESTAMP},
        {PAY, C ",\"timestamp\":[]}", EVENT_BAD_TIMESTAMP},
        {PAY, C ",\"timestamp\":1577836799999}", EVENT_TIMESTAMP_RANGE},
        {PAY, C ",\"timestamp\":1795092671043}", EVENT_TIMESTAMP_RANGE},
        {PAY, C ",\"timestamp\":1795006271}", EVENT_TIMESTAMP_RANGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct event e = {.timestamp_ms = 77};
        if (decode(cases[i].topic, cases[i].json, &e) != RC_REJECT ||
            reject.reason != cases[i].reason)
            fail_msg("%s: expected %s, got %s (%s)", cases[i].json,
                     event_reason_name(cases[i].reason), event_reason_name(reject.reason),
                     fault.text);
        assert_int_equal(e.timestamp_ms, 77);
    }
}

static void numbers_beyond_exactness_are_refused(void **state)
{
    (void)state;
    struct event e;
    static const char *const INEXACT[] = {
        "9007199254740993",           "9007199254740994",     "1e400", "1e16",
        "50000.00000000000000000001", "-99999999999999999999"};
    for (size_t i = 0; i < sizeof INEXACT / sizeof *INEXACT; i++) {
        char json[400];
        snprintf(json, sizeof json, R ",\"totalAmount\":%s}", INEXACT[i]);
        assert_int_equal(decode(RES, json, &e), RC_REJECT);
        assert_int_equal(reject.reason, EVENT_BAD_AMOUNT);
    }
    assert_int_equal(decode(PAY, C ",\"timestamp\":99999999999999999999}", &e), RC_REJECT);
    assert_int_equal(reject.reason, EVENT_BAD_TIMESTAMP);
}

static void a_huge_number_in_an_unknown_field_is_ignored(void **state)
{
    (void)state;
    struct event e =
        decoded(PAY, C ",\"traceId\":18446744073709551615,"
                       "\"extra\":{\"ratio\":[1e400,0.12345678901234567890123,-1e-400]}}");
    assert_int_equal(e.payment.amount, 1);
}

static void names_the_type_nobody_knows(void **state)
{
    (void)state;
    struct event e;
    assert_int_equal(decode(PAY, "{\"type\":\"PAYMENT_EATEN\"}", &e), RC_REJECT);
    assert_string_equal(reject.unknown, "PAYMENT_EATEN");
    assert_int_equal(decode(PAY, C ",\"paymentType\":\"gift\"}", &e), RC_REJECT);
    assert_string_equal(reject.unknown, "gift");
}

static void ids_have_at_most_128_bytes(void **state)
{
    (void)state;
    char json[400];
    struct event e;
    snprintf(json, sizeof json, C ",\"userId\":\"%0128d\"}", 1);
    assert_int_equal(decode(PAY, json, &e), 0);
    snprintf(json, sizeof json, C ",\"userId\":\"%0129d\"}", 1);
    assert_int_equal(decode(PAY, json, &e), RC_REJECT);
    assert_int_equal(reject.reason, EVENT_BAD_ID);
}

static void a_value_of_a_megabyte_is_refused_unread(void **state)
{
    (void)state;
    char *big = malloc(1000000);
    memset(big, ' ', 1000000);
    struct event_source src = {PAY, big, 1000000, RECORD_TIME, NOW};
    struct event e;
    assert_int_equal(event_decode(&src, &arena, &e, &reject, &fault), RC_REJECT);
    assert_int_equal(reject.reason, EVENT_TOO_LARGE);
    src = (struct event_source){PAY, NULL, 0, RECORD_TIME, NOW};
    assert_int_equal(event_decode(&src, &arena, &e, &reject, &fault), RC_REJECT);
    assert_int_equal(reject.reason, EVENT_EMPTY_VALUE);
    free(big);
}

static void a_full_arena_blames_no_event(void **state)
{
    (void)state;
    struct arena small;
    arena_init(&small, 2);
    struct event_source src = {PAY, C "}", strlen(C "}"), RECORD_TIME, NOW};
    struct event e;
    assert_int_equal(event_decode(&src, &small, &e, &reject, &fault), RC_RETRY);
    arena_done(&small);
}

static void decodes_fast(void **state)
{
    (void)state;
    static const char json[] =
        "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"0b9a3c52-7d0e-4a53-9d6e-3b1c9f1c7a10\","
        "\"orderId\":\"ORD-20261118-000001\",\"userId\":\"user@example.com\","
        "\"reservationId\":\"0b9a3c52-7d0e-4a53-9d6e-3b1c9f1c7a11\",\"referenceId\":null,"
        "\"paymentType\":\"reservation\",\"amount\":150000,\"paymentMethod\":\"card\","
        "\"timestamp\":\"2026-11-18T12:51:11.042Z\"}";
    struct event e;
    int64_t start = clock_mono_us();
    enum { ROUNDS = 20000 };
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(decode(PAY, json, &e), 0);
        arena_reset(&arena);
    }
    int64_t us = clock_mono_us() - start;
    print_message("%d events decoded in %lld us: %lld/s\n", ROUNDS, (long long)us,
                  (long long)(ROUNDS * INT64_C(1000000) / (us ? us : 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_confirmation_with_every_field),
        cmocka_unit_test(a_refund_needs_nothing_but_its_payment_id),
        cmocka_unit_test(legacy_payments_without_a_type_are_told_apart_by_reason),
        cmocka_unit_test(the_subject_of_transfers_and_memberships_is_the_reference),
        cmocka_unit_test(reads_the_follow_ups),
        cmocka_unit_test(times_are_iso_or_epoch_or_the_records_own),
        cmocka_unit_test(every_broken_rule_has_its_reason),
        cmocka_unit_test(numbers_beyond_exactness_are_refused),
        cmocka_unit_test(a_huge_number_in_an_unknown_field_is_ignored),
        cmocka_unit_test(names_the_type_nobody_knows),
        cmocka_unit_test(ids_have_at_most_128_bytes),
        cmocka_unit_test(a_value_of_a_megabyte_is_refused_unread),
        cmocka_unit_test(a_full_arena_blames_no_event),
        cmocka_unit_test(decodes_fast),
    };
    return cmocka_run_group_tests_name("events_decode", tests, set_up, tear_down);
}

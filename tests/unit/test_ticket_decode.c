#include "check.h"

#include <string.h>

#include "consumers/ticket/ticket_internal.h"
#include "runtime/arena.h"
#include "runtime/fault.h"

#define UUID "0190a7c1-3b5e-7a11-8f00-00000000ABCD"
#define UUID_LOWER "0190a7c1-3b5e-7a11-8f00-00000000abcd"
#define NOW INT64_C(1760000000000)

static struct arena arena;
static struct engine_record record;
static struct engine_reject reject;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 16);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

static int decode(const char *json, struct engine_event *out)
{
    struct fault f;
    record = (struct engine_record){.topic = "anything",
                                    .value = json,
                                    .value_len = strlen(json),
                                    .timestamp_ms = NOW,
                                    .now_ms = NOW};
    *out = (struct engine_event){.record = &record};
    reject = (struct engine_reject){0};
    return ticket_decode(&arena, out, &reject, NULL, &f);
}

static void each_payment_type_has_its_handler_and_its_subject(void **state)
{
    (void)state;
    struct engine_event e;
    assert_int_equal(decode("{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p1\",\"amount\":5,"
                            "\"reservationId\":\"" UUID "\"}",
                            &e),
                     0);
    assert_int_equal(e.handler, TICKET_CONFIRMED_RESERVATION);
    assert_string_equal(((struct ticket_body *)e.body)->subject, UUID_LOWER);
    assert_string_equal(e.key, "PAYMENT_CONFIRMED:p1");
    assert_int_equal(
        decode("{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p1\",\"amount\":5,"
               "\"paymentType\":\"transfer\",\"userId\":\"bob\",\"referenceId\":\"" UUID "\"}",
               &e),
        0);
    assert_int_equal(e.handler, TICKET_CONFIRMED_TRANSFER);
    assert_int_equal(decode("{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p1\",\"amount\":5,"
                            "\"paymentType\":\"membership\",\"referenceId\":\"" UUID "\"}",
                            &e),
                     0);
    assert_int_equal(e.handler, TICKET_CONFIRMED_MEMBERSHIP);
    assert_int_equal(decode("{\"paymentId\":\"p1\",\"reason\":\"legacy\"}", &e), 0);
    assert_int_equal(e.handler, TICKET_REFUNDED);
    assert_null(((struct ticket_body *)e.body)->subject);
}

static void a_subject_that_is_no_uuid_is_refused_for_every_type(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p\",\"amount\":5,\"reservationId\":\"abc-"
        "123\"}",
        "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p\",\"amount\":5,\"paymentType\":"
        "\"transfer\","
        "\"userId\":\"bob\",\"referenceId\":\"7\"}",
        "{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p\",\"amount\":5,\"paymentType\":"
        "\"membership\","
        "\"referenceId\":\"user@example.com\"}",
        "{\"type\":\"PAYMENT_REFUNDED\",\"paymentId\":\"p\",\"reservationId\":\"abc-123\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct engine_event e;
        assert_int_equal(decode(bad[i], &e), RC_REJECT);
        assert_string_equal(reject.reason, "bad_subject_id");
    }
}

static void events_of_one_payment_or_one_subject_conflict(void **state)
{
    (void)state;
    struct engine_event paid, again, back;
    decode("{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p1\",\"amount\":5,\"reservationId\":"
           "\"" UUID "\"}",
           &paid);
    decode("{\"type\":\"PAYMENT_CONFIRMED\",\"paymentId\":\"p2\",\"amount\":5,"
           "\"reservationId\":\"" UUID_LOWER "\"}",
           &again);
    decode("{\"type\":\"PAYMENT_REFUNDED\",\"paymentId\":\"p1\",\"orderId\":null}", &back);
    assert_int_equal(paid.conflict_count, 2);
    assert_int_equal(back.conflict_count, 1);
    assert_true(paid.conflicts[0] == back.conflicts[0]);
    assert_true(paid.conflicts[1] == again.conflicts[1]);
    assert_true(paid.conflicts[0] != again.conflicts[0]);
}

static void an_unknown_type_is_named_so_that_it_can_be_ignored(void **state)
{
    (void)state;
    struct engine_event e;
    assert_int_equal(decode("{\"type\":\"PAYMENT_PENDING\"}", &e), RC_REJECT);
    assert_string_equal(reject.reason, "unknown_type");
    assert_string_equal(reject.unknown, "PAYMENT_PENDING");
    assert_int_equal(decode("{\"type\":\"RESERVATION_CREATED\"}", &e), RC_REJECT);
    assert_string_equal(reject.reason, "wrong_topic");
}

static void a_full_arena_blames_no_event(void **state)
{
    (void)state;
    struct arena small;
    struct fault f;
    struct engine_event e = {.record = &record};
    arena_init(&small, 16);
    assert_int_equal(ticket_decode(&small, &e, &reject, NULL, &f), RC_RETRY);
    arena_done(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_payment_type_has_its_handler_and_its_subject),
        cmocka_unit_test(a_subject_that_is_no_uuid_is_refused_for_every_type),
        cmocka_unit_test(events_of_one_payment_or_one_subject_conflict),
        cmocka_unit_test(an_unknown_type_is_named_so_that_it_can_be_ignored),
        cmocka_unit_test(a_full_arena_blames_no_event),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

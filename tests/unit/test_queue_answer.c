/* What a user is told: waits, polls, fields. */
#include "check.h"

#include <string.h>

#include "queue-core/event_directory.h"
#include "queue-core/queue_answer.h"
#include "runtime/buf.h"

static void asks_again_sooner_near_the_front(void **state)
{
    (void)state;
    static const int64_t CASES[][2] = {{-1, 3},     {0, 3},       {1, 1},       {1000, 1},
                                       {1001, 5},   {5000, 5},    {5001, 10},   {10000, 10},
                                       {10001, 30}, {100000, 30}, {100001, 60}, {5000000, 60}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_int_equal(queue_answer_next_poll(CASES[i][0]), CASES[i][1]);
}

static void waits_by_the_admissions_of_the_last_minute(void **state)
{
    (void)state;
    struct event_facts facts = {.admitted_last_minute = 120};
    assert_int_equal(queue_answer_wait(0, &facts, 0), 0);
    assert_int_equal(queue_answer_wait(1, &facts, 0), 1);
    assert_int_equal(queue_answer_wait(1000, &facts, 0), 500);
    assert_int_equal(queue_answer_wait(1001, &facts, 0), 501);
}

static void waits_at_least_five_seconds_while_nothing_is_measured(void **state)
{
    (void)state;
    struct event_facts facts = {0};
    assert_int_equal(queue_answer_wait(1, &facts, 0), 5);
    assert_int_equal(queue_answer_wait(250, NULL, 0), 5);
    assert_int_equal(queue_answer_wait(251, &facts, 0), 6);
    assert_int_equal(queue_answer_wait(50000, &facts, 0), 1000);
}

static void waits_for_the_opening_first(void **state)
{
    (void)state;
    struct event_facts facts = {.opens_at_ms = 61500};
    assert_int_equal(queue_answer_wait(1, &facts, 1000), 61 + 5);
    assert_int_equal(queue_answer_wait(1, &facts, 61500), 5);
}

static void expect(const struct queue_answer *a, const struct event_facts *facts, const char *json)
{
    struct buf b;
    buf_init(&b, 4096);
    queue_answer_write(a, facts, 1000, &b);
    assert_string_equal(buf_text(&b), json);
    buf_done(&b);
}

static void writes_who_waits(void **state)
{
    (void)state;
    struct event_facts facts = {.title = "A \"B\"", .paused = true, .opens_at_ms = 2000};
    struct queue_answer a = {.status = ROOM_QUEUED,
                             .position = 3,
                             .queue_size = 2,
                             .active = 7,
                             .threshold = 9,
                             .place = "p.x",
                             .event_info = true};
    expect(&a, &facts,
           "{\"status\":\"queued\",\"queued\":true,\"position\":3,\"peopleAhead\":2,"
           "\"peopleBehind\":0,\"estimatedWait\":6,\"nextPoll\":1,\"opensAt\":2000,\"paused\":true,"
           "\"queueSize\":2,\"currentUsers\":7,\"threshold\":9,\"place\":\"p.x\","
           "\"eventInfo\":{\"title\":\"A \\\"B\\\"\",\"artist\":\"\"},"
           "\"message\":\"The sale has not opened yet. Your place is kept.\"}");
}

static void writes_who_is_inside_without_a_position(void **state)
{
    (void)state;
    struct queue_answer a = {.status = ROOM_ACTIVE,
                             .queue_size = 2,
                             .active = 7,
                             .threshold = -1,
                             .expiry_ms = 5000,
                             .entry_token = "t"};
    expect(&a, NULL,
           "{\"status\":\"active\",\"queued\":false,\"nextPoll\":3,\"queueSize\":2,"
           "\"currentUsers\":7,\"entryToken\":\"t\",\"expiresAt\":5000,"
           "\"message\":\"It is your turn. Go on to the seats.\"}");
}

static void writes_the_reason_of_a_closing(void **state)
{
    (void)state;
    struct queue_answer a = {.status = ROOM_CLOSED, .threshold = -1, .reason = "sold_out"};
    expect(&a, NULL,
           "{\"status\":\"closed\",\"queued\":false,\"nextPoll\":3,\"queueSize\":0,"
           "\"currentUsers\":0,\"reason\":\"sold_out\",\"message\":\"The sale has closed.\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_again_sooner_near_the_front),
        cmocka_unit_test(waits_by_the_admissions_of_the_last_minute),
        cmocka_unit_test(waits_at_least_five_seconds_while_nothing_is_measured),
        cmocka_unit_test(waits_for_the_opening_first),
        cmocka_unit_test(writes_who_waits),
        cmocka_unit_test(writes_who_is_inside_without_a_position),
        cmocka_unit_test(writes_the_reason_of_a_closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

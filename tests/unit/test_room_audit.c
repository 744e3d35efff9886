/* The audit on logs written by hand: a fair one, and one for each thing that must be found. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "queue-core/room_audit.h"
#include "runtime/fault.h"
#include "runtime/json.h"

static struct room_audit *audit;
static int64_t at_ms;

static int begin(void **state)
{
    (void)state;
    struct fault f = {0};
    at_ms = 1000;
    return room_audit_new(100000, &audit, &f);
}

static int end(void **state)
{
    (void)state;
    room_audit_free(audit);
    return 0;
}

static void say(const char *kind, const char *user, int64_t score, const char *reason,
                int64_t active, int64_t threshold)
{
    const struct room_entry e = {.id = "1-1",
                                 .kind = kind,
                                 .user = user,
                                 .reason = reason,
                                 .of = "",
                                 .members = "",
                                 .score = score,
                                 .active = active,
                                 .threshold = threshold,
                                 .at_ms = at_ms += 10};
    struct fault f = {0};
    assert_int_equal(room_audit_apply(audit, &e, &f), 0);
}

static void part(const char *of, const char *members)
{
    const struct room_entry e = {.id = "1-2",
                                 .kind = "part",
                                 .user = "",
                                 .reason = "",
                                 .of = of,
                                 .members = members,
                                 .score = -1,
                                 .active = -1,
                                 .threshold = -1,
                                 .at_ms = -1};
    struct fault f = {0};
    assert_int_equal(room_audit_apply(audit, &e, &f), 0);
}

static void a_new_event(void)
{
    say("snapshot", "", -1, "", -1, -1);
    say("epoch", "", 0, "new", 0, 2);
    say("snapshot-end", "", -1, "", -1, -1);
}

/* a and b go straight in, c d e wait. */
static void a_full_hall(void)
{
    a_new_event();
    say("join", "a", 1, "", 0, 2);
    say("admit", "a", 1, "direct", 1, 2);
    say("join", "b", 2, "", 1, 2);
    say("admit", "b", 2, "direct", 2, 2);
    say("join", "c", 3, "", 2, 2);
    say("join", "d", 4, "", 2, 2);
    say("join", "e", 5, "", 2, 2);
}

static void found(enum room_finding what, int64_t count, const char *user)
{
    const struct room_audit_report *r = room_audit_report(audit);
    for (int i = 0; i < ROOM_FINDINGS; i++)
        assert_int_equal(r->found[i], i == (int)what ? count : 0);
    assert_int_equal(r->told, count);
    assert_non_null(strstr(r->texts[0], user));
    assert_false(room_audit_clean(r));
}

static void a_fair_log_is_clean_and_its_waits_are_known(void **state)
{
    (void)state;
    a_full_hall();
    say("park", "c", 3, "silent", 2, 2);
    say("leave", "a", 1, "left", 1, 2);
    say("admit", "d", 4, "turn", 2, 2); /* c is away: no inversion */
    say("return", "c", 3, "parked", 2, 2);
    say("expire", "b", 2, "ttl", 1, 2);
    say("admit", "c", 3, "turn", 2, 2);
    const struct room_audit_report *r = room_audit_report(audit);
    assert_true(room_audit_clean(r) && r->complete);
    assert_int_equal(r->waiting, 1);
    assert_int_equal(r->inside, 2);
    assert_int_equal(r->admitted, 4);
    assert_int_equal(r->wait_ms.count, 4);
    assert_int_equal(r->wait_ms.max, 80); /* c: joined at 1080, let in at 1160 */
    assert_int_equal(r->peak_inside, 2);
}

static void finds_somebody_let_in_before_another_who_waits(void **state)
{
    (void)state;
    a_full_hall();
    say("leave", "a", 1, "left", 1, 2);
    say("admit", "e", 5, "turn", 2, 2);
    found(ROOM_INVERSION, 1, "e at 5 was let in before c at 3");
}

static void finds_a_jump_to_a_better_place(void **state)
{
    (void)state;
    a_full_hall();
    say("park", "e", 5, "stale", 2, 2);
    say("return", "e", 2, "parked", 2, 2);
    found(ROOM_INVERSION, 1, "e had place 5 and got 2");
}

static void finds_more_inside_than_the_threshold(void **state)
{
    (void)state;
    a_full_hall();
    say("admit", "c", 3, "turn", 3, 2);
    found(ROOM_OVERSHOOT, 1, "3 inside, threshold 2, with c");
}

static void a_lowered_threshold_is_no_overshoot(void **state)
{
    (void)state;
    a_full_hall();
    say("set", "op", -1, "threshold=1", 2, 1);
    say("leave", "e", 5, "left", 2, 1);
    assert_true(room_audit_clean(room_audit_report(audit)));
}

static void finds_a_place_that_got_worse(void **state)
{
    (void)state;
    a_full_hall();
    say("join", "c", 6, "", 2, 2);
    found(ROOM_LOST, 1, "c had place 3 and got 6");
}

static void finds_who_is_missing_from_the_next_snapshot(void **state)
{
    (void)state;
    a_full_hall();
    say("snapshot", "", -1, "", -1, -1);
    part("active", "a 1 b 2");
    say("leave", "c", 3, "left", 2, 2); /* heard of after the beginning: not lost */
    part("queue", "e 5");
    say("snapshot-end", "", -1, "", -1, -1);
    found(ROOM_LOST, 1, "d at 4");
}

static void finds_who_is_missing_from_redis(void **state)
{
    (void)state;
    a_full_hall();
    room_audit_compare_begin(audit);
    room_audit_compare(audit, "a", ROOM_INSIDE);
    room_audit_compare(audit, "b", ROOM_INSIDE);
    room_audit_compare(audit, "c", ROOM_WAITS);
    say("leave", "e", 5, "left", 2, 2); /* while the sets were read */
    room_audit_compare(audit, "e", ROOM_WAITS);
    room_audit_compare_end(audit);
    found(ROOM_LOST, 1, "d at 4 is not in Redis");
}

static void finds_who_is_in_redis_without_an_entry(void **state)
{
    (void)state;
    a_new_event();
    room_audit_compare_begin(audit);
    room_audit_compare(audit, "ghost", ROOM_INSIDE);
    room_audit_compare_end(audit);
    found(ROOM_MISMATCH, 1, "ghost is in Redis");
}

static void finds_two_at_one_place(void **state)
{
    (void)state;
    a_full_hall();
    say("join", "f", 3, "tier1", 2, 2);
    say("leave", "a", 1, "left", 1, 2);
    say("admit", "c", 3, "turn", 2, 2);
    found(ROOM_DOUBLE, 1, "c and f share place 3");
}

static void finds_a_second_entrance(void **state)
{
    (void)state;
    a_full_hall();
    say("admit", "b", 2, "turn", 2, 2);
    found(ROOM_DOUBLE, 1, "b was let in while inside");
}

static void finds_an_entry_that_is_missing(void **state)
{
    (void)state;
    a_full_hall();
    say("join", "f", 6, "", 1, 2); /* somebody's leave was never written */
    found(ROOM_MISMATCH, 1, "2 inside by the log, 1 by entry");
}

static void after_a_loss_the_snapshot_tells_who_is_there(void **state)
{
    (void)state;
    a_full_hall();
    say("snapshot", "", -1, "", -1, -1);
    say("epoch", "", 0, "lost", 0, 2);
    say("return", "d", 4, "restored", 0, 2);
    say("return", "c", 3, "restored", 0, 2);
    part("queue", "c 3 d 4");
    say("snapshot-end", "", -1, "", -1, -1);
    say("admit", "c", 3, "turn", 1, 2);
    say("admit", "d", 4, "turn", 2, 2);
    const struct room_audit_report *r = room_audit_report(audit);
    assert_true(room_audit_clean(r) && r->complete);
    assert_int_equal(r->losses, 1);
}

static void a_log_cut_before_a_snapshot_is_not_complete_until_the_next(void **state)
{
    (void)state;
    say("admit", "a", 1, "turn", 7, 9);
    assert_false(room_audit_report(audit)->complete);
    say("snapshot", "", -1, "", -1, -1);
    part("active", "a 1 b 2");
    say("snapshot-end", "", -1, "", -1, -1);
    say("leave", "a", 1, "left", 1, 9);
    const struct room_audit_report *r = room_audit_report(audit);
    assert_true(r->complete && room_audit_clean(r));
}

static void thousands_come_and_go_in_order(void **state)
{
    (void)state;
    char user[16];
    a_new_event();
    for (int i = 1; i <= 20000; i++) {
        (void)snprintf(user, sizeof user, "u%d", i);
        say("join", user, i, "", i > 5000 ? 1 : 0, 2);
        if (i <= 5000)
            continue;
        if (i > 5001) {
            (void)snprintf(user, sizeof user, "u%d", i - 5001);
            say("leave", user, i - 5001, "left", 0, 2);
        }
        (void)snprintf(user, sizeof user, "u%d", i - 5000);
        say("admit", user, i - 5000, "turn", 1, 2);
    }
    const struct room_audit_report *r = room_audit_report(audit);
    assert_int_equal(r->found[ROOM_INVERSION], 0);
    assert_int_equal(r->found[ROOM_LOST], 0);
    assert_int_equal(r->waiting, 5000);
    assert_int_equal(r->wait_ms.count, 15000);
    say("admit", "u19000", 19000, "turn", 2, 2);
    assert_int_equal(room_audit_report(audit)->found[ROOM_INVERSION], 1);
}

static void reads_a_line_of_the_file(void **state)
{
    (void)state;
    static const char line[] =
        "{\"id\":\"5-0\",\"k\":\"admit\",\"u\":\"x\",\"s\":\"77\",\"r\":\"turn\",\"a\":3,"
        "\"th\":\"4\",\"at\":1700000000000}";
    struct cJSON *object = NULL;
    struct room_entry e;
    struct fault f = {0};
    assert_int_equal(json_parse(line, strlen(line), &object, &f), 0);
    assert_true(room_entry_of_json(object, &e));
    assert_string_equal(e.user, "x");
    assert_int_equal(e.score, 77);
    assert_int_equal(e.active, 3);
    assert_int_equal(e.threshold, 4);
    assert_int_equal(e.at_ms, 1700000000000);
    cJSON_Delete(object);
    assert_int_equal(json_parse("{\"x\":1}", 7, &object, &f), 0);
    assert_false(room_entry_of_json(object, &e));
    cJSON_Delete(object);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_fair_log_is_clean_and_its_waits_are_known),
        TEST(finds_somebody_let_in_before_another_who_waits),
        TEST(finds_a_jump_to_a_better_place),
        TEST(finds_more_inside_than_the_threshold),
        TEST(a_lowered_threshold_is_no_overshoot),
        TEST(finds_a_place_that_got_worse),
        TEST(finds_who_is_missing_from_the_next_snapshot),
        TEST(finds_who_is_missing_from_redis),
        TEST(finds_who_is_in_redis_without_an_entry),
        TEST(finds_two_at_one_place),
        TEST(finds_a_second_entrance),
        TEST(finds_an_entry_that_is_missing),
        TEST(after_a_loss_the_snapshot_tells_who_is_there),
        TEST(a_log_cut_before_a_snapshot_is_not_complete_until_the_next),
        TEST(thousands_come_and_go_in_order),
        TEST(reads_a_line_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which ids the relay still reads. */
#include "check.h"

#include <string.h>

#include "producers/relay_gaps.h"

static struct relay_gaps g;

static int fresh(void **state)
{
    (void)state;
    memset(&g, 0, sizeof g);
    return 0;
}

static void see(int64_t id)
{
    assert_true(relay_gaps_seen(&g, id));
}

static void assert_gap(size_t i, int64_t from, int64_t to)
{
    assert_true(i < g.count);
    assert_int_equal(g.at[i].from, from);
    assert_int_equal(g.at[i].to, to);
}

static void consecutive_ids_leave_no_gap(void **state)
{
    (void)state;
    for (int64_t id = 1; id <= 1000; id++)
        see(id);
    assert_int_equal(g.next, 1000);
    assert_int_equal(g.count, 0);
}

static void a_skipped_id_is_looked_for_until_it_comes(void **state)
{
    (void)state;
    see(5);
    see(9);
    assert_gap(0, 1, 4);
    assert_gap(1, 6, 8);
    see(7);
    assert_gap(1, 6, 6);
    assert_gap(2, 8, 8);
    see(6);
    see(8);
    see(1);
    see(4);
    assert_int_equal(g.count, 1);
    assert_gap(0, 2, 3);
    assert_int_equal(g.next, 9);
}

static void a_gap_closes_only_after_its_transactions_and_one_more_read(void **state)
{
    (void)state;
    see(3);
    relay_gaps_look(&g, 90, 100); /* 90 to 99 may hold ids 1 and 2 */
    relay_gaps_close(&g);
    assert_int_equal(g.count, 1);
    relay_gaps_look(&g, 99, 120);
    relay_gaps_close(&g);
    assert_int_equal(g.count, 1);
    relay_gaps_look(&g, 100, 130);
    assert_int_equal(g.count, 1); /* the read that sees what they left comes now */
    relay_gaps_close(&g);
    assert_int_equal(g.count, 0);
    assert_int_equal(g.next, 3);
}

static void a_gap_made_after_a_look_waits_for_the_next_one(void **state)
{
    (void)state;
    see(3);
    relay_gaps_look(&g, 100, 100);
    see(6);
    relay_gaps_look(&g, 105, 110);
    relay_gaps_close(&g);
    assert_int_equal(g.count, 1);
    assert_gap(0, 4, 5);
}

static void parts_of_a_split_gap_wait_as_long_as_the_whole(void **state)
{
    (void)state;
    see(10);
    relay_gaps_look(&g, 90, 100);
    see(5);
    relay_gaps_look(&g, 99, 200);
    relay_gaps_close(&g);
    assert_int_equal(g.count, 2);
    relay_gaps_look(&g, 100, 300);
    relay_gaps_close(&g);
    assert_int_equal(g.count, 0);
}

static void reopening_looks_at_everything_once_more(void **state)
{
    (void)state;
    relay_gaps_reopen(&g);
    assert_int_equal(g.count, 0); /* everything lies above 0 already */
    see(3);
    see(7);
    relay_gaps_look(&g, 50, 60);
    relay_gaps_reopen(&g);
    assert_int_equal(g.count, 1);
    assert_gap(0, 1, 7);
    relay_gaps_look(&g, 70, 70); /* it counts from now on, not from the old gaps' look */
    relay_gaps_close(&g);
    assert_int_equal(g.count, 1);
}

static void a_full_table_refuses_and_changes_nothing(void **state)
{
    (void)state;
    int64_t id = 0;
    while (g.count < RELAY_MAX_GAPS)
        see(id += 4); /* each leaves a gap of three */
    assert_false(relay_gaps_seen(&g, id + 4));
    assert_int_equal(g.next, id);
    assert_false(relay_gaps_seen(&g, 2)); /* would split the first */
    assert_gap(0, 1, 3);
    see(1); /* shortens it */
    assert_gap(0, 2, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(consecutive_ids_leave_no_gap, fresh),
        cmocka_unit_test_setup(a_skipped_id_is_looked_for_until_it_comes, fresh),
        cmocka_unit_test_setup(a_gap_closes_only_after_its_transactions_and_one_more_read, fresh),
        cmocka_unit_test_setup(a_gap_made_after_a_look_waits_for_the_next_one, fresh),
        cmocka_unit_test_setup(parts_of_a_split_gap_wait_as_long_as_the_whole, fresh),
        cmocka_unit_test_setup(reopening_looks_at_everything_once_more, fresh),
        cmocka_unit_test_setup(a_full_table_refuses_and_changes_nothing, fresh),
    };
    return cmocka_run_group_tests_name("relay_gaps", tests, NULL, NULL);
}

#include "check.h"

#include <stdlib.h>
#include <stdio.h>

#include "consumers/engine/waves.h"

enum { MANY = 1000 };

static struct waves waves;
static struct engine_event events[MANY];
static struct engine_event *list[MANY];

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        list[i] = &events[i];
    return waves_init(&waves);
}

static int tear_down(void **state)
{
    (void)state;
    waves_done(&waves);
    return 0;
}

static void clear(void)
{
    for (int i = 0; i < MANY; i++)
        events[i] = (struct engine_event){0};
}

static bool conflict(const struct engine_event *a, const struct engine_event *b)
{
    if (a->conflicts_all || b->conflicts_all)
        return true;
    for (unsigned i = 0; i < a->conflict_count; i++)
        for (unsigned k = 0; k < b->conflict_count; k++)
            if (a->conflicts[i] == b->conflicts[k])
                return true;
    return false;
}

static void strangers_share_one_wave(void **state)
{
    (void)state;
    clear();
    for (int i = 0; i < MANY; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        engine_conflict(&events[i], "reservation", id);
    }
    assert_int_equal(waves_plan(&waves, list, MANY), 1);
    assert_int_equal(waves_select(&waves, list, MANY, 0, 0), MANY);
}

static void events_of_one_row_keep_their_order(void **state)
{
    (void)state;
    clear();
    for (int i = 0; i < 5; i++)
        engine_conflict(&events[i], "user", "u");
    assert_int_equal(waves_plan(&waves, list, 5), 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(waves.of[i], i);
}

static void the_kind_tells_equal_ids_apart(void **state)
{
    (void)state;
    clear();
    engine_conflict(&events[0], "user", "1");
    engine_conflict(&events[1], "seat", "1");
    engine_conflict(&events[1], "seat", "1");
    assert_int_equal(events[1].conflict_count, 1);
    assert_int_equal(waves_plan(&waves, list, 2), 1);
}

static void an_event_of_too_many_rows_runs_alone_in_its_place(void **state)
{
    (void)state;
    clear();
    for (int i = 0; i <= ENGINE_MAX_CONFLICTS; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        engine_conflict(&events[1], "seat", id);
    }
    assert_true(events[1].conflicts_all);
    engine_conflict(&events[0], "user", "a");
    engine_conflict(&events[2], "user", "b");
    assert_int_equal(waves_plan(&waves, list, 3), 3);
    assert_true(waves.of[0] < waves.of[1] && waves.of[1] < waves.of[2]);
}

/* The model: the longest chain of conflicting events that ends here, by looking at all pairs. */
static uint32_t chain(uint32_t *depth, size_t n)
{
    uint32_t longest = 0;
    for (size_t i = 0; i < n; i++) {
        depth[i] = 0;
        for (size_t k = 0; k < i; k++)
            if (conflict(&events[i], &events[k]) && depth[k] + 1 > depth[i])
                depth[i] = depth[k] + 1;
        if (depth[i] + 1 > longest)
            longest = depth[i] + 1;
    }
    return longest;
}

static void matches_the_model_on_random_batches(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 60; round++) {
        static uint32_t depth[MANY];
        size_t n = 1 + (size_t)(rand() % 200);
        int rows = 1 + rand() % 300;
        clear();
        for (size_t i = 0; i < n; i++) {
            events[i].handler = (unsigned)(rand() % 3);
            for (int k = rand() % 4; k >= 0; k--) {
                char id[16];
                snprintf(id, sizeof id, "%d", rand() % rows);
                engine_conflict(&events[i], "row", id);
            }
            events[i].conflicts_all = rand() % 100 == 0;
        }
        uint32_t longest = chain(depth, n);
        assert_int_equal(waves_plan(&waves, list, n), longest);
        size_t selected = 0;
        for (uint32_t w = 0; w < longest; w++)
            for (unsigned h = 0; h < 3; h++)
                selected += waves_select(&waves, list, n, w, h);
        assert_int_equal(selected, n);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < i; k++)
                if (conflict(&events[i], &events[k]))
                    assert_true(waves.of[k] < waves.of[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_share_one_wave),
        cmocka_unit_test(events_of_one_row_keep_their_order),
        cmocka_unit_test(the_kind_tells_equal_ids_apart),
        cmocka_unit_test(an_event_of_too_many_rows_runs_alone_in_its_place),
        cmocka_unit_test(matches_the_model_on_random_batches),
    };
    return cmocka_run_group_tests_name("engine_waves", tests, set_up, tear_down);
}

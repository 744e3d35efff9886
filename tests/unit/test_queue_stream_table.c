/* The table of open streams: walks survive closings, users are found, memory goes with the last
 * pin.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "queue-core/queue_stream_table.h"

enum { MANY = 1000, BATCH = 64 };

static struct stream *add(struct stream_table *t, const char *event, const char *user)
{
    struct stream *s = stream_table_add(t, event, user);
    assert_non_null(s);
    return s;
}

static void finds_all_streams_of_a_user_and_no_others(void **state)
{
    (void)state;
    struct stream_table *t = stream_table_new();
    struct stream *first = add(t, "a", "ann"), *second = add(t, "a", "ann");
    (void)add(t, "b", "ann");
    (void)add(t, "a", "bob");
    struct stream *found = stream_table_find(t, "a", "ann");
    assert_ptr_equal(found, second); /* the newest first: the last is the oldest */
    assert_ptr_equal(stream_table_same(found), first);
    assert_null(stream_table_same(first));
    assert_null(stream_table_find(t, "a", "an"));
    assert_null(stream_table_find(t, "c", "ann"));
    stream_table_close(t, second);
    assert_ptr_equal(stream_table_find(t, "a", "ann"), first);
    assert_int_equal(stream_table_count(t), 3);
    stream_table_free(t);
}

/* Walks all; closes `closing` of each batch while it is held. Returns how many were met. */
static uint32_t walk(struct stream_table *t, uint32_t closing)
{
    struct stream *list[BATCH];
    uint32_t met = 0, n;
    stream_table_begin(t);
    while ((n = stream_table_step(t, list, BATCH)) > 0) {
        for (uint32_t i = 1; i < n; i++)
            assert_ptr_equal(list[i]->event, list[0]->event);
        for (uint32_t i = 0; i < n && i < closing; i++)
            stream_table_close(t, list[i]);
        for (uint32_t i = 0; i < n; i++)
            stream_table_unpin(list[i]);
        met += n;
    }
    return met;
}

static void a_walk_meets_everybody_once_in_batches_of_one_event(void **state)
{
    (void)state;
    struct stream_table *t = stream_table_new();
    assert_int_equal(walk(t, 0), 0);
    for (int i = 0; i < MANY; i++) {
        char event[8], user[16];
        (void)snprintf(event, sizeof event, "e%d", i % 7);
        (void)snprintf(user, sizeof user, "user-%d", i);
        (void)add(t, event, user);
    }
    assert_int_equal(walk(t, 0), MANY);
    assert_int_equal(walk(t, BATCH), MANY);
    assert_int_equal(stream_table_count(t), 0);
    assert_int_equal(walk(t, 0), 0);
    stream_table_free(t);
}

static void a_walk_survives_the_end_of_what_comes_next(void **state)
{
    (void)state;
    struct stream_table *t = stream_table_new();
    struct stream *c = add(t, "b", "c"), *b = add(t, "a", "b"), *a = add(t, "a", "a"), *list[1];
    stream_table_begin(t);
    assert_int_equal(stream_table_step(t, list, 1), 1);
    assert_ptr_equal(list[0], a);
    stream_table_close(t, b); /* the cursor stood there */
    stream_table_close(t, a); /* its event goes too, while `a` is pinned */
    assert_null(a->http);
    stream_table_unpin(a);
    assert_int_equal(stream_table_step(t, list, 1), 1);
    assert_ptr_equal(list[0], c);
    stream_table_unpin(c);
    assert_int_equal(stream_table_step(t, list, 1), 0);
    stream_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_all_streams_of_a_user_and_no_others),
        cmocka_unit_test(a_walk_meets_everybody_once_in_batches_of_one_event),
        cmocka_unit_test(a_walk_survives_the_end_of_what_comes_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

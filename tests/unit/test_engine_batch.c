#include "check.h"

#include <string.h>

#include "consumers/engine/batch.h"
#include "consumers/engine/dead_letter.h"
#include "runtime/arena.h"
#include "runtime/fault.h"
#include "runtime/kafka.h"

/* Values: "key" is an event, "!reason" is refused, "?type" is unknown, "*" fills the arena. */
static int decode(struct arena *arena, struct engine_event *out, struct engine_reject *reject,
                  void *state, struct fault *f)
{
    (void)state;
    const char *value = out->record->value;
    if (*value == '*')
        return RC_RETRY;
    if (*value == '!' || *value == '?') {
        reject->reason = *value == '!' ? "bad" : "unknown_type";
        if (*value == '?')
            strcpy(reject->unknown, value + 1);
        return fault_set(f, RC_REJECT, "because");
    }
    out->key = arena_strdup(arena, value);
    engine_conflict(out, "key", value);
    return 0;
}

static const struct engine_spec SPEC = {.name = "test", .decode = decode};
static struct batch batch;

static int set_up(void **state)
{
    (void)state;
    return batch_init(&batch);
}

static int tear_down(void **state)
{
    (void)state;
    batch.count = 0; /* messages without an owner */
    batch_done(&batch);
    return 0;
}

static int add(const char *value)
{
    struct kafka_message m = {.topic = "t", .value = value, .value_len = strlen(value)};
    int rc = batch_add(&batch, &SPEC, "A, gift,B", NULL, &m, 1);
    if (rc == 0)
        assert_null(m.value);
    return rc;
}

static void equal_keys_count_once_and_the_first_wins(void **state)
{
    (void)state;
    batch.count = 0;
    struct batch_item *keys[ENGINE_MAX_BATCH];
    add("b");
    add("a");
    add("b");
    add("!x");
    add("b");
    assert_int_equal(batch_prepare(&batch, 0, 5, keys), 2);
    assert_string_equal(keys[0]->event.key, "a");
    assert_ptr_equal(keys[1], &batch.items[0]);
    assert_int_equal(batch.items[2].fate, BATCH_DUPLICATE);
    assert_ptr_equal(batch.items[4].first, &batch.items[0]);
    assert_int_equal(batch.items[3].fate, BATCH_REFUSED);
    assert_string_equal(batch.items[3].refused_reason, "bad");
    assert_string_equal(batch.items[3].refused_detail, "because");
    assert_ptr_equal(batch_find(keys, 2, "b"), keys[1]);
    assert_null(batch_find(keys, 2, "c"));
    /* In a half of its own the second one is the first. */
    assert_int_equal(batch_prepare(&batch, 2, 5, keys), 1);
    assert_ptr_equal(keys[0], &batch.items[2]);
}

static void a_retry_starts_from_what_decode_said(void **state)
{
    (void)state;
    batch.count = 0;
    struct batch_item *keys[ENGINE_MAX_BATCH];
    add("a");
    batch_prepare(&batch, 0, 1, keys);
    engine_conflict(&batch.items[0].event, "seat", "1");
    engine_dead(&batch.items[0].event, "late", "by %d", 5);
    assert_string_equal(batch.items[0].event.detail, "by 5");
    batch_prepare(&batch, 0, 1, keys);
    assert_int_equal(batch.items[0].event.conflict_count, 1);
    assert_int_equal(batch.items[0].event.outcome, ENGINE_APPLIED);
}

static void named_types_are_ignored_others_refused(void **state)
{
    (void)state;
    batch.count = 0;
    add("?gift");
    add("?gif");
    assert_int_equal(batch.items[0].decoded, BATCH_IGNORED);
    assert_int_equal(batch.items[1].decoded, BATCH_REFUSED);
    assert_true(batch_type_ignored("A", "A"));
    assert_true(batch_type_ignored("A,B ,C", "B"));
    assert_false(batch_type_ignored("AB", "A"));
    assert_false(batch_type_ignored("", ""));
    assert_false(batch_type_ignored(NULL, "A"));
}

static void without_room_the_batch_goes_first(void **state)
{
    (void)state;
    batch.count = 0;
    add("a");
    assert_int_equal(add("*"), RC_RETRY);
    assert_int_equal(batch.count, 1);
    batch.count = 0;
    assert_int_equal(add("*"), 0); /* alone it will never fit */
    assert_string_equal(batch.items[0].refused_reason, "too_large");
}

static void keys_beyond_the_column_are_refused(void **state)
{
    (void)state;
    batch.count = 0;
    static char value[400];
    memset(value, 'k', 255);
    add(value);
    memset(value, 'k', 256);
    add(value);
    assert_int_equal(batch.items[0].decoded, BATCH_FRESH);
    assert_int_equal(batch.items[1].decoded, BATCH_REFUSED);
}

static void is_full_by_number_or_by_bytes(void **state)
{
    (void)state;
    batch.count = 3;
    batch.bytes = 0;
    assert_false(batch_full(&batch, 4));
    assert_true(batch_full(&batch, 3));
    batch.bytes = BATCH_MAX_BYTES;
    assert_true(batch_full(&batch, 4));
    batch.bytes = 0;
}

static void attempts_are_read_from_the_headers(void **state)
{
    (void)state;
    struct kafka_header h[] = {{"other", "9", 1}, {DEAD_LETTER_ATTEMPTS, "4", 1}};
    assert_int_equal(dead_letter_attempts(h, 2), 4);
    assert_int_equal(dead_letter_attempts(h, 1), 0);
    h[1].value = "4x";
    h[1].len = 2;
    assert_int_equal(dead_letter_attempts(h, 2), 0);
    h[1].value = "99999999999999999999";
    h[1].len = 20;
    assert_true(dead_letter_attempts(h, 2) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_keys_count_once_and_the_first_wins),
        cmocka_unit_test(a_retry_starts_from_what_decode_said),
        cmocka_unit_test(named_types_are_ignored_others_refused),
        cmocka_unit_test(without_room_the_batch_goes_first),
        cmocka_unit_test(keys_beyond_the_column_are_refused),
        cmocka_unit_test(is_full_by_number_or_by_bytes),
        cmocka_unit_test(attempts_are_read_from_the_headers),
    };
    return cmocka_run_group_tests_name("engine_batch", tests, set_up, tear_down);
}

#include "check.h"

#include <string.h>

#include "runtime/arena.h"

static void gives_what_was_copied_in(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    char *first = arena_strdup(&a, "first");
    char *cut = arena_strndup(&a, "second", 3);
    assert_string_equal(first, "first");
    assert_string_equal(cut, "sec");
    assert_int_equal((uintptr_t)arena_alloc(&a, 1) % 16, 0);
    assert_int_equal((uintptr_t)arena_alloc(&a, 1) % 16, 0);
    arena_done(&a);
}

static void keeps_to_its_maximum(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1000);
    assert_non_null(arena_alloc(&a, 600));
    assert_null(arena_alloc(&a, 401));
    assert_non_null(arena_alloc(&a, 400));
    assert_null(arena_alloc(&a, 1));
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 1000));
    assert_null(arena_strndup(&a, "x", SIZE_MAX));
    arena_done(&a);
}

static void uses_its_chunks_again_after_a_reset(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64 << 20);
    void *first = arena_alloc(&a, 100);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5000; i++) {
            char *p = arena_alloc(&a, 100);
            assert_non_null(p);
            memset(p, round, 100);
        }
        char *large = arena_alloc(&a, 300000);
        assert_non_null(large);
        memset(large, round, 300000);
        assert_non_null(arena_alloc(&a, 10));
        arena_reset(&a);
        assert_ptr_equal(arena_alloc(&a, 100), first);
    }
    arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_what_was_copied_in),
        cmocka_unit_test(keeps_to_its_maximum),
        cmocka_unit_test(uses_its_chunks_again_after_a_reset),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}

/* The binary array form, byte by byte. */
#include "check.h"

#include <string.h>

#include "runtime/fault.h"
#include "runtime/pg_array.h"
#include "runtime/pg_params.h"

static void an_empty_array_has_no_dimension(void **state)
{
    (void)state;
    static const char WIRE[] = "\0\0\0\0\0\0\0\0\0\0\0\x19";
    struct pg_array a;
    size_t len;
    pg_array_init(&a, PG_TEXT, 1024);
    const void *wire = pg_array_wire(&a, &len);
    assert_int_equal(len, 12);
    assert_memory_equal(wire, WIRE, 12);
    pg_array_done(&a);
}

static void elements_carry_their_lengths_and_nulls(void **state)
{
    (void)state;
    static const char WIRE[] = "\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\2\0\0\0\1"
                               "\0\0\0\2hi\xff\xff\xff\xff";
    struct pg_array a;
    size_t len;
    pg_array_init(&a, PG_TEXT, 1024);
    assert_int_equal(pg_array_text(&a, "hi"), 0);
    assert_int_equal(pg_array_text(&a, NULL), 0);
    const void *wire = pg_array_wire(&a, &len);
    assert_int_equal(len, sizeof WIRE - 1);
    assert_memory_equal(wire, WIRE, len);
    pg_array_done(&a);
}

static void an_element_of_another_type_spoils_the_array_for_good(void **state)
{
    (void)state;
    struct pg_array a;
    struct pg_params p;
    pg_array_init(&a, PG_INT8, 1024);
    assert_int_equal(pg_array_text(&a, "1"), RC_REJECT);
    assert_int_equal(a.count, 0);
    pg_params_init(&p);
    pg_params_array(&p, &a);
    assert_true(p.failed);
    pg_array_reset(&a);
    assert_int_equal(pg_array_int8(&a, 1), 0);
    pg_params_init(&p);
    pg_params_array(&p, &a);
    assert_false(p.failed);
    pg_array_done(&a);
}

static void a_full_array_refuses_whole_elements(void **state)
{
    (void)state;
    struct pg_array a;
    pg_array_init(&a, PG_INT8, 20 + 12 + 11);
    assert_int_equal(pg_array_int8(&a, 1), 0);
    assert_int_equal(pg_array_int8(&a, 2), RC_REJECT);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.bytes.len, 32);
    pg_array_done(&a);
}

static void only_well_formed_uuids_pass(void **state)
{
    (void)state;
    unsigned char out[16];
    assert_int_equal(pg_uuid_parse("019A95f4-0000-7000-8000-00000000000a", out), 0);
    assert_int_equal(out[1], 0x9a);
    assert_int_equal(out[15], 0x0a);
    static const char *const BAD[] = {"",
                                      "019a95f4000070008000-00000000000a",
                                      "019a95f4-0000-7000-8000-00000000000",
                                      "019a95f4-0000-7000-8000-00000000000aa",
                                      "019a95f4-0000-7000-8000-00000000000g",
                                      "{19a95f4-0000-7000-8000-00000000000}"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_int_equal(pg_uuid_parse(BAD[i], out), RC_REJECT);
}

static void times_survive_both_ways_also_before_2000(void **state)
{
    (void)state;
    static const int64_t TIMES[] = {0, -1, 946684799999, 946684800000, 1763470271042};
    for (size_t i = 0; i < sizeof TIMES / sizeof TIMES[0]; i++)
        assert_int_equal(pg_time_to_ms(pg_time_from_ms(TIMES[i])), TIMES[i]);
    assert_true(pg_time_from_ms(INT64_MAX) == INT64_MAX);
    assert_true(pg_time_from_ms(INT64_MIN) == INT64_MIN);
}

static void more_parameters_than_fit_spoil_the_statement(void **state)
{
    (void)state;
    struct pg_params p;
    pg_params_init(&p);
    for (int i = 0; i < PG_MAX_PARAMS; i++)
        pg_params_int8(&p, i);
    assert_false(p.failed);
    pg_params_null(&p);
    assert_true(p.failed);
    assert_int_equal(p.count, PG_MAX_PARAMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_array_has_no_dimension),
        cmocka_unit_test(elements_carry_their_lengths_and_nulls),
        cmocka_unit_test(an_element_of_another_type_spoils_the_array_for_good),
        cmocka_unit_test(a_full_array_refuses_whole_elements),
        cmocka_unit_test(only_well_formed_uuids_pass),
        cmocka_unit_test(times_survive_both_ways_also_before_2000),
        cmocka_unit_test(more_parameters_than_fit_spoil_the_statement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "check.h"

#include <string.h>

#include "consumers/engine/start_rules.h"
#include "runtime/kafka.h"

#define NONE KAFKA_OFFSET_NONE

static void every_start_is_decided(void **state)
{
    (void)state;
    static const struct {
        const char *claim;
        bool row, known;
        int64_t next;
        bool has_last;
        int64_t last, committed, low, high;
        enum start_action action;
        int64_t offset;
        const char *text; /* must be part of the message */
    } cases[] = {
        {"a new group starts at the log's start", false, false, 0, false, 0, NONE, 40, 90,
         START_INSERT, 40, ""},
        {"a new partition starts at 0", false, true, 0, false, 0, NONE, 0, 5, START_INSERT, 0, ""},
        {"a new partition whose start is gone has a gap", false, true, 0, false, 0, NONE, 3, 5,
         START_INSERT, 0, ""},
        {"a commit without a row is refused", false, false, 0, false, 0, 17, 0, 90, START_REFUSE, 0,
         "no offset row"},
        {"also where other partitions have rows", false, true, 0, false, 0, 17, 0, 90, START_REFUSE,
         0, "right database"},
        {"goes on where it was", true, true, 50, false, 0, NONE, 0, 90, START_READ, 50, ""},
        {"goes on at the very end", true, true, 90, false, 0, NONE, 0, 90, START_READ, 90, ""},
        {"goes on at the very start", true, true, 0, false, 0, NONE, 0, 0, START_READ, 0, ""},
        {"looks at the last record first", true, true, 50, true, 49, NONE, 0, 90, START_VERIFY, 49,
         ""},
        {"control records between are fine", true, true, 52, true, 49, NONE, 0, 90, START_VERIFY,
         49, ""},
        {"a last record below the start is not looked at", true, true, 50, true, 49, NONE, 50, 90,
         START_READ, 50, ""},
        {"below the start is a gap", true, true, 10, true, 9, NONE, 40, 90, START_GAP, 40, ""},
        {"beyond the end is refused", true, true, 91, true, 90, NONE, 0, 90, START_REFUSE, 0,
         "log ends at 90"},
        {"an empty new topic under an old row is refused", true, true, 5, true, 4, NONE, 0, 0,
         START_REFUSE, 0, "made anew"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct start_view v = {"g",
                               "t",
                               1,
                               cases[i].row,
                               cases[i].known,
                               cases[i].next,
                               cases[i].has_last,
                               cases[i].last,
                               cases[i].committed,
                               cases[i].low,
                               cases[i].high};
        struct start_decision d;
        start_rules_decide(&v, &d);
        if (d.action != cases[i].action ||
            (d.action != START_REFUSE && d.offset != cases[i].offset) ||
            !strstr(d.text, cases[i].text))
            fail_msg("%s: got action %d, offset %lld, '%s'", cases[i].claim, d.action,
                     (long long)d.offset, d.text);
    }
}

static void messages_name_place_group_and_remedy(void **state)
{
    (void)state;
    struct start_view v = {.group = "g",
                           .topic = "payment-events",
                           .partition = 2,
                           .next_offset = 10,
                           .last_offset = 9,
                           .low = 40};
    char text[300];
    start_rules_gap(&v, text, sizeof text);
    assert_non_null(strstr(text, "payment-events[2]: records 10 to 39"));
    assert_non_null(strstr(text, "group g"));
    assert_non_null(strstr(text, "urrctl"));
    start_rules_recreated(&v, text, sizeof text);
    assert_non_null(strstr(text, "payment-events[2]: the record at 9"));
    assert_non_null(strstr(text, "urrctl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_start_is_decided),
        cmocka_unit_test(messages_name_place_group_and_remedy),
    };
    return cmocka_run_group_tests_name("engine_start_rules", tests, NULL, NULL);
}

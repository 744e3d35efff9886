/* The room without Redis: ids, settings, the memory of an instance, and replies of every shape. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "queue-core/room_private.h"
#include "runtime/fault.h"

enum { MANY = 2100 };

/* A reply made of words; */
struct made {
    struct redisReply array;
    struct redisReply items[MANY];
    struct redisReply *list[MANY];
};

static const struct redisReply *reply(struct made *m, const char *const *words, size_t count)
{
    memset(m, 0, sizeof *m);
    for (size_t i = 0; i < count; i++) {
        m->items[i].type = REDIS_REPLY_STRING;
        m->items[i].str = (char *)(uintptr_t)words[i];
        m->items[i].len = strlen(words[i]);
        m->list[i] = &m->items[i];
    }
    m->array.type = REDIS_REPLY_ARRAY;
    m->array.elements = count;
    m->array.element = m->list;
    return &m->array;
}

static struct made made;
#define REPLY(...)                                   \
    reply(&made, (const char *const[]){__VA_ARGS__}, \
          sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void ids_are_of_their_alphabet_and_length(void **state)
{
    (void)state;
    char longest[ROOM_USER_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[ROOM_USER_MAX] = '\0';
    assert_true(room_user_ok(longest) && !room_event_ok(longest));
    longest[ROOM_USER_MAX] = 'a';
    longest[ROOM_USER_MAX + 1] = '\0';
    assert_false(room_user_ok(longest));
    longest[ROOM_EVENT_MAX] = '\0';
    assert_true(room_event_ok(longest));
    assert_true(room_event_ok("0f8-A_z") && room_user_ok("a.b_c@d+e:f-0"));
    static const char *const bad[] = {"", "a b", "{a}", "a}", "a/b", "\xc3\xa9", "a\n", "a*"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(room_event_ok(bad[i]) || room_user_ok(bad[i]));
    assert_false(room_event_ok("a.b") || room_event_ok(NULL) || room_user_ok(NULL));
}

static void settings_have_names_and_bounds(void **state)
{
    (void)state;
    static const struct room_setting good[] = {
        {"threshold", "0"},    {"threshold", "10000000"},
        {"threshold", ""},     {"title", "Lilac, \xec\x95\x84"},
        {"paused", "1"},       {"interval", "100"},
        {"closedReason", "x"}, {"opensAt", "1795000000000"}};
    static const struct room_setting bad[] = {{"threshold", "-1"},
                                              {"threshold", "1e3"},
                                              {"threshold", "07"},
                                              {"threshold", "10000001"},
                                              {"threshold", " 1"},
                                              {"paused", "2"},
                                              {"interval", "0"},
                                              {"vwrInterval", "0"},
                                              {"title", "a\nb"},
                                              {"title", "\xff"},
                                              {"Threshold", "1"},
                                              {"runId", "x"},
                                              {"opensAt", "99999999999999999999"},
                                              {"batch", "0"},
                                              {"title", NULL}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(room_setting_ok(&good[i], NULL));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fault f = {0};
        assert_false(room_setting_ok(&bad[i], &f));
        assert_int_equal(f.rc, RC_REJECT);
    }
    char text[ROOM_TEXT_MAX + 2];
    memset(text, 'a', sizeof text);
    text[ROOM_TEXT_MAX + 1] = '\0';
    assert_false(room_setting_ok(&(struct room_setting){"title", text}, NULL));
    text[ROOM_TEXT_MAX] = '\0';
    assert_true(room_setting_ok(&(struct room_setting){"title", text}, NULL));
}

static void memory_forgets_the_longest_unused_only(void **state)
{
    (void)state;
    struct room_memory *m = room_memory_new(3);
    assert_non_null(m);
    assert_null(room_memory_find(m, "a"));
    room_memory_of(m, "a")->seq = 1;
    room_memory_of(m, "b")->seq = 2;
    room_memory_of(m, "c")->seq = 3;
    assert_int_equal(room_memory_of(m, "a")->seq, 1);
    room_memory_of(m, "d")->seq = 4;
    assert_null(room_memory_find(m, "b"));
    assert_int_equal(room_memory_find(m, "a")->seq, 1);
    assert_int_equal(room_memory_find(m, "c")->seq, 3);
    assert_int_equal(room_memory_of(m, "b")->seq, 0);
    room_memory_free(m);
}

static void memory_holds_as_many_as_it_was_made_for(void **state)
{
    (void)state;
    enum { MAX = 200, ALL = 1000 };
    struct room_memory *m = room_memory_new(MAX);
    char name[16];
    for (int i = 0; i < ALL; i++) {
        (void)snprintf(name, sizeof name, "event-%d", i);
        room_memory_of(m, name)->seq = i;
    }
    int known = 0;
    for (int i = 0; i < ALL; i++) {
        (void)snprintf(name, sizeof name, "event-%d", i);
        const struct room_known *k = room_memory_find(m, name);
        assert_true((k != NULL) == (i >= ALL - MAX));
        if (k)
            assert_int_equal(k->seq, i);
        known += k != NULL;
    }
    assert_int_equal(known, MAX);
    room_memory_free(m);
}

static void reads_where_a_user_stands(void **state)
{
    (void)state;
    struct room_visit v;
    assert_true(room_reply_visit(
        REPLY("92000", "7", "5", "3", "10", "queued", "2", "0", "790273982464007", ""), &v));
    assert_int_equal(v.status, ROOM_QUEUED);
    assert_int_equal(v.position, 2);
    assert_int_equal(v.queue_size, 5);
    assert_int_equal(v.active, 3);
    assert_int_equal(v.threshold, 10);
    assert_int_equal(v.place_epoch, 92000);
    assert_int_equal(v.number, 7);
    assert_true(
        room_reply_visit(REPLY("1", "0", "5", "3", "-1", "closed", "0", "0", "0", "sold out"), &v));
    assert_int_equal(v.status, ROOM_CLOSED);
    assert_string_equal(v.reason, "sold out");
    assert_int_equal(v.threshold, -1);
    assert_true(room_reply_is_visit(REPLY("visit")));
    assert_false(room_reply_is_visit(REPLY("visit", "1")));
    assert_false(room_reply_is_visit(REPLY("visi")));
    assert_false(room_reply_is_visit(NULL));
}

static void refuses_replies_of_another_shape(void **state)
{
    (void)state;
    struct room_visit v;
    struct room_view w;
    struct room_tier1 t;
    struct room_pass p;
    struct room_watch watch;
    struct room_admitted admitted[ROOM_ADMIT_MAX];
    struct room_watched watched[ROOM_WATCH_MAX];
    assert_false(room_reply_visit(NULL, &v));
    assert_false(room_reply_visit(REPLY("visit"), &v));
    assert_false(room_reply_visit(REPLY("1", "2", "3", "4", "5", "queued", "1", "0", "9"), &v));
    assert_false(
        room_reply_visit(REPLY("1", "2", "3", "4", "5", "queued", "1", "0", "9", "", "x"), &v));
    assert_false(room_reply_visit(REPLY("1", "2", "3", "4", "5", "lost", "1", "0", "9", ""), &v));
    assert_false(room_reply_visit(REPLY("1", "2", "3", "4", "x", "queued", "1", "0", "9", ""), &v));
    assert_false(room_reply_leave(REPLY("1", "2", "3", "4", "5"), &v));
    assert_false(room_reply_view(REPLY("1", "2", "3", "4", "5"), &w));
    assert_false(room_reply_tier1(REPLY("1", "2", "3", "4", "5", "2", "0", "0", ""), true, &t));
    assert_false(
        room_reply_admit(REPLY("1", "2", "3", "4", "5", "0", "0", "0", "0", "u"), admitted, &p));
    assert_false(
        room_reply_watch(REPLY("1", "2", "3", "4", "5", "", "queued", "1"), watched, &watch));
}

static void reads_passes_and_their_users(void **state)
{
    (void)state;
    struct room_pass p;
    struct room_admitted list[ROOM_ADMIT_MAX];
    assert_true(room_reply_admit(
        REPLY("1", "2", "3", "4", "5", "0", "6", "7", "1", "anna", "99", "bert", "98"), list, &p));
    assert_int_equal(p.admitted_count, 2);
    assert_string_equal(p.admitted[1].user, "bert");
    assert_int_equal(p.admitted[1].expiry_ms, 98);
    assert_true(p.more && !p.paced && p.ended == 6 && p.parked == 7);
    assert_true(room_reply_clean(REPLY("1", "2", "3", "4", "5", "8", "9", "0"), &p));
    assert_true(p.moved == 8 && p.forgotten == 9 && !p.more);
    assert_true(room_reply_clear(REPLY("1", "2", "3", "4", "5", "500", "1"), &p));
    assert_true(p.moved == 500 && p.more);
}

static void more_users_than_fit_are_no_reply_of_ours(void **state)
{
    (void)state;
    const char *words[MANY];
    size_t count = 0;
    for (; count < 9; count++)
        words[count] = "0";
    while (count < 9 + 2 * (ROOM_ADMIT_MAX + 1))
        words[count++] = "7";
    struct room_pass p;
    struct room_admitted list[ROOM_ADMIT_MAX];
    assert_false(room_reply_admit(reply(&made, words, count), list, &p));
    assert_true(room_reply_admit(reply(&made, words, count - 2), list, &p));
    assert_int_equal(p.admitted_count, ROOM_ADMIT_MAX);
}

static void reads_views_tier1_and_watchers(void **state)
{
    (void)state;
    struct room_view v;
    assert_true(room_reply_view(
        REPLY("1", "2", "3", "4", "5", "1", "6", "7", "0", "why", "8", "t", "a", "1", "9", "1"),
        &v));
    assert_true(v.room_active && v.serving == 6 && v.parked == 7 && !v.paused && v.closed);
    assert_true(v.opens_at_ms == 8 && v.registered && v.admitted_last_minute == 9 && v.restoring);
    assert_true(v.threshold == 5 && v.last_number == 2);
    struct room_tier1 t;
    assert_true(room_reply_tier1(REPLY("1", "2", "3", "4", "5", "1", "6", "7", ""), true, &t));
    assert_true(t.active && t.serving == 6 && t.number == 7 && t.moved == 0 && t.epoch == 1);
    assert_true(
        room_reply_tier1(REPLY("1", "2", "3", "4", "5", "0", "6", "7", "sold out"), false, &t));
    assert_true(!t.active && t.number == 0 && t.moved == 7);
    struct room_watch w;
    struct room_watched list[ROOM_WATCH_MAX];
    assert_true(room_reply_watch(
        REPLY("1", "2", "3", "4", "5", "", "gone", "0", "0", "queued", "4", "0"), list, &w));
    assert_true(w.count == 2 && w.users[0].status == ROOM_NOT_IN_QUEUE && w.users[1].position == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_of_their_alphabet_and_length),
        cmocka_unit_test(settings_have_names_and_bounds),
        cmocka_unit_test(memory_forgets_the_longest_unused_only),
        cmocka_unit_test(memory_holds_as_many_as_it_was_made_for),
        cmocka_unit_test(reads_where_a_user_stands),
        cmocka_unit_test(refuses_replies_of_another_shape),
        cmocka_unit_test(reads_passes_and_their_users),
        cmocka_unit_test(more_users_than_fit_are_no_reply_of_ours),
        cmocka_unit_test(reads_views_tier1_and_watchers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

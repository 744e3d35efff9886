/* The room's typed calls against a real Redis, which forgets, freezes and dies. */
#include "server_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-core/room.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/redis.h"

enum { PATIENCE_MS = 20000, CROWD = 2000, TEXT = 300 };

/* One instance of the daemon: a client, a room, and what it was told last. */
struct bench {
    struct loop *loop;
    struct redis *redis;
    struct room *room;
    enum redis_state state;
    struct loop_timer *watch;
    int64_t give_up_ms;
    int accepted, calls, failures;
    int by_status[ROOM_PARKED + 1];
    struct room_visit visit;
    struct room_pass pass;
    struct room_view view;
    struct room_tier1 tier1;
    struct room_watch watched;
    struct room_watched stands[4];
    char reason[TEXT], title[TEXT], first[TEXT];
};

static void control(const char *action)
{
    server_control(action, "redis");
}

static void on_state(enum redis_state state, const char *reason, void *arg)
{
    (void)reason;
    ((struct bench *)arg)->state = state;
}

static void on_watch(void *arg)
{
    struct bench *b = arg;
    if ((b->calls == b->accepted && b->state >= REDIS_UNSAFE) || clock_mono_ms() > b->give_up_ms)
        loop_stop(b->loop);
}

/* Until every accepted call was answered and Redis is there. */
static void settle(struct bench *b)
{
    struct fault f;
    b->give_up_ms = clock_mono_ms() + PATIENCE_MS;
    loop_timer_start(b->watch, 0, 1);
    assert_int_equal(loop_run(b->loop, &f), 0);
    loop_timer_stop(b->watch);
    assert_int_equal(b->calls, b->accepted);
}

static void on_visit(const struct room_visit *v, void *arg)
{
    struct bench *b = arg;
    b->calls++;
    b->visit = *v;
    b->failures += v->rc != 0;
    if (v->rc == 0) {
        b->by_status[v->status]++;
        (void)snprintf(b->reason, sizeof b->reason, "%s", v->reason);
    } else {
        assert_true(v->text && v->text[0]);
    }
}

static void on_pass(const struct room_pass *p, void *arg)
{
    struct bench *b = arg;
    b->calls++;
    b->pass = *p;
    b->failures += p->rc != 0;
    (void)snprintf(b->first, sizeof b->first, "%s", p->admitted_count ? p->admitted[0].user : "");
}

static void on_view(const struct room_view *v, void *arg)
{
    struct bench *b = arg;
    b->calls++;
    b->view = *v;
    b->failures += v->rc != 0;
    (void)snprintf(b->title, sizeof b->title, "%s", v->rc ? "" : v->title);
}

static void on_tier1(const struct room_tier1 *t, void *arg)
{
    struct bench *b = arg;
    b->calls++;
    b->tier1 = *t;
    b->failures += t->rc != 0;
}

static void on_watched(const struct room_watch *w, void *arg)
{
    struct bench *b = arg;
    b->calls++;
    b->watched = *w;
    for (int64_t i = 0; i < w->count && i < 4; i++)
        b->stands[i] = w->users[i];
}

static void open_bench(struct bench *b, int64_t clock_offset_ms)
{
    struct fault f;
    struct redis_options o = {.url = need("URR_TEST_REDIS_URL"), .on_state = on_state, .arg = b};
    struct room_rules rules = ROOM_RULES;
    rules.threshold = 3;
    rules.clock_offset_ms = clock_offset_ms;
    *b = (struct bench){0};
    assert_int_equal(loop_new(&b->loop, &f), 0);
    assert_int_equal(loop_timer_new(b->loop, on_watch, b, &b->watch, &f), 0);
    assert_int_equal(redis_open(b->loop, &o, &b->redis, &f), 0);
    assert_int_equal(room_new(b->redis, &rules, &b->room, &f), 0);
    settle(b);
}

static void close_bench(struct bench *b)
{
    redis_close(b->redis);
    assert_int_equal(b->calls, b->accepted);
    room_free(b->room);
    loop_timer_free(b->watch);
    loop_free(b->loop);
}

static void join(struct bench *b, const char *event, const char *user,
                 const struct room_shown *shown)
{
    struct fault f;
    assert_int_equal(room_join(b->room, event, user, shown, on_visit, b, &f), 0);
    b->accepted++;
}

static const struct room_visit *joined(struct bench *b, const char *event, const char *user)
{
    join(b, event, user, NULL);
    settle(b);
    assert_int_equal(b->visit.rc, 0);
    return &b->visit;
}

static const struct room_visit *polled(struct bench *b, const char *event, const char *user,
                                       const struct room_shown *shown)
{
    struct fault f;
    assert_int_equal(room_poll(b->room, event, user, shown, on_visit, b, &f), 0);
    b->accepted++;
    settle(b);
    return &b->visit;
}

static void configure(struct bench *b, const char *event, const char *name, const char *value)
{
    struct fault f;
    struct room_setting settings[] = {{name, value}, {NULL, NULL}};
    assert_int_equal(room_configure(b->room, event, "op", settings, on_view, b, &f), 0);
    b->accepted++;
    settle(b);
    assert_int_equal(b->view.rc, 0);
}

static const struct room_pass *admitted(struct bench *b, const char *event)
{
    struct fault f;
    assert_int_equal(room_admit(b->room, event, on_pass, b, &f), 0);
    b->accepted++;
    settle(b);
    assert_int_equal(b->pass.rc, 0);
    return &b->pass;
}

static const struct room_view *looked(struct bench *b, const char *event)
{
    struct fault f;
    assert_int_equal(room_look(b->room, event, on_view, b, &f), 0);
    b->accepted++;
    settle(b);
    assert_int_equal(b->view.rc, 0);
    return &b->view;
}

static void on_flushed(const struct redis_result *res, void *arg)
{
    assert_int_equal(res->rc, 0);
    ((struct bench *)arg)->calls++;
}

static void flush(struct bench *b)
{
    struct fault f;
    assert_int_equal(
        redis_command(b->redis, NULL, REDIS_ARGS(REDIS_STR("FLUSHALL")), 5000, on_flushed, b, &f),
        0);
    b->accepted++;
    settle(b);
}

static void a_user_goes_through_the_whole_room(void **state)
{
    (void)state;
    struct bench b;
    struct fault f;
    open_bench(&b, 0);
    flush(&b);
    assert_int_equal(polled(&b, "walk", "d", NULL)->status, ROOM_NOT_IN_QUEUE);
    for (const char *user = "abc"; *user; user++)
        assert_int_equal(joined(&b, "walk", (char[]){*user, 0})->status, ROOM_ACTIVE);
    const struct room_visit *v = joined(&b, "walk", "d");
    assert_int_equal(v->status, ROOM_QUEUED);
    assert_int_equal(v->position, 1);
    assert_int_equal(v->number, 4);
    assert_true(v->place_epoch > 90000);
    assert_int_equal(v->threshold, 3);
    assert_int_equal(polled(&b, "walk", "d", NULL)->position, 1);
    assert_int_equal(b.visit.number, 4);
    assert_int_equal(b.visit.threshold, -1); /* by the cheap script */
    assert_int_equal(room_leave(b.room, "walk", "a", NULL, "left", on_visit, &b, &f), 0);
    b.accepted++;
    settle(&b);
    assert_int_equal(b.visit.status, ROOM_ACTIVE);
    assert_int_equal(admitted(&b, "walk")->admitted_count, 1);
    assert_string_equal(b.first, "d");
    assert_true(admitted(&b, "walk")->paced);
    assert_int_equal(polled(&b, "walk", "d", NULL)->status, ROOM_ACTIVE);
    assert_true(b.visit.expiry_ms > clock_wall_ms());
    joined(&b, "walk", "e");
    const char *users[] = {"e", "d", "ghost"};
    assert_int_equal(room_watch(b.room, "walk", users, 3, on_watched, &b, &f), 0);
    b.accepted++;
    settle(&b);
    assert_int_equal(b.watched.count, 3);
    assert_true(b.stands[0].status == ROOM_QUEUED && b.stands[0].position == 1);
    assert_true(b.stands[1].status == ROOM_ACTIVE && b.stands[2].status == ROOM_NOT_IN_QUEUE);
    configure(&b, "walk", "closed", "1");
    assert_int_equal(polled(&b, "walk", "e", NULL)->status, ROOM_CLOSED);
    assert_string_equal(b.reason, "closed");
    assert_int_equal(room_clear(b.room, "walk", "op", on_pass, &b, &f), 0);
    b.accepted++;
    settle(&b);
    assert_true(b.pass.rc == 0 && b.pass.moved == 4 && !b.pass.more);
    assert_int_equal(room_clean(b.room, "walk", true, on_pass, &b, &f), 0);
    b.accepted++;
    settle(&b);
    assert_int_equal(b.pass.rc, 0);
    close_bench(&b);
}

static void settings_are_checked_stored_and_seen(void **state)
{
    (void)state;
    struct bench b;
    struct fault f;
    open_bench(&b, 0);
    flush(&b);
    configure(&b, "set", "title", "Love, Poem");
    configure(&b, "set", "threshold", "77");
    assert_int_equal(b.view.threshold, 77);
    assert_int_equal(looked(&b, "set")->threshold, 77);
    assert_string_equal(b.title, "Love, Poem");
    struct room_setting bad[] = {{"threshold", "many"}, {NULL, NULL}};
    assert_int_equal(room_configure(b.room, "set", "op", bad, on_view, &b, &f), RC_REJECT);
    assert_int_equal(room_join(b.room, "{set}", "a", NULL, on_visit, &b, &f), RC_REJECT);
    assert_int_equal(room_join(b.room, "set", "a b", NULL, on_visit, &b, &f), RC_REJECT);
    assert_int_equal(room_clear(b.room, "set", "", on_pass, &b, &f), RC_REJECT);
    const char *users[] = {"a", "{}"};
    assert_int_equal(room_watch(b.room, "set", users, 2, on_watched, &b, &f), RC_REJECT);
    assert_int_equal(room_watch(b.room, "set", users, ROOM_WATCH_MAX + 1, on_watched, &b, &f),
                     RC_REJECT);
    close_bench(&b);
}

static void tier_one_gives_numbers_and_is_remembered(void **state)
{
    (void)state;
    struct bench b;
    struct fault f;
    struct room_known known;
    open_bench(&b, 0);
    flush(&b);
    assert_false(room_recall(b.room, "vwr", &known));
    assert_int_equal(room_operate(b.room, "vwr", ROOM_ACTIVATE, "op", 0, on_tier1, &b, &f), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(room_assign(b.room, "vwr", on_tier1, &b, &f), 0);
    b.accepted += 6;
    settle(&b);
    assert_true(b.tier1.active && b.tier1.number == 5 && b.tier1.serving == 0);
    assert_int_equal(room_operate(b.room, "vwr", ROOM_ADVANCE, "op", 3, on_tier1, &b, &f), 0);
    assert_int_equal(room_serve(b.room, "vwr", on_tier1, &b, &f), 0);
    b.accepted += 2;
    settle(&b);
    assert_true(room_recall(b.room, "vwr", &known));
    assert_true(known.room_active && known.serving >= 3 && known.seq == 5 && known.threshold == 3);
    assert_int_equal(joined(&b, "vwr", "a")->status, ROOM_NEED_TIER1);
    struct room_shown shown = {.tier1_epoch = known.epoch, .tier1_number = 2};
    join(&b, "vwr", "a", &shown);
    settle(&b);
    assert_true(b.visit.status == ROOM_ACTIVE && b.visit.number == 2);
    close_bench(&b);
}

static void two_thousand_at_once_and_exactly_the_threshold_inside(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b, 0);
    flush(&b);
    configure(&b, "rush", "threshold", "100");
    for (int i = 0; i < CROWD; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "u%d", i);
        join(&b, "rush", user, NULL);
    }
    settle(&b);
    assert_int_equal(b.failures, 0);
    assert_int_equal(b.by_status[ROOM_ACTIVE], 100);
    assert_int_equal(b.by_status[ROOM_QUEUED], CROWD - 100);
    close_bench(&b);
}

static void a_forgetful_redis_is_reminded_by_memory_and_places(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b, 0);
    flush(&b);
    configure(&b, "lost", "threshold", "1");
    const char *users[] = {"a", "b", "c", "d"};
    struct room_shown shown[4] = {{0}};
    for (int i = 0; i < 4; i++) {
        const struct room_visit *v = joined(&b, "lost", users[i]);
        shown[i] = (struct room_shown){.place_epoch = v->place_epoch,
                                       .place_number = v->number,
                                       .token_expiry_ms = v->expiry_ms};
    }
    int64_t epoch = shown[0].place_epoch, slot = shown[0].token_expiry_ms;
    flush(&b);
    assert_int_equal(joined(&b, "lost", "new")->status, ROOM_QUEUED); /* nobody is let in now */
    assert_true(b.visit.place_epoch > epoch && b.visit.number == 5 && b.visit.threshold == 1);
    for (int i = 3; i >= 0; i--)
        polled(&b, "lost", users[i], &shown[i]);
    assert_true(b.visit.status == ROOM_ACTIVE && b.visit.expiry_ms == slot);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(polled(&b, "lost", users[i], NULL)->position, i);
        assert_int_equal(b.visit.number, i + 1);
    }
    assert_int_equal(polled(&b, "lost", "new", NULL)->position, 4);
    assert_true(looked(&b, "lost")->restoring);
    close_bench(&b);
}

static void a_restarted_redis_is_noticed_by_its_run_id(void **state)
{
    (void)state;
    struct bench b;
    struct room_known before, after;
    open_bench(&b, 0);
    flush(&b);
    joined(&b, "again", "a");
    assert_true(room_recall(b.room, "again", &before));
    control("restart");
    b.state = REDIS_DOWN;
    settle(&b);
    assert_true(looked(&b, "again")->restoring);
    assert_true(room_recall(b.room, "again", &after) && after.epoch > before.epoch);
    assert_int_equal(polled(&b, "again", "a", NULL)->status, ROOM_ACTIVE);
    close_bench(&b);
}

static void every_call_is_answered_once_while_redis_dies(void **state)
{
    (void)state;
    struct bench b;
    struct fault f;
    open_bench(&b, 0);
    flush(&b);
    for (int i = 0; i < 200; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "u%d", i);
        join(&b, "dying", user, NULL);
        assert_int_equal(room_poll(b.room, "dying", user, NULL, on_visit, &b, &f), 0);
        b.accepted++;
    }
    control("kill");
    b.give_up_ms = clock_mono_ms() + 4000; /* past the deadline of every call */
    loop_timer_start(b.watch, 4000, 10);
    assert_int_equal(loop_run(b.loop, &f), 0);
    assert_int_equal(b.calls, b.accepted);
    assert_int_equal(b.failures, 400); /* nothing had been sent yet */
    assert_int_equal(b.visit.rc, RC_RETRY);
    control("start");
    settle(&b);
    close_bench(&b);
}

static void closing_answers_what_is_under_way(void **state)
{
    (void)state;
    struct bench b;
    struct fault f;
    open_bench(&b, 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(room_poll(b.room, "close", "a", NULL, on_visit, &b, &f), 0);
        assert_int_equal(room_look(b.room, "close", on_view, &b, &f), 0);
    }
    b.accepted += 100;
    assert_int_equal(b.calls, 0); /* never from inside the call */
    close_bench(&b);
    assert_int_equal(b.failures, 100);
}

static void a_moved_clock_ends_slots(void **state)
{
    (void)state;
    struct bench now, later;
    open_bench(&now, 0);
    flush(&now);
    joined(&now, "time", "a");
    open_bench(&later, 601000);
    assert_int_equal(polled(&later, "time", "a", NULL)->status, ROOM_NOT_IN_QUEUE);
    close_bench(&later);
    close_bench(&now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_goes_through_the_whole_room),
        cmocka_unit_test(settings_are_checked_stored_and_seen),
        cmocka_unit_test(tier_one_gives_numbers_and_is_remembered),
        cmocka_unit_test(two_thousand_at_once_and_exactly_the_threshold_inside),
        cmocka_unit_test(a_forgetful_redis_is_reminded_by_memory_and_places),
        cmocka_unit_test(a_restarted_redis_is_noticed_by_its_run_id),
        cmocka_unit_test(every_call_is_answered_once_while_redis_dies),
        cmocka_unit_test(closing_answers_what_is_under_way),
        cmocka_unit_test(a_moved_clock_ends_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

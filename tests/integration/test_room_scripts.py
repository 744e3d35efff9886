"""One table of cases per script of the waiting room, against a real Redis."""
import pytest
import redis
from room_kit import DAY, KEYS, LINE_END, RULES, TWO33, Clock, Follower, Instance, Sets, Shown, key, score

E = "ev-1"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def one(redis_url, clock):
    return Instance(redis_url, clock)


def sets(instance, event=E):
    found = Sets.read(instance.redis, event)
    found.check()
    return found


def fill(instance, count, prefix="u", event=E):
    """`count` users join; returns what each was told."""
    return {f"{prefix}{i}": instance.join(event, f"{prefix}{i}") for i in range(1, count + 1)}


def tick(instance, clock, seconds=1, event=E, awake=()):
    """The clock goes on second by second as it does beside a running daemon."""
    admitted = {}
    for _ in range(seconds):
        clock.move(1)
        for user in awake:
            instance.poll(event, user)
        admitted.update(instance.admit(event)[4])
    return admitted


def admit_now(instance, clock, event=E):
    """One call that the pace does not hold back. The scripts' time is the server's at the moment they run, moved
    by an offset that was taken a moment earlier: on a busy machine one call may see an earlier time than the last
    one did, which no server's clock does by itself, and then `more at once` is not yet due."""
    while True:
        answer = instance.admit(event)
        if not answer[0]:
            return answer
        clock.move(0.01)


# visit ----------------------------------------------------------------------------------------------

def test_the_first_ones_go_straight_in_and_the_others_queue(one, clock):
    told = fill(one, 5)
    assert [told[f"u{i}"].status for i in range(1, 6)] == ["active"] * 3 + ["queued"] * 2
    assert told["u1"].expiry // 1000 == (clock.now + RULES["activeTtl"]) // 1000
    assert (told["u4"].position, told["u5"].position, told["u5"].queue, told["u5"].active) == (1, 2, 2, 3)
    assert [place % TWO33 for place in sets(one).queue.values()] == [4, 5]


def test_joining_again_changes_nothing(one):
    told = fill(one, 5)
    assert one.join(E, "u5") == told["u5"]
    assert one.join(E, "u1").expiry == told["u1"].expiry
    assert one.redis.get(key(E, "seq")) == "5"


def test_asking_does_not_join(one):
    assert one.poll(E, "u1").status == "not_in_queue"
    assert one.redis.exists(key(E, "queue"), key(E, "active")) == 0


def test_a_free_slot_behind_waiting_people_is_not_for_newcomers(one):
    fill(one, 4)
    one.leave(E, "u1")
    assert one.join(E, "new").status == "queued"


@pytest.mark.parametrize("settings", [{"paused": 1}, {"opensAt": 1 << 42}, {"threshold": 0}])
def test_nobody_goes_straight_in_while(one, settings):
    one.configure(E, **settings)
    assert one.join(E, "u1").status == "queued"
    assert one.admit(E)[4] == {}


def test_the_opening_time_opens(one, clock):
    one.configure(E, opensAt=clock.now + 5500)
    fill(one, 4)
    assert tick(one, clock, 5) == {}
    assert list(tick(one, clock, 1)) == ["u1", "u2"]


def test_a_slot_past_its_end_is_over_also_before_the_sweep(one, clock):
    fill(one, 1)
    clock.move(101)
    assert one.poll(E, "u1").status == "not_in_queue"
    assert one.join(E, "u1").place % TWO33 == 2


def test_closed_is_told_to_those_who_wait_and_those_who_come_but_not_to_those_inside(one):
    fill(one, 4)
    one.configure(E, closed=1, closedReason="sold out")
    assert one.poll(E, "u4").status == one.join(E, "new").status == "closed"
    assert one.poll(E, "u4").detail == one.join(E, "u4").detail == "sold out"
    assert one.poll(E, "u1").status == "active"
    assert one.join(E, "x").place == 0 and "x" not in sets(one).queue
    one.configure(E, closed="", closedReason="")
    assert one.poll(E, "u4").status == "queued"


def test_a_full_queue_refuses_newcomers_only(one):
    one.configure(E, maxLength=2)
    told = fill(one, 6)
    assert [told[f"u{i}"].status for i in range(1, 7)] == ["active"] * 3 + ["queued"] * 2 + ["full"]
    assert one.poll(E, "u4").status == "queued" and one.redis.get(key(E, "seq")) == "5"


def test_too_long_a_wait_refuses_newcomers_by_the_measured_rate(one, clock):
    one.configure(E, maxWait=60_000)
    fill(one, 6)
    # Three admissions in the last minute: three waiting are a minute, a fourth would be more.
    assert one.join(E, "u7").status == "queued"
    assert one.join(E, "u8").status == "too_long"


# Tier 1 numbers -------------------------------------------------------------------------------------

def test_an_active_room_wants_its_numbers(one):
    one.room(E, "activate")
    assert one.join(E, "u1").status == "need_tier1"
    _, _, place = one.assign(E)
    assert one.join(E, "u1", Shown(tier1=place)).status == "active"
    assert one.join(E, "u1").status == "active"
    assert one.join(E, "u2", Shown(tier1=place)).status == "need_tier1"


def test_one_number_brought_by_a_thousand_helps_one(one):
    one.configure(E, threshold=0)
    one.room(E, "activate")
    _, _, place = one.assign(E)
    statuses = [one.join(E, f"u{i}", Shown(tier1=place)).status for i in range(1000)]
    assert statuses == ["queued"] + ["need_tier1"] * 999
    one.room(E, "deactivate")
    assert one.join(E, "u7", Shown(tier1=place)).place % TWO33 == 2  # the next number, not the shared one


def test_a_tier1_number_keeps_its_place_in_the_line(one):
    one.configure(E, threshold=0)
    one.room(E, "activate")
    early = one.assign(E)[2]
    late = one.assign(E)[2]
    one.room(E, "deactivate")
    one.join(E, "walk-in")
    one.join(E, "late", Shown(tier1=late))
    one.join(E, "early", Shown(tier1=early))
    assert list(sets(one).queue) == ["early", "late", "walk-in"]


def test_a_number_whose_owner_left_is_gone(one):
    one.configure(E, threshold=0)
    one.room(E, "activate")
    place = one.assign(E)[2]
    one.join(E, "u1", Shown(tier1=place))
    one.leave(E, "u1")
    assert one.join(E, "u1", Shown(tier1=place)).status == "need_tier1"


# poll -----------------------------------------------------------------------------------------------

def copy_event(instance, source, target):
    for name in KEYS:
        instance.redis.copy(key(source, name), key(target, name), replace=True)
    instance.memory[target] = list(instance.memory[source])


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("who", ["inside", "promoted", "waiting", "parked", "over", "left", "stranger"])
def test_poll_does_what_visit_does(one, clock, who, closed):
    for user in ("over", "inside", "third", "left", "parked", "promoted", "waiting"):
        one.join(E, user)
    tick(one, clock, 45, awake=["over", "inside", "third", "left", "promoted", "waiting"])
    one.leave(E, "left")
    one.configure(E, threshold=4)
    tick(one, clock, 1)
    one.redis.zadd(key(E, "active"), {"over": clock.now - 1000})  # over, and not yet swept
    found = sets(one)
    assert (set(found.queue), set(found.parked), set(found.active)) == (
        {"waiting"}, {"parked"}, {"inside", "third", "over", "promoted"})
    if closed:
        one.configure(E, closed=1, closedReason="why")
    copy_event(one, E, "copy")
    by_visit, by_poll = one.visit(E, who), one.poll("copy", who)
    if by_poll.threshold == -1:
        by_poll.threshold = by_visit.threshold
    if by_poll.status == "active":
        by_poll.place = by_visit.place
    assert by_poll == by_visit
    left, right = Sets.read(one.redis, E), Sets.read(one.redis, "copy")
    for part in left.extra.values(), right.extra.values():
        for group in part:
            for user, at in list(group.items()):
                if isinstance(at, float):
                    group[user] = at // 400  # milliseconds passed between the two calls
    assert left == right


# admit ----------------------------------------------------------------------------------------------

def test_admission_keeps_its_pace_whoever_calls(redis_url, clock):
    a, b = Instance(redis_url, clock), Instance(redis_url, clock)
    a.configure(E, threshold=0)
    fill(a, 9)
    a.configure(E, threshold=9)
    assert list(a.admit(E)[4]) == ["u1", "u2"]
    assert b.admit(E)[0] == 1 and b.admit(E)[4] == {}
    clock.move(1)
    assert list(b.admit(E)[4]) == ["u3", "u4"]
    assert a.admit(E)[0] == 1


def test_lowering_the_threshold_sends_nobody_away_and_lets_nobody_in(one, clock):
    fill(one, 6)
    one.configure(E, threshold=1)
    assert one.join(E, "u1").status == "active" and len(sets(one).active) == 3
    one.leave(E, "u1")
    assert tick(one, clock, 2, awake=["u2", "u3"]) == {}
    one.leave(E, "u2")
    one.leave(E, "u3")
    assert list(tick(one, clock, 2)) == ["u4"]


def test_an_expired_slot_frees_its_room_and_its_place_is_final(one, clock):
    told = fill(one, 4)
    admitted = tick(one, clock, 101, awake=["u1", "u2", "u3", "u4"])
    assert list(admitted) == ["u4"]
    assert one.poll(E, "u1", Shown(place=told["u1"].place)).status == "not_in_queue"


def test_a_silent_slot_ends_and_a_hold_keeps_it(one, clock):
    fill(one, 3)
    one.redis.zadd(key(E, "holds"), {"u2": clock.now + DAY})
    tick(one, clock, 50, awake=["u1"])
    assert set(sets(one).active) == {"u1", "u2"}


def test_idle_zero_means_never(one, clock):
    one.configure(E, idle=0)
    fill(one, 3)
    tick(one, clock, 95)
    assert len(sets(one).active) == 3


def test_a_silent_head_is_parked_with_its_place_and_comes_back_to_it(one, clock):
    one.configure(E, threshold=0)
    told = fill(one, 5)
    tick(one, clock, 45, awake=["u2", "u3", "u4", "u5"])
    one.configure(E, threshold=1)
    assert list(tick(one, clock, 1)) == ["u2"]
    assert sets(one).parked == {"u1": told["u1"].place}
    back = one.poll(E, "u1")
    assert (back.status, back.position, back.place) == ("queued", 1, told["u1"].place)


def test_a_promotion_nobody_claims_is_parked_with_its_place(one, clock):
    one.configure(E, threshold=0)
    told = fill(one, 2)
    tick(one, clock, 45, awake=["u1", "u2"])
    one.configure(E, threshold=1)
    assert list(tick(one, clock, 1)) == ["u1"]
    tick(one, clock, 20, awake=["u2"])
    assert "u1" in sets(one).active
    assert list(tick(one, clock, 1, awake=["u2"])) == ["u2"]
    assert sets(one).parked == {"u1": told["u1"].place}
    assert one.poll(E, "u1").position == 1


def test_a_claimed_promotion_stays(one, clock):
    one.configure(E, threshold=0)
    fill(one, 1)
    one.configure(E, threshold=1)
    tick(one, clock, 1)
    one.watch(E, "u1")
    assert sets(one).extra["unclaimed"] == {}


def test_a_thousand_silent_heads_do_not_cost_an_interval_each(one, clock):
    one.configure(E, threshold=0)
    fill(one, 1200)
    one.join(E, "awake")
    tick(one, clock, 45, awake=["awake"])
    one.configure(E, threshold=5)
    clock.move(1)
    calls = []
    while True:
        calls.append(admit_now(one, clock))
        if not calls[-1][3]:
            break
    assert [call[2] for call in calls] == [500, 500, 200]
    assert list(calls[-1][4]) == ["awake"]


def test_a_batch_cut_by_the_step_limit_is_not_exceeded(one, clock):
    one.configure(E, threshold=0, batch=3)
    fill(one, 501)
    awake = ["u1", "u501"]
    tick(one, clock, 45, awake=awake)
    more = [f"v{i}" for i in range(8)]
    for user in more:
        one.join(E, user)
    one.configure(E, threshold=100)
    clock.move(1)
    first, second = admit_now(one, clock), admit_now(one, clock)
    assert (list(first[4]), first[3]) == (["u1"], 1)
    assert (list(second[4]), second[3]) == (["u501", "v0"], 0)
    assert one.admit(E)[0] == 1


# clean ----------------------------------------------------------------------------------------------

def run_cleaned(one, clock, seconds, awake=()):
    for _ in range(seconds):
        tick(one, clock, 1, awake=awake)
        one.clean(E)


def test_the_silent_leave_the_counts_and_keep_their_right_for_a_day(one, clock):
    one.configure(E, threshold=0)
    told = fill(one, 3)
    run_cleaned(one, clock, 130, awake=["u2"])
    assert list(sets(one).queue) == ["u2"] and set(sets(one).parked) == {"u1", "u3"}
    assert one.poll(E, "u1").place == told["u1"].place
    clock.move(DAY / 1000)
    one.clean(E)
    assert "u3" not in sets(one).parked
    assert one.poll(E, "u3", Shown(place=told["u3"].place)).status == "not_in_queue"


def test_at_most_500_per_step_and_a_pass_repeats_until_done(one, clock):
    one.configure(E, threshold=0)
    fill(one, 1100)
    one.clean(E)
    one.redis.hset(key(E, "state"), mapping={"noEvictUntil": 0, "lastCleanMs": clock.now + 60_000})
    clock.move(66)
    steps = [one.run("clean", E, first) for first in (1, 0, 0)]
    assert [int(step[0]) for step in steps] == [500, 500, 100]
    assert [int(step[2]) for step in steps] == [1, 1, 0]


def test_an_outage_of_601_seconds_evicts_nobody(one, clock):
    one.configure(E, activeTtl=1_000_500)
    told = fill(one, 8)
    run_cleaned(one, clock, 50, awake=told)
    one.leave(E, "u1")
    clock.move(1)
    assert list(one.admit(E)[4]) == ["u4"]  # promoted, and never had the chance to claim it
    before = sets(one)
    clock.move(601)
    one.admit(E)
    assert one.clean(E) == (0, 0)
    after = sets(one)
    assert (after.queue, after.parked, after.active) == (before.queue, before.parked, before.active)
    run_cleaned(one, clock, 39)  # idle slots have 40.5 s to be heard
    assert sets(one).active == before.active
    run_cleaned(one, clock, 2)
    assert sets(one).active == {}  # every slot was silent; and the line moves on
    run_cleaned(one, clock, 20)
    assert sets(one).queue == {} and set(sets(one).parked) <= set(before.queue) | {"u4"}


def test_owners_are_forgotten_a_day_after_the_event_emptied(one, clock):
    fill(one, 1)
    one.leave(E, "u1")
    one.clean(E)
    clock.move(DAY / 1000 - 10)
    one.clean(E)
    assert one.redis.exists(key(E, "pos-owner")) == 1
    clock.move(20)
    one.clean(E)
    assert one.redis.exists(key(E, "pos-owner")) == 0


# leave, clear, configure, view, watch ---------------------------------------------------------------

def test_leaving_is_final_from_everywhere(one, clock):
    told = fill(one, 5)
    tick(one, clock, 45, awake=["u1", "u2", "u3", "u5"])
    one.leave(E, "u1", "sold")
    tick(one, clock, 1, awake=["u2", "u3"])  # parks u4, promotes u5
    assert [one.leave(E, u) for u in ("u4", "u5", "u1", "nobody")] == [
        "parked", "active", "not_in_queue", "not_in_queue"]
    one.configure(E, threshold=0)
    one.join(E, "u6")
    assert one.leave(E, "u6") == "queued"
    for user in ("u1", "u4", "u5"):
        assert one.poll(E, user, Shown(place=told[user].place)).status == "not_in_queue"
    assert set(sets(one).active) == {"u2", "u3"}


def test_clear_takes_everybody_at_most_500_at_a_time(one, clock):
    one.configure(E, threshold=3)
    told = fill(one, 1300)
    tick(one, clock, 45, awake=["u1", "u2"])  # u3's slot ends, and the silent heads are parked
    assert len(sets(one).parked) > 500
    assert [int(part) for part in one.run("clear", E, "op")] == [500, 1]
    assert one.clear(E) == 799
    found = sets(one)
    assert (found.queue, found.parked, found.active) == ({}, {}, {})
    assert one.poll(E, "u9", Shown(place=told["u9"].place)).status == "not_in_queue"
    assert one.join(E, "u9").place % TWO33 == 1301


def test_view_tells_what_was_configured(one, clock):
    one.configure(E, title="Love, Poem", artist="IU", registered=1, paused=1, opensAt=77)
    seen = one.view(E)
    assert (seen["title"], seen["artist"], seen["registered"], seen["paused"], seen["opensAt"],
            seen["closedReason"]) == ("Love, Poem", "IU", 1, 1, "77", "")
    one.configure(E, title="", paused="", opensAt="")
    seen = one.view(E)
    assert (seen["title"], seen["paused"], seen["opensAt"]) == ("", 0, "0")
    fill(one, 3)
    assert one.view(E)["lastMinute"] == "3"
    clock.move(61)
    assert one.view(E)["lastMinute"] == "0"


def test_watching_is_a_heartbeat_and_brings_the_parked_back(one, clock):
    one.configure(E, threshold=0)
    fill(one, 4)
    tick(one, clock, 45, awake=["u2", "u3"])
    one.configure(E, threshold=1)
    tick(one, clock, 1)
    closed, stands = one.watch(E, "u1", "u2", "u3", "u4", "ghost")
    assert closed == ""
    assert [(s, p) for s, p, _ in stands] == [("queued", 1), ("active", 0), ("queued", 2), ("queued", 3),
                                             ("gone", 0)]
    assert one.queue == 3
    one.configure(E, closed=1)
    assert one.watch(E, "u3")[0] == "closed"


# Tier 1 ---------------------------------------------------------------------------------------------

def test_an_inactive_room_gives_no_numbers_and_activating_starts_behind_those_who_wait(one):
    fill(one, 7)
    assert one.assign(E) == (0, 0, 0)
    assert one.room(E, "activate") == (1, 7, 0)
    assert one.assign(E)[2] % TWO33 == 8
    one.configure(E, closed=1, closedReason="sold out")  # told to the first room too, and no number lost
    assert one.run("assign", E) == [1, "7", 0, "sold out"] and one.run("serve", E)[3] == "sold out"
    one.configure(E, closed="", closedReason="")
    assert one.room(E, "activate")[1] == 7  # an active one is unchanged
    one.room(E, "deactivate")
    fill(one, 9)
    assert one.room(E, "activate")[1] == 10


def test_advancing_never_passes_the_last_number(one):
    one.room(E, "activate")
    for _ in range(5):
        one.assign(E)
    assert one.room(E, "advance", 3) == (1, 3, 3)
    assert one.room(E, "advance", 500) == (1, 5, 2)


def test_serving_moves_smoothly_and_once_for_all_instances(redis_url, clock):
    a, b = Instance(redis_url, clock), Instance(redis_url, clock)
    a.room(E, "activate")
    a.redis.set(key(E, "seq"), 10_000)
    served = []
    for step in range(20):
        clock.move(1)
        served.append((a, b)[step % 2].serve(E)[1])
    steps = [later - earlier for earlier, later in zip(served, served[1:])]
    assert all(45 <= step <= 55 for step in steps) and 990 <= served[-1] <= 1005
    clock.move(3600)
    assert b.serve(E)[2] <= 501  # an outage does not let a crowd through


def test_serving_stands_still_while_paused_or_closed(one, clock):
    one.room(E, "activate")
    one.redis.set(key(E, "seq"), 10_000)
    for settings in ({"paused": 1}, {"paused": "", "closed": 1}):
        one.configure(E, **settings)
        clock.move(5)
        assert one.serve(E)[2] == 0


# the log --------------------------------------------------------------------------------------------

def test_a_snapshot_in_many_parts_misses_nobody_who_moves_meanwhile(redis_url, clock):
    one = Instance(redis_url, clock, {**RULES, "logEvery": 50, "threshold": 300})
    told = fill(one, 1500)
    users = list(told)
    for step in range(3000):
        user = users[step * 7 % len(users)]
        one.leave(E, user) if step % 3 else one.join(E, user)
        if step % 50 == 0:
            late, found = Follower(one.redis, E).follow(), Sets.read(one.redis, E)
            assert (late.queue, late.parked, late.active) == (found.queue, found.parked, found.active)
    kinds = [entry["k"] for _, entry in one.redis.xrange(key(E, "log"))]
    assert kinds.count("snapshot-end") >= 2 and kinds.count("part") > 10


# the whole of it ------------------------------------------------------------------------------------

def test_two_thousand_at_once_and_exactly_a_hundred_inside(redis_url, clock):
    from concurrent.futures import ThreadPoolExecutor
    first = Instance(redis_url, clock)
    first.configure(E, threshold=100)

    def crowd(part):
        instance = Instance(redis_url, clock)
        pipe = instance.redis.pipeline(transaction=False)
        for i in range(250):
            instance.scripts["visit"](keys=instance.keys(E), client=pipe,
                                      args=instance.arguments(E, f"u{part}-{i}", 1, 0, 0, 0))
        pipe.execute()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(crowd, range(8)))
    found = sets(first)
    assert (len(found.active), len(found.queue)) == (100, 1900)
    numbers = sorted(place % TWO33 for part in (found.active, found.queue) for place in part.values())
    assert numbers == list(range(1, 2001))
    assert max(found.active.values()) < min(found.queue.values())


def test_scripts_load_and_refuse_to_run_without_their_keys(one):
    for name, source in one.sources.items():
        one.redis.script_load(source)
    with pytest.raises(redis.ResponseError):
        one.redis.eval(one.sources["visit"], 0)


def test_reserved_numbers_do_not_move_the_line(one):
    one.join(E, "u1")
    epoch = one.memory[E][0]
    one.poll(E, "u9", Shown(place=score(epoch - 1, LINE_END + 5)))
    assert int(one.redis.get(key(E, "seq"))) == 1

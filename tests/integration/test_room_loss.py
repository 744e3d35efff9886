"""Redis loses its memory, its tail, or its whole self: those who come back within the restore time find the
order they left, nobody is inside twice, and newcomers wait behind them."""
import os
import random
import shutil
import subprocess

import pytest
import redis
from harness import process
from room_kit import LINE_END, RULES, TWO33, Clock, Follower, Instance, Sets, Shown, key, score, sources

E = "loss"


class Node:
    """A Redis of the test's own."""

    def __init__(self, folder, *options):
        self.port = process.free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        os.makedirs(folder, exist_ok=True)
        self.child = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "",
             *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.client = redis.Redis(port=self.port, decode_responses=True)
        process.eventually(self.answers, 20, what="Redis")

    def answers(self):
        try:
            return self.client.ping()
        except redis.ConnectionError:
            return False

    def stop(self):
        self.child.kill()
        self.child.wait()


@pytest.fixture
def node(tmp_path):
    started = []

    def start(name, *options):
        started.append(Node(tmp_path / name, *options))
        return started[-1]
    yield start
    for each in started:
        each.stop()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pair(redis_url, clock):
    return [Instance(redis_url, clock) for _ in range(2)]


class Crowd:
    """Users with what their browsers hold: the signed place, and the entry token while inside."""

    def __init__(self, instances, count):
        self.instances = instances
        self.place, self.token = {}, {}
        for i in range(count):
            self.call(f"u{i:03d}", join=True)

    def call(self, user, join=False, instance=None, with_token=True):
        instance = instance or self.instances[len(self.place) % len(self.instances)]
        token = self.token.get(user, 0) if with_token else 0
        shown = Shown(place=self.place.get(user, 0), token=token)
        seen = instance.join(E, user, shown) if join else instance.poll(E, user, shown)
        if seen.place:
            self.place[user] = seen.place
        if seen.status == "active":
            self.token[user] = seen.expiry
        return seen

    def admit(self):
        for user in self.instances[0].admit(E)[4]:
            self.call(user)


def sets(instance):
    found = Sets.read(instance.redis, E)
    found.check()
    return found


def come_back(crowd, seed, **options):
    """Everybody calls once, in any order, through any instance; strangers push in between."""
    dice = random.Random(seed)
    users = list(crowd.place)
    dice.shuffle(users)
    for number, user in enumerate(users):
        crowd.call(user, instance=dice.choice(crowd.instances), **options)
        if number % 10 == 0:
            told = dice.choice(crowd.instances).join(E, f"new{number}")
            assert told.status == "queued", "nobody new is let in while others come back"


def known(users):
    return [user for user in users if user.startswith("u")]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("forgetful", [False, True])
def test_after_flushall_the_order_is_the_order_before(pair, clock, seed, forgetful):
    crowd = Crowd(pair, 40)
    clock.move(1)
    crowd.admit()
    before = sets(pair[0])
    pair[0].redis.flushall()
    if forgetful:  # an instance that has just started sees the empty Redis first, and lets strangers in
        fresh = Instance(pair[0].url, clock)
        assert fresh.join(E, "early").status == "active"
        crowd.instances = [fresh, *pair]
    come_back(crowd, seed)
    after = sets(pair[0])
    expected = [u for u in [*before.active, *before.queue] if u not in after.active]
    if forgetful and "u000" in expected:
        # Its number was given out a second time in the same step of the epoch: behind those restored.
        expected = [*expected[1:], "u000"]
    assert known(after.queue) == expected
    assert len(after.active) == 3 and set(after.active) <= set(before.active) | {"early"}
    assert {u: after.expiry[u] for u in known(after.active)} == {u: before.expiry[u] for u in known(after.active)}
    assert [u for u in after.queue if u in before.queue] == list(before.queue)
    last = len(known(after.queue))
    assert known(list(after.queue)[:last]) == list(after.queue)[:last], "newcomers are behind"
    pair[0].leave(E, known(after.active)[0])
    assert pair[0].admit(E)[4] == {}
    clock.move(31)
    assert list(pair[1].admit(E)[4]) == known(after.queue)[:1]


def test_settings_of_the_event_come_back_with_the_first_instance_that_knows_them(pair, clock):
    pair[0].configure(E, threshold=7)
    pair[0].room(E, "activate")
    for _ in range(5):
        pair[0].assign(E)
    pair[0].room(E, "advance", 4)
    pair[0].view(E)
    pair[0].redis.flushall()
    Instance(pair[0].url, clock).view(E)
    seen = pair[0].view(E)
    assert (pair[0].threshold, seen["roomActive"], seen["serving"], seen["restoring"]) == (7, 1, "4", 1)
    assert pair[0].assign(E)[2] % TWO33 == 6  # numbers never restart


def test_a_token_alone_waits_ahead_of_new_numbers_and_behind_restored_ones(pair, clock):
    crowd = Crowd(pair, 6)
    pair[0].redis.flushall()
    pair[0].configure(E, threshold=0)
    place = crowd.place.pop("u001")
    pair[0].join(E, "new")
    told = crowd.call("u001")
    assert told.status == "queued" and told.place % TWO33 > LINE_END and told.place > place
    for user in ("u005", "u004"):
        crowd.call(user)
    assert list(sets(pair[0]).queue) == ["u004", "u005", "u001", "new"]
    # The odd place is as good as any other when Redis forgets again.
    pair[0].redis.flushall()
    crowd.call("u001", with_token=False)
    pair[0].join(E, "newer")
    assert list(sets(pair[0]).queue) == ["u001", "newer"]
    assert int(pair[0].redis.get(key(E, "seq"))) < 20


def test_a_place_is_restored_once_and_a_final_end_stays_final(pair, clock):
    crowd = Crowd(pair, 6)
    pair[0].redis.flushall()
    assert crowd.call("u005").status == "queued"
    pair[0].leave(E, "u005")
    assert crowd.call("u005").status == "not_in_queue"
    # Given up before it was restored: neither place nor slot comes back.
    shown = Shown(place=crowd.place["u000"], token=crowd.token["u000"])
    assert pair[0].leave(E, "u000", shown=shown) == "not_in_queue"
    assert crowd.call("u000").status == "not_in_queue"
    assert pair[0].poll(E, "u000", Shown(token=crowd.token["u000"])).status == "not_in_queue"


def test_a_place_given_out_twice_costs_its_first_owner_little_and_serves_once(pair, clock):
    pair[0].configure(E, threshold=0)
    crowd = Crowd(pair, 3)
    pair[0].redis.flushall()
    fresh = Instance(pair[0].url, clock)
    fresh.configure(E, threshold=0)
    assert fresh.join(E, "x").place == crowd.place["u000"]
    shown = Shown(place=crowd.place["u000"])
    for user in ("u000", "u002", "u001"):
        crowd.call(user)
    fresh.join(E, "new")
    assert list(sets(fresh).queue) == ["x", "u001", "u002", "u000", "new"]
    fresh.leave(E, "u000")
    assert fresh.poll(E, "u000", shown).status == "not_in_queue"


def test_restored_slots_never_exceed_the_threshold(pair, clock):
    crowd = Crowd(pair, 3)
    pair[0].redis.flushall()
    pair[0].configure(E, threshold=2)
    assert [crowd.call(user).status for user in ("u002", "u001", "u000")] == ["active", "active", "queued"]
    assert len(sets(pair[0]).active) == 2


def test_a_token_whose_slot_has_ended_brings_nothing_back(pair, clock, servers):
    crowd = Crowd(pair, 4)
    pair[0].leave(E, "u000")
    servers.act("restart", "redis")
    for instance in pair:
        instance.connect(instance.url)
    crowd.place.pop("u000")
    assert crowd.call("u000").status == "not_in_queue"
    assert crowd.call("u001").status == "active"


def test_a_restart_keeps_everybody_and_admits_nobody_for_the_restore_time(pair, clock, servers):
    crowd = Crowd(pair, 10)
    before = sets(pair[0])
    epoch = pair[0].memory[E][0]
    servers.act("restart", "redis")  # kill -9; the AOF has it
    for instance in pair:
        instance.connect(instance.url)
    pair[0].configure(E, threshold=8)
    assert pair[1].admit(E)[4] == {} and pair[0].join(E, "new").status == "queued"
    after = sets(pair[0])
    assert list(after.queue) == [*before.queue, "new"] and after.active == before.active
    assert pair[0].memory[E][0] > epoch
    clock.move(29)
    assert pair[0].admit(E)[4] == {}
    clock.move(2)
    assert list(pair[0].admit(E)[4]) == list(before.queue)[:2]
    assert crowd.call("u009").status == "queued"


def copy_of(instance, node, tmp_path, name):
    """A second server that begins with what the first one holds now."""
    instance.redis.save()
    folder = instance.redis.config_get("dir")["dir"]
    (tmp_path / name).mkdir()
    shutil.copy(os.path.join(folder, "dump.rdb"), tmp_path / name / "dump.rdb")
    return lambda: node(name, "--dbfilename", "dump.rdb")


@pytest.mark.parametrize("seed", range(3))
def test_an_old_copy_is_brought_up_to_date_by_those_who_come_back(pair, clock, node, tmp_path, seed):
    crowd = Crowd(pair, 20)
    start = copy_of(pair[0], node, tmp_path, "old")
    follower = Follower(pair[0].redis, E).follow()
    # What the copy does not know: twenty more, two left, two slots changed hands.
    for i in range(20, 40):
        crowd.call(f"u{i:03d}", join=True)
    for user in ("u000", "u001"):
        pair[1].leave(E, user)
        del crowd.place[user], crowd.token[user]  # they have gone home
    clock.move(1)
    crowd.admit()
    before = sets(pair[0])
    assert set(before.active) == {"u002", "u003", "u004"}
    follower.follow()
    newer = start()
    for instance in pair:
        instance.connect(newer.url)
    follower.client = newer.client
    assert Sets.read(newer.client, E).active.keys() == {"u000", "u001", "u002"}
    come_back(crowd, seed)
    after = sets(pair[0])
    assert len(after.active) == 3
    gone = {"u000", "u001"}  # their slots run out by themselves: nobody could know that they left
    # The two whose slots the copy does not know wait at their own places, which are the first.
    assert known(after.queue) == [u for u in [*sorted(before.active), *before.queue]
                                  if u not in after.active and u not in gone]
    follower.follow()
    assert (follower.queue, follower.parked, follower.active) == (after.queue, after.parked, after.active)
    numbers = [place for group in (after.queue, after.active) for place in group.values()]
    assert len(numbers) == len(set(numbers))


def test_an_old_copy_gives_a_slot_back_to_its_token(pair, clock, node, tmp_path):
    pair[0].configure(E, threshold=1)
    crowd = Crowd(pair, 3)
    pair[0].leave(E, "u000")
    start = copy_of(pair[0], node, tmp_path, "older")
    clock.move(1)
    crowd.admit()
    expiry = crowd.token["u001"]
    newer = start()
    for instance in pair:
        instance.connect(newer.url)
    assert crowd.call("u002").status == "queued"
    told = crowd.call("u001")
    assert (told.status, told.expiry) == ("active", expiry)
    assert list(sets(pair[0]).queue) == ["u002"]


def test_a_second_loss_raises_the_epoch_again(pair, clock):
    crowd = Crowd(pair, 8)
    epochs = [pair[0].memory[E][0]]
    for _ in range(3):
        pair[0].redis.flushall()
        for user in reversed(list(crowd.place)):
            crowd.call(user)
        epochs.append(pair[0].memory[E][0])
    assert epochs == sorted(set(epochs))
    assert known(sets(pair[0]).queue) == [f"u{i:03d}" for i in range(3, 8)]


def test_an_instance_that_slept_through_a_loss_changes_nothing_but_the_numbers(pair, clock):
    for i in range(6):
        pair[1].join(E, f"u{i}")
    pair[0].view(E)
    for i in range(6, 9):
        pair[1].join(E, f"u{i}")  # pair[0] has not seen these
    pair[0].redis.flushall()
    pair[0].view(E)
    epoch, until = pair[0].memory[E][0], pair[0].redis.hget(key(E, "state"), "restoreUntil")
    assert pair[0].join(E, "new").place == score(epoch, 7)
    pair[1].view(E)
    assert pair[1].memory[E][0] == epoch
    assert pair[0].redis.hget(key(E, "state"), "restoreUntil") == until
    assert pair[0].join(E, "newer").place == score(epoch, 10)
    # Number 7 of the old epoch and number 7 of the new one are two places.
    pair[0].poll(E, "u6", Shown(place=score(epoch - 1, 7)))
    assert list(sets(pair[0]).queue) == ["u6", "new", "newer"]


def test_a_follower_sees_a_flushed_redis_as_empty(pair, clock):
    crowd = Crowd(pair, 9)
    follower = Follower(pair[0].redis, E).follow()
    assert len(follower.queue) == 6
    pair[0].redis.flushall()
    crowd.call("u008")
    follower.follow()
    assert (list(follower.queue), follower.active) == (["u008"], {})


def test_every_script_runs_on_its_node_of_a_cluster_and_on_no_other(node, clock):
    nodes = [node(f"n{i}", "--cluster-enabled", "yes", "--cluster-port", str(process.free_port())) for i in range(3)]
    bounds = [(0, 5460), (5461, 10922), (10923, 16383)]
    for each, (first, last) in zip(nodes, bounds):
        each.client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
    bus = nodes[0].client.config_get("cluster-port")["cluster-port"]
    for each in nodes[1:]:
        each.client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, bus)
    process.eventually(lambda: all("cluster_state:ok" in str(each.client.execute_command("CLUSTER INFO"))
                                   or each.client.execute_command("CLUSTER INFO").get("cluster_state") == "ok"
                                   for each in nodes), 30, what="the cluster")
    calls = {
        "visit": ["u1", 1, 0, 0, 0], "admit": [], "clean": [1], "clear": ["op"], "leave": ["u1", "left", 0],
        "configure": ["op", "threshold", "1", "closed", "1"], "assign": [], "room": ["activate", "op", 0],
        "serve": [], "view": [], "watch": ["u1", "u2"],
    }
    assert set(calls) | {"poll"} == set(sources())
    used = set()
    for event in (f"event-{i}" for i in range(12)):
        slot = nodes[0].client.execute_command("CLUSTER", "KEYSLOT", key(event, "queue"))
        home = next(i for i, (first, last) in enumerate(bounds) if first <= slot <= last)
        used.add(home)
        instance = Instance(nodes[home].url, clock, {**RULES, "logEvery": 2})
        for user in ("u1", "u2", "u3", "u4", "u5"):
            instance.join(event, user)
        for name, own in calls.items():
            instance.run(name, event, *own)
            other = nodes[(home + 1) % 3].client
            with pytest.raises(redis.ResponseError, match="MOVED"):
                other.eval(instance.sources[name], len(instance.keys(event)), *instance.keys(event),
                           *instance.arguments(event, *own))
        instance.poll(event, "u1")
    assert used == {0, 1, 2}

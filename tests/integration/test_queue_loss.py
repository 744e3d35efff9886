"""urr-queue when processes die and Redis forgets: the order among those who come back is the one before."""
import os
import random
import shutil
import time

import jwt
import line_kit as kit
import pytest
from harness import process
from line_kit import Operator, User


@pytest.fixture
def operator(redis_url):
    return Operator(redis_url)


@pytest.fixture
def pair(daemon, redis_url):
    return [daemon("urr-queue", kit.settings(redis_url), port_setting="QUEUE_PORT") for _ in range(2)]


def join(pair, operator, event, count, threshold):
    """count users joined in order; the first `threshold` of them are inside."""
    operator.register(event, threshold=threshold, title="Show")
    users = [User(f"u{i:03}", *pair) for i in range(count)]
    for i, user in enumerate(users):
        body = user.check(event, daemon=pair[i % 2]).json()
        assert body["status"] == ("active" if i < threshold else "queued")
        user.token = body.get("entryToken")
    return users


def everybody_returns(pair, event, users, seed=1):
    """All call again, in any order, through both instances, as often as it takes: like open pages do."""
    missing = list(users)
    random.Random(seed).shuffle(missing)

    def try_all():
        answers = kit.crowd([(pair[i % 2], "GET", f"/api/queue/status/{event}",
                              {**user.headers, **({"x-queue-place": user.place} if user.place else {}),
                               **({"x-queue-entry-token": user.token} if user.token else {})})
                             for i, user in enumerate(missing)], connections=20)
        missing[:] = [user for user, (status, _) in zip(missing, answers) if status != 200]
        return not missing
    process.eventually(try_all, 20)


def assert_order(operator, event, users, threshold):
    """Those inside are inside once, the others wait in the order they came, each with a place of its own."""
    names = [user.name for user in users]
    inside, waiting = operator.active(event), operator.waiting(event)
    assert not set(inside) & set(waiting)
    assert sorted(inside + waiting) == names
    assert waiting == sorted(waiting) and sorted(inside) == names[:len(inside)]
    assert len(inside) <= threshold
    assert len(set(operator.numbers(event))) == len(waiting)


def test_one_of_two_processes_dies_in_the_rush(pair, operator):
    operator.register("ev1", threshold=10)
    users = [User(f"u{i:03}", *pair) for i in range(400)]
    requests = [(pair[i % 2], "POST", "/api/queue/check/ev1", user.headers) for i, user in enumerate(users)]
    kit.crowd(requests[:200])
    pair[1].kill()
    answers = kit.crowd([(pair[0], "POST", "/api/queue/check/ev1", user.headers) for user in users])
    assert {status for status, _ in answers} == {200}
    assert len(operator.active("ev1")) == 10 and len(operator.waiting("ev1")) == 390
    # The one that is left admits, and in order.
    head = operator.waiting("ev1")[:3]
    for name in operator.active("ev1")[:3]:
        User(name, *pair).leave("ev1")
    process.eventually(lambda: set(head) <= set(operator.active("ev1")), 10)


def test_a_killed_redis_comes_back_with_everybody_in_order(pair, operator, servers):
    users = join(pair, operator, "ev1", 40, threshold=5)
    before = operator.waiting("ev1")
    process.eventually(lambda: operator.redis.info("persistence")["aof_pending_bio_fsync"] == 0, 5)
    servers.act("kill", "redis")
    refused = users[20].status("ev1")
    assert refused.status_code == 503 and int(refused.headers["Retry-After"]) >= 1
    assert pair[0].get("/health").status_code == 200
    servers.act("start", "redis")
    everybody_returns(pair, "ev1", users)
    operator.reconnect()
    assert operator.waiting("ev1") == before
    assert_order(operator, "ev1", users, 5)
    # Afterwards admission goes on.
    users[0].leave("ev1")
    process.eventually(lambda: before[0] in operator.active("ev1"), 10)


def test_a_frozen_redis_costs_seconds_and_no_place(pair, operator, servers):
    users = join(pair, operator, "ev1", 10, threshold=2)
    servers.act("freeze", "redis")
    try:
        start = time.monotonic()
        refused = users[5].status("ev1", timeout=20)
        assert refused.status_code == 503 and "Retry-After" in refused.headers
        assert time.monotonic() - start < 8
        # Once the silence is noticed, requests are refused without waiting for it.
        process.eventually(lambda: _quick(users[6]), 15)
        assert pair[0].get("/health").status_code == 200
        pair[0].wait("/readyz", 503, 10)
    finally:
        servers.act("thaw", "redis")
    everybody_returns(pair, "ev1", users)
    assert_order(operator, "ev1", users, 2)
    pair[0].wait("/readyz", 200, 15)


def _quick(user):
    start = time.monotonic()
    return user.status("ev1", timeout=20).status_code == 503 and time.monotonic() - start < 0.5


def test_after_flushall_signed_places_bring_the_order_back(pair, operator):
    users = join(pair, operator, "ev1", 60, threshold=5)
    newcomer = User("zzz", *pair)
    operator.redis.flushall()
    newcomer.check("ev1")  # first to call, yet behind all who return
    everybody_returns(pair, "ev1", users)
    assert operator.waiting("ev1")[-1] == "zzz"
    assert_order(operator, "ev1", [*users, newcomer], 5)
    inside = {user.name for user in users[:5]}
    assert set(operator.active("ev1")) == inside
    # The slots came back with their own ends, not with new ones.
    for user in users[:5]:
        exp = jwt.decode(user.token, kit.ENTRY_SECRET, algorithms=["HS256"])["exp"]
        assert operator.redis.zscore("{ev1}:active", user.name) == exp * 1000
    # A place works once and for its owner only.
    thief = User("thief", *pair)
    thief.place = users[30].place
    assert thief.status("ev1").json()["status"] == "not_in_queue"
    assert users[30].status("ev1").json()["position"] == 26


def test_an_older_copy_of_redis_neither_swaps_nor_doubles(pair, operator, servers):
    users = join(pair, operator, "ev1", 30, threshold=3)
    folder = os.path.join(servers.redis.folder, "appendonlydir")
    copy = folder + ".copy"
    operator.redis.execute_command("WAITAOF", 1, 0, 5000) if _has_waitaof(operator) else time.sleep(1.1)
    shutil.copytree(folder, copy)
    # What the copy does not know: ten more, one has left, one has been let in.
    more = [User(f"u{i:03}", *pair) for i in range(30, 40)]
    for user in more:
        assert user.check("ev1").json()["status"] == "queued"
        user.token = None
    users[0].leave("ev1")
    process.eventually(lambda: users[3].status("ev1").json()["status"] == "active", 10)
    users[3].token = users[3].status("ev1").json()["entryToken"]
    servers.act("kill", "redis")
    shutil.rmtree(folder)
    os.rename(copy, folder)
    _chown_like(folder, os.path.dirname(folder))
    servers.act("start", "redis")
    operator.reconnect()
    present = users[1:] + more
    everybody_returns(pair, "ev1", present)
    inside, waiting = operator.active("ev1"), operator.waiting("ev1")
    assert not set(inside) & set(waiting)
    assert [name for name in waiting if name != "u003"] == [user.name for user in present[3:]]
    assert len(inside) <= 3 and {"u001", "u002"} <= set(inside)
    assert len(set(operator.numbers("ev1"))) == len(waiting)


def _has_waitaof(operator):
    return tuple(map(int, operator.redis.info("server")["redis_version"].split(".")[:2])) >= (7, 2)


def _chown_like(folder, model):
    owner = os.stat(model)
    for root, _, files in os.walk(folder):
        for path in [root] + [os.path.join(root, name) for name in files]:
            os.chown(path, owner.st_uid, owner.st_gid)


def test_a_scheduled_opening_survives_a_flush(daemon, redis_url, operator):
    pair = [daemon("urr-queue", kit.settings(redis_url, QUEUE_RESTORE_SECONDS=8), port_setting="QUEUE_PORT")]
    opens = int(time.time() * 1000) + 3_600_000
    operator.register("ev1", threshold=5, opensAt=opens, title="Later")
    ann = User("ann", *pair)
    ann.check("ev1")
    process.eventually(lambda: ann.status("ev1").json().get("opensAt") == opens, 5)
    operator.redis.flushall()
    process.eventually(lambda: ann.status("ev1").json().get("position") == 1 and
                       operator.redis.hget("{ev1}:settings", "opensAt") == str(opens), 10)
    assert operator.redis.hget("{ev1}:settings", "registered") == "1"
    assert not operator.active("ev1")

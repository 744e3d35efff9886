"""urr-queue's streams: told at once by whichever instance holds them, and certain without pub/sub."""
import time

import jwt
import pytest
import line_kit as kit
from harness import process
from line_kit import Operator, Stream, User


@pytest.fixture
def operator(redis_url):
    return Operator(redis_url)


@pytest.fixture
def pair(daemon, redis_url):
    return [daemon("urr-queue", kit.settings(redis_url), port_setting="QUEUE_PORT") for _ in range(2)]


def admitted_at(operator, event, user):
    """When Redis let the user in, by its own log (the same machine's clock)."""
    entries = [fields for _, fields in operator.redis.xrange("{%s}:log" % event)
               if fields["k"] == "admit" and fields["u"] == user]
    return int(entries[-1]["at"]) / 1000


def line(pair, operator, event, names, threshold=1):
    """The first of the names are inside, the others wait in that order."""
    operator.register(event, threshold=threshold, title="Show")
    users = [User(name, *pair) for name in names]
    for user in users:
        assert user.check(event).status_code == 200
    return users


def test_a_promotion_reaches_the_stream_of_another_instance_at_once(pair, operator):
    ann, *waiting = line(pair, operator, "ev1", ["ann", "u1", "u2", "u3", "u4", "u5"])
    streams = {user.name: Stream(pair[i % 2], user, "ev1") for i, user in enumerate(waiting)}
    for i, user in enumerate(waiting):
        name, body, _ = streams[user.name].next()
        assert name == "position" and body["position"] == i + 1 and body["eventInfo"]["title"] == "Show"
        assert body["place"] == user.place
    delays = []
    inside = ann
    for user in waiting:
        inside.leave("ev1")
        _, body, when = streams[user.name].until("admitted", 5)
        delays.append(when - admitted_at(operator, "ev1", user.name))
        claims = jwt.decode(body["entryToken"], kit.ENTRY_SECRET, algorithms=["HS256"])
        assert claims["uid"] == user.name and body["status"] == "active" and body["expiresAt"]
        inside = user
    # Typically a few ms. The median, loosely: this machine may be busy.
    assert sorted(delays)[len(delays) // 2] < 0.3, delays
    # It was claimed by the stream: nobody parks those who were told.
    assert operator.redis.zcard("{ev1}:unclaimed") == 0


def test_a_lost_message_is_found_within_two_seconds(pair, operator):
    ann, bob = line(pair, operator, "ev1", ["ann", "bob"])
    stream = Stream(pair[1], bob, "ev1")
    assert stream.next()[0] == "position"
    operator.redis.execute_command("ACL", "SETUSER", "default", "-publish")
    try:
        ann.leave("ev1")
        _, _, when = stream.until("admitted", 10)
    finally:
        operator.redis.execute_command("ACL", "SETUSER", "default", "+publish")
    assert when - admitted_at(operator, "ev1", "bob") < 2.5


def test_positions_are_told_while_they_change(pair, operator):
    users = line(pair, operator, "ev1", [f"u{i}" for i in range(6)])
    stream = Stream(pair[0], users[5], "ev1", path="/events/{}/tickets/waiting")
    assert stream.next()[1]["position"] == 5
    for left in (4, 3):
        users[left].leave("ev1")
        start = time.time()
        body = stream.until("position")[1]
        assert body["position"] == left and body["peopleAhead"] == left - 1
        assert time.time() - start < 4


def test_everybody_is_told_when_it_is_sold_out(pair, operator):
    ann, *waiting = line(pair, operator, "ev1", ["ann", "u1", "u2", "u3", "u4"])
    streams = [Stream(pair[i % 2], user, "ev1") for i, user in enumerate(waiting)]
    own = Stream(pair[0], ann, "ev1")
    assert own.next()[0] == "admitted"
    for stream in streams:
        stream.next()
    operator.configure("ev1", closedReason="sold_out", closed=1)
    start = time.time()
    for stream in streams:
        body = stream.until("closed")[1]
        assert body["status"] == "closed" and body["reason"] == "sold_out"
        assert stream.ended()
    assert time.time() - start < 3
    # Late comers hear the same; who is inside keeps the slot.
    assert Stream(pair[1], waiting[0], "ev1").next()[0] == "closed"
    assert ann.status("ev1").json()["status"] == "active"
    own.close()


def test_an_open_stream_is_a_heartbeat_and_a_cut_one_costs_nothing(pair, operator):
    _, bob, eve = line(pair, operator, "ev1", ["ann", "bob", "eve"])
    stream = Stream(pair[0], bob, "ev1")
    stream.next()
    seen = operator.redis.zscore("{ev1}:seen", "bob")
    process.eventually(lambda: operator.redis.zscore("{ev1}:seen", "bob") > seen, 5)
    assert operator.redis.zscore("{ev1}:seen", "eve") <= seen
    stream.close()
    process.eventually(lambda: pair[0].metric("urr_queue_streams") == 0, 5)
    again = Stream(pair[1], bob, "ev1")
    assert again.next()[1]["position"] == 1
    assert eve.status("ev1").json()["position"] == 2


def test_who_does_not_wait_gets_no_stream(pair, operator):
    _, bob = line(pair, operator, "ev1", ["ann", "bob"])
    assert Stream(pair[0], User("stranger", *pair), "ev1").status == 409
    assert Stream(pair[0], User("stranger", *pair), "nope").status == 404
    stream = Stream(pair[0], bob, "ev1")
    stream.next()
    bob.leave("ev1")
    name, body, _ = stream.next(5)
    assert name == "closed" and body["status"] == "not_in_queue"
    assert stream.ended()


def test_a_users_streams_are_few(pair, operator):
    _, bob = line(pair[:1], operator, "ev1", ["ann", "bob"])
    streams = [Stream(pair[0], bob, "ev1") for _ in range(10)]
    # Four per worker: the oldest were closed for the newer ones.
    process.eventually(lambda: pair[0].metric("urr_queue_streams") <= 4 * 8, 5)
    assert streams[-1].next()[0] == "position"


def test_streams_come_back_after_redis_forgot_everything(pair, operator):
    ann, *waiting = line(pair, operator, "ev1", ["ann"] + [f"u{i}" for i in range(10)])
    streams = [Stream(pair[i % 2], user, "ev1") for i, user in enumerate(waiting)]
    for stream in streams:
        stream.next()
    own = Stream(pair[0], ann, "ev1")
    own.next()
    process.eventually(lambda: all(each.metric("urr_queue_stream_round_seconds_count") > 1 for each in pair), 5)
    operator.redis.flushall()
    # Nobody calls: the streams alone bring their users back, in the old order, and the one inside too.
    process.eventually(lambda: operator.waiting("ev1") == [user.name for user in waiting], 10)
    process.eventually(lambda: operator.active("ev1") == ["ann"], 10)
    # And the event is what it was: registered, with its threshold.
    process.eventually(lambda: operator.redis.hget("{ev1}:settings", "title") == "Show", 10)
    assert operator.redis.get("{ev1}:threshold") == "1"

"""Tier 1 as visitors meet it: numbers, checks from memory, the way on; on two instances."""
import time

import jwt
import pytest

from harness.process import eventually
from queue_kit import VWR_SECRET, Room, bearer, open_redis, two_daemons


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    yield from two_daemons(tmp_path_factory.mktemp("vwr"))


@pytest.fixture
def pair(world, request):
    """The same fresh, registered event on both instances."""
    stack, both = world
    stack.up("redis")
    rooms = [Room(each, f"ev-{stack.number()}") for each in both]
    rooms[1].event = rooms[0].event
    rooms[0].admin("POST", "register", {"title": "Love, Poem", "artist": "IU"})
    return rooms


def wait_until_both(pair, **fields):
    def same():
        return all(fields.items() <= room.first_room().items() for room in pair)
    eventually(same, 5, what=f"both say {fields}")


def test_a_room_that_is_off_gives_no_numbers(pair):
    answer = pair[0].call("POST", "/vwr/assign/{E}", json={"userId": "anon-1"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "ROOM_NOT_ACTIVE")
    assert pair[0].first_room() == {"eventId": pair[0].event, "isActive": False, "totalInQueue": 0, "serving": 0,
                                    "waitingCount": 0}


def test_an_unknown_event_is_not_found_and_leaves_nothing_in_redis(world, pair):
    stack, both = world
    ghost = Room(both[0], "ghost-event")
    assert ghost.call("POST", "/vwr/assign/{E}", json={"userId": "a"}).status_code == 404
    assert ghost.call("GET", "/vwr/status/{E}").status_code == 404
    assert open_redis(stack.redis.url).keys("*ghost-event*") == []


def test_activation_takes_effect_on_the_other_instance_at_once(pair):
    one, two = pair
    assert two.first_room()["isActive"] is False  # it remembers
    one.vwr_admin("activate")
    first = two.assign("anon-1")  # no wait at all
    assert first["position"] == 1 and first["servingCounter"] == 0
    wait_until_both(pair, isActive=True, totalInQueue=1)
    one.vwr_admin("deactivate")
    wait_until_both(pair, isActive=False)
    assert two.check_number(first["requestId"], "anon-1")["admitted"] is True
    assert two.call("POST", "/vwr/assign/{E}", json={"userId": "anon-2"}).status_code == 404


def test_visitors_are_served_in_order_smoothly_and_get_a_token(pair):
    one, two = pair
    one.admin("POST", "settings", {"vwrBatch": 0})  # nobody moves while they come
    one.vwr_admin("activate")
    mine = [one.assign(f"anon-{n}") for n in range(60)]
    assert [each["position"] for each in mine] == list(range(1, 61))
    seen = []
    one.admin("POST", "settings", {"vwrBatch": 60, "vwrInterval": 3000})

    def served():
        answer = two.check_number(mine[-1]["requestId"], "anon-59")
        seen.append(answer["servingCounter"])
        return answer if answer["admitted"] else None
    done = eventually(served, 15, what="the last one is let in")
    assert seen == sorted(seen) and done["servingCounter"] == 60  # never past the last number
    assert len(set(seen)) >= 4, "in steps, not at once"
    claims = jwt.decode(done["token"], VWR_SECRET, algorithms=["HS256"])
    assert {name: claims[name] for name in ("sub", "uid", "tier", "pos", "rid")} == {
        "sub": one.event, "uid": "anon-59", "tier": 1, "pos": 60, "rid": mine[-1]["requestId"]}
    assert claims["exp"] - claims["iat"] == 600


def test_one_who_waits_is_told_position_wait_and_when_to_ask_again(pair):
    one = pair[0]
    one.admin("POST", "settings", {"vwrBatch": 0})
    one.vwr_admin("activate")
    given = [one.assign("anon") for _ in range(3)]
    answer = one.check_number(given[2]["requestId"], "anon")
    assert answer == {"admitted": False, "position": 3, "servingCounter": 0, "estimatedWait": 1, "nextPoll": 2}
    moved = one.vwr_admin("advance", {"batchSize": 2})
    assert (moved["moved"], moved["serving"]) == (2, 2)
    admitted = [one.check_number(each["requestId"], "anon")["admitted"] for each in given]
    assert admitted == [True, True, False]
    assert one.vwr_admin("advance")["serving"] == 3  # 500, but never past the last number


def test_the_token_is_a_cookie_and_opens_tier_2_at_the_same_place(pair):
    one = pair[0]
    one.admin("PUT", "threshold", params={"threshold": 1})
    one.join("early")  # takes the only slot
    one.vwr_admin("activate")
    first, second = one.assign("anon-a"), one.assign("anon-b")
    one.vwr_admin("advance")
    refused = one.call("POST", "/api/queue/check/{E}", bearer("nobody"))
    assert (refused.status_code, refused.json()["redirectTo"]) == (403, f"/vwr/{one.event}")
    answer = one.call("GET", f"/vwr/check/{{E}}/{second['requestId']}?userId=anon-b")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("urr-vwr-token=") and "HttpOnly" in cookie and "Max-Age=600" in cookie
    assert answer.headers["Cache-Control"] == "no-store"
    token = answer.json()["token"]
    assert one.join("late", {"Cookie": f"urr-vwr-token={token}"})["position"] == 1
    other = one.check_number(first["requestId"], "anon-a")["token"]
    assert one.join("earlier", {"x-vwr-token": other})["position"] == 1  # the smaller number is ahead
    assert one.status("late")["position"] == 2
    shared = one.call("POST", "/api/queue/check/{E}", {**bearer("thief"), "x-vwr-token": token})
    assert shared.status_code == 403, "a number belongs to the first account that brings it"


def test_a_request_id_that_is_not_ours_is_unknown(pair):
    one = pair[0]
    one.vwr_admin("activate")
    mine = one.assign("anon-1")["requestId"]
    changed = mine[:-1] + ("A" if mine[-1] != "A" else "B")
    for request_id, visitor in ((changed, "anon-1"), (mine, "anon-2"), ("x", "anon-1"), ("p" + mine[1:], "anon-1"),
                                ("r.1.1.1." + "A" * 22, "anon-1")):
        answer = one.call("GET", f"/vwr/check/{{E}}/{request_id}?userId={visitor}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "UNKNOWN_REQUEST")
    elsewhere = Room(one.daemon, "other-event")
    assert elsewhere.call("GET", f"/vwr/check/{{E}}/{mine}?userId=anon-1").status_code == 404
    assert one.call("GET", f"/vwr/check/{{E}}/{mine}").status_code == 400


def test_a_check_makes_no_redis_call(world, pair):
    stack, _ = world
    one = pair[0]
    one.admin("POST", "settings", {"vwrBatch": 0})
    one.vwr_admin("activate")
    mine = one.assign("anon-1")["requestId"]
    one.check_number(mine, "anon-1")
    stack.act("freeze", "redis")
    try:
        answers = [one.check_number(mine, "anon-1") for _ in range(50)]  # a call would time out after 2 s
    finally:
        stack.act("thaw", "redis")
    assert all(answer["admitted"] is False and answer["position"] == 1 for answer in answers)


def test_sold_out_is_told_to_those_in_the_first_room(pair):
    one, two = pair
    one.vwr_admin("activate")
    one.admin("POST", "settings", {"vwrBatch": 0})
    mine = one.assign("anon-1")["requestId"]
    assert two.check_number(mine, "anon-1")["admitted"] is False
    one.admin("POST", "close", {"reason": "sold out"})
    eventually(lambda: two.check_number(mine, "anon-1").get("closed") == "sold out", 5, what="told on the other")
    refused = two.call("POST", "/vwr/assign/{E}", json={"userId": "anon-2"})
    assert (refused.status_code, refused.json()["error"]) == (
        410, {"code": "EVENT_CLOSED", "message": "sold out"})
    one.admin("POST", "open")
    assert one.assign("anon-3")["position"] == 2


def test_the_rooms_survive_a_redis_that_forgets_everything(world, pair):
    stack, both = world
    one, two = pair
    one.admin("POST", "settings", {"vwrBatch": 0})
    one.vwr_admin("activate")
    given = [one.assign("anon") for _ in range(5)]
    one.vwr_admin("advance", {"batchSize": 2})
    wait_until_both(pair, serving=2, totalInQueue=5)
    open_redis(stack.redis.url).flushall()
    eventually(lambda: two.first_room()["isActive"] and open_redis(stack.redis.url).sismember(
        "queue:vwr-events", one.event), 10, what="the room is on again, and listed")
    assert one.assign("anon")["position"] == 6  # numbers never restart
    assert [two.check_number(each["requestId"], "anon")["admitted"] for each in given][:2] == [True, True]
    assert two.first_room()["serving"] >= 2


def test_redis_away_is_503_with_retry_after_and_comes_back(world, pair):
    stack, _ = world
    one = pair[0]
    one.vwr_admin("activate")
    stack.act("kill", "redis")
    try:
        answer = eventually(lambda: (lambda a: (a,) if a.status_code == 503 else None)(
            one.call("POST", "/vwr/assign/{E}", json={"userId": "x"})), 20, what="503")[0]
        assert int(answer.headers["Retry-After"]) >= 1
    finally:
        stack.act("start", "redis")
    start = time.monotonic()
    eventually(lambda: one.call("POST", "/vwr/assign/{E}", json={"userId": "x"}).status_code == 200, 30,
               what="numbers again")
    assert time.monotonic() - start < 30

"""The operator's side of urr-queue, and what the ticket service may order; on two instances."""
import datetime
import time

import pytest
import requests

from harness.process import eventually
from queue_kit import INTERNAL, Room, bearer, two_daemons

ADMIN = bearer("op", "admin")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    yield from two_daemons(tmp_path_factory.mktemp("admin"))


@pytest.fixture
def pair(world):
    stack, both = world
    name = f"ev-{stack.number()}"
    rooms = [Room(each, name) for each in both]
    rooms[0].admin("POST", "register", {"title": "Love, Poem", "artist": "IU", "threshold": 2})
    return rooms


ORDERS = [("GET", "/api/queue/admin"), ("GET", "/api/queue/admin/{E}"), ("POST", "/api/queue/admin/clear/{E}"),
          ("PUT", "/api/queue/admin/threshold/{E}?threshold=5"), ("POST", "/api/queue/admin/threshold/{E}?threshold=5"),
          ("POST", "/api/queue/admin/pause/{E}"), ("POST", "/api/queue/admin/resume/{E}"),
          ("PUT", "/api/queue/admin/settings/{E}"), ("POST", "/api/queue/admin/settings/{E}"),
          ("POST", "/api/queue/admin/register/{E}"), ("POST", "/api/queue/admin/close/{E}"),
          ("POST", "/api/queue/admin/open/{E}"), ("POST", "/api/admin/vwr/activate/{E}"),
          ("POST", "/api/admin/vwr/deactivate/{E}"), ("POST", "/api/admin/vwr/advance/{E}"),
          ("GET", "/api/admin/vwr/status/{E}")]


def test_every_order_needs_the_admin_role(pair):
    one = pair[0]
    before = one.view()
    for method, path in ORDERS:
        assert one.call(method, path).status_code == 401, path
        assert one.call(method, path, bearer("anna")).status_code == 403, path
    assert one.view() == before
    for method, path in ORDERS:
        assert one.call(method, path, ADMIN).status_code == 200, path
        assert one.call(method, path.replace("/api/", "/api/v1/"), ADMIN).status_code == 200, path


def test_orders_about_an_unknown_event_are_not_found(pair):
    ghost = Room(pair[0].daemon, "ghost")
    for method, path in ORDERS[1:]:
        if "register" not in path:
            assert ghost.call(method, path, ADMIN).status_code == 404, path


def test_the_view_says_where_everybody_is(pair):
    one, two = pair
    for user in ("a", "b", "c", "d"):
        two.join(user)
    view = one.view()
    assert {name: view[name] for name in ("eventId", "title", "artist", "queueSize", "currentUsers", "threshold",
                                          "available", "paused", "closed", "roomActive", "registered")} == {
        "eventId": one.event, "title": "Love, Poem", "artist": "IU", "queueSize": 2, "currentUsers": 2, "threshold": 2,
        "available": 0, "paused": False, "closed": False, "roomActive": False, "registered": True}
    assert view["admittedLastMinute"] == 2 and 0.03 < view["admittedPerSecond"] < 0.04
    listed = one.good("GET", "/api/queue/admin", ADMIN)["events"]
    assert [each for each in listed if each["eventId"] == one.event] == [view]


def test_the_threshold_lets_more_in_and_lowering_it_sends_nobody_away(pair):
    one, two = pair
    for user in ("a", "b", "c", "d"):
        one.join(user)
    assert one.admin("PUT", "threshold", params={"threshold": 3})["threshold"] == 3
    eventually(lambda: two.status("c")["status"] == "active", 10, what="the third is let in")
    assert one.admin("POST", "threshold", {"threshold": 1})["threshold"] == 1
    assert [two.status(user)["status"] for user in "abcd"] == ["active"] * 3 + ["queued"]
    for bad in ("-1", "x", "1.5", "10000001", "99999999999999999999", ""):
        answer = one.call("PUT", "/api/queue/admin/threshold/{E}", ADMIN, params={"threshold": bad})
        assert answer.status_code == 400, bad
    assert one.call("POST", "/api/queue/admin/threshold/{E}", ADMIN, json={"threshold": "7"}).status_code == 400
    assert one.call("PUT", "/api/queue/admin/threshold/{E}", ADMIN).status_code == 400
    for query in ("8", "x"):  # which of the two is meant?
        answer = one.call("PUT", "/api/queue/admin/threshold/{E}", ADMIN, json={"threshold": 7}, params={"threshold": query})
        assert answer.status_code == 400
    assert one.view()["threshold"] == 1


def test_a_pause_stops_the_door_and_the_timer(pair):
    one, two = pair
    assert one.admin("POST", "pause")["paused"] is True
    assert two.join("a")["status"] == "queued"  # though the room is empty
    assert two.join("a")["queued"] is True
    assert one.admin("POST", "resume")["paused"] is False
    eventually(lambda: two.status("a")["status"] == "active", 10, what="let in after the pause")


def test_settings_are_changed_checked_and_taken_back(pair):
    one = pair[0]
    view = one.admin("POST", "settings", {"title": "새 제목 \"x\"", "artist": "아이유", "batch": 5, "paused": True})
    assert (view["title"], view["artist"], view["paused"]) == ('새 제목 "x"', "아이유", True)
    view = one.admin("PUT", "settings", {"title": None, "paused": False, "threshold": None})
    assert (view["title"], view["paused"], view["threshold"]) == ("Unknown", False, 1000)
    for bad in ({"colour": "red"}, {"batch": 0}, {"batch": "many"}, {"title": "x" * 257}, {"title": "two\nlines"},
                {"threshold": -1}, {"opensAt": "tomorrow"}, {"title": {"a": 1}}, {"batch": 1.5}, {"maxWait": 10**14}):
        answer = one.call("POST", "/api/queue/admin/settings/{E}", ADMIN, json=bad)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_SETTING"), bad
        assert list(bad)[0] in answer.json()["error"]["message"]
    for body in (b"[]", b"{", b'{"title":"a","title":"b"}', b"null"):
        answer = one.call("POST", "/api/queue/admin/settings/{E}", {**ADMIN, "Content-Type": "application/json"},
                          data=body)
        assert answer.status_code == 400, body
    assert one.call("POST", "/api/queue/admin/settings/{E}", ADMIN, data="title=x").status_code == 415


def test_sold_out_is_told_to_everybody_waiting_by_the_ticket_service(pair):
    one, two = pair
    for user in ("a", "b", "c"):
        two.join(user)
    path, service = "/internal/queue/close/{E}", {"Authorization": "Bearer " + INTERNAL}
    assert one.call("POST", path, json={"reason": "sold out"}).status_code == 401
    for wrong in ("Bearer x", "Bearer " + INTERNAL[:-1], "Bearer " + INTERNAL + "x", ADMIN["Authorization"]):
        assert one.call("POST", path, {"Authorization": wrong}, json={"reason": "sold out"}).status_code == 403, wrong
    view = one.good("POST", path, service, json={"reason": "sold out"})
    assert (view["closed"], view["closedReason"]) == (True, "sold out")
    told = two.status("c")
    assert (told["status"], told["reason"]) == ("closed", "sold out")
    assert two.join("newcomer")["status"] == "closed"
    assert two.status("a")["status"] == "active", "those inside may finish"
    assert one.admin("POST", "open")["closed"] is False
    assert two.status("c")["status"] == "queued", "an event opened again has its line as it was"
    assert one.admin("POST", "close")["closedReason"] == "closed"


def test_the_sale_of_an_order_frees_its_slot(pair):
    one, two = pair
    for user in ("a", "b", "c"):
        two.join(user)
    service = {"Authorization": "Bearer " + INTERNAL}
    sold = one.good("POST", "/internal/queue/sold/{E}", service, json={"userId": "a"})
    assert sold == {"eventId": one.event, "userId": "a", "was": "active"}
    eventually(lambda: two.status("c")["status"] == "active", 10, what="the next one is in")
    assert two.status("a")["status"] == "not_in_queue"
    again = one.good("POST", "/internal/queue/sold/{E}", service, json={"userId": "a"})
    assert again["was"] == "not_in_queue"
    assert one.call("POST", "/internal/queue/sold/{E}", service, json={"userId": "{x}"}).status_code == 400


def test_nobody_gets_in_before_the_opening_time(pair):
    one, two = pair
    then = time.time() + 3
    iso = datetime.datetime.fromtimestamp(then, datetime.timezone.utc).isoformat()
    assert one.admin("POST", "settings", {"opensAt": iso})["opensAt"] == pytest.approx(then * 1000, abs=2)
    answer = two.join("a")
    assert (answer["status"], answer["position"]) == ("queued", 1)
    eventually(lambda: two.status("a")["status"] == "active", 15, what="open")
    assert time.time() >= then


def test_clearing_takes_everybody_for_good(pair):
    one, two = pair
    with requests.Session() as session:
        for n in range(520):  # more than one call of the script takes
            answer = session.post(f"{two.daemon.url}/api/queue/check/{two.event}", headers=bearer(f"u{n}"))
            assert answer.status_code == 200
    assert one.view()["queueSize"] == 518
    assert one.admin("POST", "clear")["cleared"] == 520
    view = one.view()
    assert (view["queueSize"], view["currentUsers"], view["parked"]) == (0, 0, 0)
    assert two.status("u3")["status"] == "not_in_queue"

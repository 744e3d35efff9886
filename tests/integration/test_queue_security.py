"""What strangers send to urr-queue, and the status each of them gets."""
import json
import time

import jwt
import pytest

from harness.daemon import Daemon
from harness.stack import Stack
from queue_kit import ENTRY_SECRET, USER_SECRET, VWR_SECRET, Room, bearer, open_redis, raw, settings, user_token


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    stack = Stack()
    daemon = Daemon("urr-queue", settings(stack.redis.url), str(tmp_path_factory.mktemp("sec") / "log"), "QUEUE_PORT")
    daemon.start()
    yield stack, daemon
    daemon.kill()
    assert not daemon.sanitizer_report()
    stack.close()


@pytest.fixture
def room(world):
    stack, daemon = world
    room = Room(daemon, f"ev-{stack.number()}")
    room.admin("POST", "register", {"threshold": 1})
    return room


USER_CALLS = [("POST", "/api/queue/check/{E}"), ("GET", "/api/queue/status/{E}"), ("POST", "/api/queue/heartbeat/{E}"),
              ("POST", "/api/queue/leave/{E}"), ("GET", "/api/queue/stream/{E}"), ("GET", "/api/queue/admin/{E}")]


@pytest.mark.parametrize("token", [
    "", "x", "x.y.z", user_token("a", algorithm="none"), user_token("a", algorithm="HS512"),
    user_token("a", algorithm="HS384"), user_token("a", seconds=-1),
    user_token("a", secret="YW5vdGhlciBzZWNyZXQgb2YgYXQgbGVhc3QgMzIgYnl0ZXM="), user_token("a") + "x", user_token("{a}"),
    user_token("x" * 129), user_token("a b")],
    ids=["empty", "word", "dots", "none", "HS512", "HS384", "expired", "forged", "longer", "braces", "long id", "blank"])
def test_a_bad_user_token_is_401_everywhere(room, token):
    for method, path in USER_CALLS:
        assert room.call(method, path, {"Authorization": "Bearer " + token}).status_code == 401, path
        assert room.call(method, path, {"Cookie": "access_token=" + token}).status_code == 401, path


def test_a_bad_bearer_is_not_made_good_by_a_cookie(room):
    headers = {"Authorization": "Bearer x", "Cookie": "access_token=" + user_token("anna")}
    assert room.call("GET", "/api/queue/status/{E}", headers).status_code == 401


def entry(room, user="anna", secret=ENTRY_SECRET, algorithm="HS256", seconds=300, **changes):
    now = int(time.time())
    claims = {"sub": room.event, "uid": user, "iat": now, "exp": now + seconds, **changes}
    return jwt.encode({name: value for name, value in claims.items() if value is not None},
                      secret if algorithm != "none" else None, algorithm=algorithm)


def test_only_a_good_entry_token_restores_a_slot_that_redis_lost(world, room):
    stack, _ = world
    room.join("anna")
    open_redis(stack.redis.url).flushall()
    bad = [entry(room, secret=VWR_SECRET), entry(room, algorithm="none"), entry(room, algorithm="HS512"),
           entry(room, seconds=-1), entry(room, sub="ev-other"), entry(room, uid="bert"), entry(room, tier=1),
           entry(room, exp=None), entry(room, uid=None), entry(room, sub=None), "x.y.z"]
    for token in bad:
        answer = room.status("anna", {"x-queue-entry-token": token})
        assert answer["status"] != "active", token
    good = room.status("anna", {"x-queue-entry-token": entry(room)})
    assert good["status"] == "active"
    claims = jwt.decode(good["entryToken"], ENTRY_SECRET, algorithms=["HS256"])
    assert (claims["sub"], claims["uid"]) == (room.event, "anna") and "tier" not in claims


def test_only_a_good_tier_1_token_passes_the_first_room(room):
    room.vwr_admin("activate")
    mine = room.assign("anon-1")
    room.vwr_admin("advance")
    good = room.check_number(mine["requestId"], "anon-1")["token"]
    claims = jwt.decode(good, VWR_SECRET, algorithms=["HS256"])

    def sign(secret=VWR_SECRET, algorithm="HS256", **changes):
        return jwt.encode({**claims, **changes}, secret if algorithm != "none" else None, algorithm=algorithm)
    bad = [sign(ENTRY_SECRET), sign(algorithm="none"), sign(algorithm="HS512"), sign(exp=1), sign(sub="ev-other"),
           sign(uid="anon-2"), sign(pos=0), sign(pos=2), sign(tier=2), sign(rid="r.1.1.1.x"), entry(room), "x"]
    for token in bad:
        answer = room.call("POST", "/api/queue/check/{E}", {**bearer("anna"), "x-vwr-token": token})
        assert (answer.status_code, answer.json()["redirectTo"]) == (403, f"/vwr/{room.event}"), token
    number = {"vwrPosition": 0}  # the old parameter proves nothing by itself
    assert room.call("POST", "/api/queue/check/{E}", bearer("anna"), params=number).status_code == 403
    assert room.join("anna", {"x-vwr-token": good})["status"] == "active"


def test_a_forged_place_gives_no_place(room):
    room.join("first")
    place = room.join("second")["place"]
    parts = place.split(".")
    forged = ".".join([parts[0], parts[1], "0", *parts[3:]])
    bad = (forged, place, "p.1.1.1." + "A" * 22, "p" * 4000)  # the true one is another user's
    for number, shown in enumerate(bad):
        assert room.join(f"thief-{number}", {"x-queue-place": shown})["position"] == number + 2


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("headers, status", [
    (FORM, 403), ({**FORM, "Origin": "https://evil.example"}, 403), ({**FORM, "Origin": "{own}"}, 403),
    ({"Content-Type": "text/plain", "Origin": "{own}"}, 403), ({"Content-Type": "application/json"}, 403),
    ({"Content-Type": "application/json", "Origin": "https://evil.example"}, 403),
    ({"Content-Type": "application/json", "Origin": "null"}, 403),
    ({"Content-Type": "application/jsonx", "Origin": "{own}"}, 403),
    ({"Content-Type": "application/json", "Origin": "{own}.evil.example"}, 403),
    ({"Content-Type": "application/json", "Origin": "{own}"}, 200),
    ({"X-Requested-With": "fetch", "Origin": "{own}"}, 200)])
def test_a_change_that_a_cookie_vouches_for_must_come_from_our_pages(room, headers, status):
    own = {name: value.replace("{own}", room.daemon.url) for name, value in headers.items()}
    cookie = {"Cookie": "access_token=" + user_token("anna", "admin"), **own}
    for path in ("/api/queue/check/{E}", "/api/queue/leave/{E}", "/api/queue/heartbeat/{E}",
                 "/api/queue/admin/pause/{E}", "/api/admin/vwr/deactivate/{E}"):
        assert room.call("POST", path, cookie).status_code == status, path


def test_a_form_gets_no_number_of_the_first_room(room):
    room.vwr_admin("activate")
    answer = room.call("POST", "/vwr/assign/{E}", FORM, data="userId=x")
    assert answer.status_code == 415
    assert room.first_room()["totalInQueue"] == 0


@pytest.mark.parametrize("event", ["{x}", "%7Bx%7D", "a b", "a%20b", "x" * 65, "a:b", "a'b", "%00", "%0d%0aSet-Cookie:x",
                                   "a%2fb", "..", "a;b", "%ff", "é"])
def test_an_id_that_is_no_event_is_400(room, event):
    for method, path in (*USER_CALLS, ("POST", "/vwr/assign/{E}"), ("GET", "/vwr/status/{E}"),
                         ("GET", "/vwr/check/{E}/r.1.1.1.x?userId=a"), ("POST", "/api/admin/vwr/activate/{E}")):
        target = path.replace("{E}", event)
        body = '{"userId":"a"}' if "assign" in path else ""
        code, answer = raw(room.daemon, f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                           f"Authorization: Bearer {user_token('op', 'admin')}\r\nContent-Type: application/json\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n{body}")
        assert code == 400, (target, answer[:200])
        assert "set-cookie" not in answer.lower()


def test_ids_of_a_megabyte_are_refused_and_the_daemon_stays(world, room):
    _, daemon = world
    huge = "a" * 1_000_000
    code, _ = raw(daemon, f"GET /vwr/status/{huge} HTTP/1.1\r\nHost: x\r\n\r\n")
    assert code in (400, 414, 431)
    body = json.dumps({"userId": huge})
    assert room.call("POST", "/vwr/assign/{E}", data=body,
                     headers={"Content-Type": "application/json"}).status_code == 413
    small = room.call("POST", "/vwr/assign/{E}", json={"userId": "a" * 129})
    assert (small.status_code, small.json()["error"]["code"]) == (400, "BAD_USER_ID")
    for bad in ("", "{x}", "a b", "a\r\nb", "é", None, 7):
        assert room.call("POST", "/vwr/assign/{E}", json={"userId": bad}).status_code == 400, bad
    assert room.call("GET", "/vwr/status/{E}").status_code == 200
    assert daemon.rss_kb() < 200_000


@pytest.mark.parametrize("names", [("QUEUE_ENTRY_TOKEN_SECRET", "VWR_TOKEN_SECRET"),
                                   ("QUEUE_ENTRY_TOKEN_SECRET", "INTERNAL_API_TOKEN"),
                                   ("QUEUE_ENTRY_TOKEN_SECRET", "QUEUE_ENTRY_TOKEN_SECRET_PREVIOUS"),
                                   ("JWT_SECRET", "VWR_TOKEN_SECRET")])
def test_equal_secrets_are_refused_at_the_start_by_name(world, tmp_path, names):
    stack, _ = world
    given = settings(stack.redis.url)
    same = given[names[0]]
    bad = Daemon("urr-queue", {**given, names[1]: same}, str(tmp_path / "log"), "QUEUE_PORT").start(ready=None)
    assert bad.child.wait(20) != 0
    log = bad.log()
    assert any(name in log for name in names) and same not in log


def test_a_secret_can_be_changed_without_sending_anybody_away(world, room, tmp_path):
    stack, _ = world
    before = room.join("anna")
    new = "the new secret of the entry tokens, 32 bytes or more"
    changed = Daemon("urr-queue", settings(stack.redis.url, QUEUE_ENTRY_TOKEN_SECRET=new,
                                           QUEUE_ENTRY_TOKEN_SECRET_PREVIOUS=ENTRY_SECRET),
                     str(tmp_path / "log"), "QUEUE_PORT").start()
    try:
        open_redis(stack.redis.url).flushall()
        later = Room(changed, room.event)
        later.admin("POST", "register", {"threshold": 1})
        after = later.status("anna", {"x-queue-entry-token": before["entryToken"]})
        assert after["status"] == "active"
        assert jwt.decode(after["entryToken"], new, algorithms=["HS256"])["uid"] == "anna"
        kids = [jwt.get_unverified_header(each["entryToken"])["kid"] for each in (before, after)]
        assert kids[0] != kids[1]
    finally:
        changed.kill()


def test_no_secret_and_no_token_is_ever_logged(world, room):
    _, daemon = world
    token = room.join("anna")["entryToken"]
    log = daemon.log()
    for secret in (USER_SECRET, ENTRY_SECRET, VWR_SECRET, token, user_token("anna").split(".")[2]):
        assert secret not in log

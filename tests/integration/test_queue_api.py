"""urr-queue, Tier 2: what each call answers, who is refused, and that a crowd never exceeds the threshold."""
import http.server
import os
import subprocess
import threading
import time

import jwt
import pytest
import line_kit as kit
from harness import process
from harness.stack import program
from line_kit import Operator, User

QUEUED = {"status", "queued", "position", "peopleAhead", "peopleBehind", "estimatedWait", "nextPoll",
          "queueSize", "currentUsers", "place", "threshold", "message"}


@pytest.fixture
def queue(daemon, redis_url):
    """queue(): another urr-queue on the same Redis."""
    def start(ready="/readyz", **settings):
        return daemon("urr-queue", kit.settings(redis_url, **settings), port_setting="QUEUE_PORT", ready=ready)
    return start


@pytest.fixture
def operator(redis_url):
    return Operator(redis_url)


def test_every_call_answers_the_fields_that_are_relied_on(queue, operator):
    daemon = queue()
    operator.register("ev1", threshold=1, title="Big <Show>", artist="아이유")
    ann, bob, eve = (User(name, daemon) for name in ("ann@example.com", "bob", "eve"))

    answer = ann.check("ev1")
    body = answer.json()
    assert answer.status_code == 200
    assert body["status"] == "active" and body["queued"] is False and body["nextPoll"] == 3
    assert body["currentUsers"] == 1 and body["threshold"] == 1 and body["message"]
    assert body["eventInfo"] == {"title": "Big <Show>", "artist": "아이유"}
    claims = jwt.decode(body["entryToken"], kit.ENTRY_SECRET, algorithms=["HS256"])
    assert claims["sub"] == "ev1" and claims["uid"] == "ann@example.com" and "tier" not in claims
    assert claims["exp"] == body["expiresAt"] // 1000
    slot_end = operator.redis.zscore("{ev1}:active", "ann@example.com")
    assert claims["exp"] * 1000 <= slot_end
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("urr-entry-token=" + body["entryToken"]) and "SameSite=Strict" in cookie
    assert answer.headers["x-queue-entry-token"] == body["entryToken"]

    first = bob.check("ev1").json()
    assert QUEUED | {"eventInfo"} == set(first)
    assert (first["status"], first["queued"], first["position"], first["peopleAhead"], first["peopleBehind"],
            first["queueSize"], first["currentUsers"], first["threshold"]) == ("queued", True, 1, 0, 0, 1, 1, 1)
    assert eve.check("ev1").json()["position"] == 2
    again = bob.status("ev1").json()
    assert QUEUED == set(again) and again["peopleBehind"] == 1 and again["nextPoll"] == 1
    assert bob.heartbeat("ev1").json() == {"status": "queued", "queued": True}
    # The same user again keeps the place; another token of the same user too.
    assert bob.check("ev1").json()["position"] == 1

    inside = ann.status("ev1").json()
    assert {"status", "queued", "currentUsers", "nextPoll", "message", "entryToken"} <= set(inside)
    assert jwt.decode(inside["entryToken"], kit.ENTRY_SECRET, algorithms=["HS256"])["exp"] == claims["exp"]
    assert ann.heartbeat("ev1").json() == {"status": "active", "queued": False}
    left = ann.leave("ev1")
    assert left.json()["message"] and "urr-entry-token=;" in left.headers["Set-Cookie"]
    gone = ann.status("ev1").json()
    assert gone["status"] == "not_in_queue" and gone["queued"] is False and gone["nextPoll"] == 3
    assert {"currentUsers", "message"} <= set(gone) and "entryToken" not in gone
    # Leaving freed the slot: the head of the line gets it, and its status says so with the token.
    turn = process.eventually(lambda: [body for body in [bob.status("ev1").json()] if body["status"] == "active"], 5)
    assert jwt.decode(turn[0]["entryToken"], kit.ENTRY_SECRET, algorithms=["HS256"])["uid"] == "bob"
    assert eve.call("GET", "/api/v1/queue/status/ev1").json()["position"] == 1


def test_a_title_nobody_knows_is_unknown(queue, operator):
    daemon = queue()
    operator.register("ev1")
    assert User("ann", daemon).check("ev1").json()["eventInfo"] == {"title": "Unknown", "artist": ""}


@pytest.mark.parametrize("headers, status", [
    ({}, 401),
    ({"Authorization": "Bearer x.y.z"}, 401),
    ({"Authorization": "Bearer " + kit.token("ann", seconds=-5)}, 401),
    ({"Authorization": "Bearer " + kit.token("ann", key=b"k" * 40)}, 401),
    ({"Authorization": "Bearer " + kit.token("ann", key="", algorithm="none")}, 401),
    ({"Authorization": "Bearer " + kit.token("ann", algorithm="HS512")}, 401),
    ({"Authorization": "Bearer " + kit.token("a b{c}")}, 401),
    ({"X-User-Id": "ann", "X-User-Role": "admin"}, 401),
])
def test_refusals_of_identity(shared, headers, status):
    for method, call in (("POST", "check"), ("GET", "status"), ("POST", "heartbeat"), ("POST", "leave"),
                         ("GET", "stream")):
        assert shared.request(method, f"/api/queue/{call}/ev1", headers=headers).status_code == status


def test_ids_that_are_none_are_refused(shared):
    ann = User("ann", shared)
    for event, status in (("a%7Bb%7D", 400), ("x" * 65, 400), ("a.b", 400), ("%0d%0aSet-Cookie:x", 400),
                          ("a%2fb", 400), ("%00", 400), ("x" * 20000, 431)):
        answer = ann.check(event)
        assert answer.status_code == status, event
        assert "Set-Cookie" not in answer.headers
    with_place = ann.check("nope", headers={"x-queue-place": "p.1.1.1.AAAA"})
    assert with_place.status_code == 404


def test_a_form_of_another_site_cannot_use_the_cookie(shared):
    cookie = {"Cookie": "access_token=" + kit.token("ann")}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    own = {"Origin": shared.url, "Content-Type": "application/json"}
    path = "/api/queue/check/known"
    for headers in (form, {**form, "Origin": shared.url}, {"Content-Type": "text/plain", "Origin": shared.url},
                    {**own, "Origin": "https://evil.example"}, {"Content-Type": "application/json"}):
        for call in ("check", "heartbeat", "leave"):
            refused = shared.request("POST", f"/api/queue/{call}/known", headers={**cookie, **headers}, data="a=b")
            assert refused.status_code == 403, headers
    assert shared.request("POST", path, headers={**cookie, **own}, data="{}").status_code == 200
    # Reading needs no Origin, and a Bearer token is no cookie.
    assert shared.request("GET", "/api/queue/status/known", headers=cookie).status_code == 200
    assert User("bob", shared).check("known", headers=form).status_code == 200


@pytest.fixture
def shared(queue, operator):
    operator.register("known", threshold=5)
    return queue()


class TicketService:
    """GET /internal/events/{id}/queue-info, as the ticket service answers it."""

    def __init__(self):
        service = self
        self.asked, self.known, self.delay, self.status = [], {}, 0, 200

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                service.asked.append((self.path, self.headers["Authorization"]))
                time.sleep(service.delay)
                body = service.known.get(self.path.split("/")[3])
                data = (body or "{}").encode()
                self.send_response(service.status if body or service.status != 200 else 404)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def test_the_ticket_service_is_asked_once_for_all_who_wait(queue, operator):
    tickets = TicketService()
    tickets.known["abc"] = '{"title":"From tickets","artist":"BTS"}'
    tickets.delay = 0.3
    daemon = queue(TICKET_SERVICE_URL=tickets.url, INTERNAL_API_TOKEN="i" * 32, WORKERS=1)
    users = [User(f"u{i}", daemon) for i in range(50)]
    answers = kit.join_all([daemon], "abc", users)
    assert {status for status, _ in answers} == {200}
    assert answers[0][1]["eventInfo"] == {"title": "From tickets", "artist": "BTS"}
    assert tickets.asked == [("/internal/events/abc/queue-info", "Bearer " + "i" * 32)]
    tickets.delay = 0
    # Unknown is remembered too, for a shorter time.
    assert [users[0].check("nope").status_code for _ in range(3)] == [404] * 3
    assert len(tickets.asked) == 2
    assert not operator.redis.keys("{nope}*"), "a made-up event leaves something in Redis"
    # Away is not unknown; who is known stays known.
    tickets.status = 500
    assert users[0].check("other").status_code == 503
    tickets.close()
    away = users[0].check("third")
    assert away.status_code == 503 and int(away.headers["Retry-After"]) >= 1
    assert users[0].status("abc").status_code == 200


def test_a_newly_registered_event_is_known_at_once(queue, operator):
    daemon = queue()
    ann = User("ann", daemon)
    assert ann.check("late").status_code == 404
    operator.register("late")
    process.eventually(lambda: ann.check("late").status_code == 200, 2)


def test_2000_at_the_same_moment_fill_exactly_the_threshold(queue, operator):
    daemons = [queue(), queue()]
    operator.register("rush", threshold=100)
    users = [User(f"user-{i:04}", *daemons) for i in range(2000)]
    answers = kit.join_all(daemons, "rush", users)
    assert {status for status, _ in answers} == {200}
    states = [body["status"] for _, body in answers]
    assert states.count("active") == 100 and states.count("queued") == 1900
    assert len(operator.active("rush")) == 100 and len(operator.waiting("rush")) == 1900
    numbers = operator.numbers("rush")
    assert len(set(numbers)) == 1900 and numbers == sorted(numbers)


def test_the_old_parameter_moves_nobody(queue, operator):
    daemon = queue()
    operator.register("ev1", threshold=1)
    for name in ("ann", "bob", "eve"):
        User(name, daemon).check("ev1")
    cheat = User("zoe", daemon)
    assert cheat.call("POST", "/api/queue/check/ev1?vwrPosition=0").json()["position"] == 3
    assert cheat.call("POST", "/api/queue/check/ev1?vwrPosition=1").json()["position"] == 3


def test_an_active_room_sends_newcomers_to_tier_1(queue, operator):
    daemon = queue()
    operator.register("ev1", threshold=1)
    ann, bob = User("ann", daemon), User("bob", daemon)
    ann.check("ev1")
    bob.check("ev1")
    operator.room.run("room", "ev1", "activate", "op", 0)
    refused = User("eve", daemon).check("ev1")
    assert refused.status_code == 403
    assert refused.json()["redirectTo"] == "/vwr/ev1" and refused.json()["error"]
    # Those who have a place or a slot go on.
    assert bob.check("ev1").json()["position"] == 1
    assert ann.check("ev1").json()["status"] == "active"


def test_a_full_queue_and_a_wait_too_long_refuse_newcomers(queue, operator):
    daemon = queue()
    operator.register("full", threshold=0, maxLength=2)
    for i in range(2):
        assert User(f"u{i}", daemon).check("full").status_code == 200
    refused = User("late", daemon).check("full")
    assert refused.status_code == 503 and refused.headers["Retry-After"] == "30"
    assert refused.json()["error"]["code"] == "QUEUE_FULL" and refused.json()["error"]["retry_after"] == 30
    operator.register("slow", threshold=0, maxWait=1000)
    for i in range(60):
        User(f"u{i}", daemon).check("slow")
    refused = User("late", daemon).check("slow")
    assert refused.status_code == 429 and refused.json()["error"]["code"] == "WAIT_TOO_LONG"
    assert User("u3", daemon).check("slow").json()["position"] == 4


def test_closing_and_opening_time_are_told(queue, operator):
    daemon = queue()
    opens = int(time.time() * 1000) + 3_600_000
    operator.register("ev1", threshold=10, opensAt=opens)
    ann = User("ann", daemon)
    ann.check("ev1")

    def told():
        body = ann.status("ev1").json()
        return body if body.get("opensAt") == opens else None
    body = process.eventually(told, 5)
    assert body["status"] == "queued" and body["estimatedWait"] >= 3590
    operator.configure("ev1", opensAt=0)
    process.eventually(lambda: ann.status("ev1").json()["status"] == "active", 5)
    operator.configure("ev1", threshold=1)
    bob = User("bob", daemon)
    assert bob.check("ev1").json()["status"] == "queued"
    operator.configure("ev1", closedReason="sold_out", closed=1)
    for body in (bob.status("ev1").json(), bob.check("ev1").json(), User("eve", daemon).check("ev1").json()):
        assert body["status"] == "closed" and body["queued"] is False and body["reason"] == "sold_out"
    # Who is inside may finish.
    assert ann.status("ev1").json()["status"] == "active"


def test_a_slot_is_told_until_its_end_and_not_longer(queue, operator):
    daemon = queue(QUEUE_ACTIVE_TTL_SECONDS=2)
    operator.register("ev1", threshold=1)
    ann = User("ann", daemon)
    token = ann.check("ev1").json()["entryToken"]
    exp = jwt.decode(token, kit.ENTRY_SECRET, algorithms=["HS256"])["exp"]
    assert exp <= time.time() + 2
    process.eventually(lambda: ann.status("ev1").json()["status"] == "not_in_queue", 5)
    process.eventually(lambda: not operator.active("ev1"), 5)
    assert ann.check("ev1", headers={"x-queue-entry-token": token}).json()["status"] == "active"


def test_an_emptied_event_leaves_the_list_and_comes_back(queue, operator):
    daemon = queue()
    operator.register("ev1")
    ann = User("ann", daemon)
    ann.check("ev1")
    process.eventually(lambda: operator.redis.smembers("queue:active-events") == {"ev1"}, 5)
    ann.leave("ev1")
    process.eventually(lambda: not operator.redis.smembers("queue:active-events"), 5)
    ann.place = None
    ann.check("ev1")
    process.eventually(lambda: operator.redis.smembers("queue:active-events") == {"ev1"}, 5)


def test_an_emptied_event_is_forgotten_a_day_later(queue, operator):
    redis, day_ago = operator.redis, int(time.time() * 1000) - 25 * 3600 * 1000
    daemon = queue(QUEUE_STALE_CLEANUP_INTERVAL_MS="100")
    operator.register("ev1")
    ann = User("ann", daemon)
    ann.check("ev1")
    ann.leave("ev1")
    process.eventually(lambda: redis.zrange("queue:emptied-events", 0, -1) == ["ev1"], 5)
    process.eventually(lambda: redis.hexists("{ev1}:state", "emptySince"), 5)
    assert redis.hlen("{ev1}:pos-owner") == 1
    redis.hset("{ev1}:state", "emptySince", day_ago)
    process.eventually(lambda: not redis.exists("{ev1}:pos-owner"), 5)
    redis.zadd("queue:emptied-events", {"ev1": day_ago - 26 * 3600 * 1000})
    process.eventually(lambda: not redis.exists("queue:emptied-events"), 5)


def test_small_when_idle_and_counted(queue, operator):
    daemon = queue()
    operator.register("ev1")
    User("ann", daemon).check("ev1")
    assert daemon.metric('urr_queue_visits_total{status="active"}') == 1
    if "asan" not in os.environ.get("URR_BUILD", ""):
        assert daemon.rss_kb() < 32 * 1024


def test_readiness_complains_about_a_redis_that_may_forget(queue, operator):
    operator.redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        daemon = queue(ready="/health")
        assert "noeviction" in daemon.wait("/readyz", 503, 10).text
        operator.register("ev1")
        assert User("ann", daemon).check("ev1").status_code == 200, "it serves all the same"
    finally:
        operator.redis.config_set("maxmemory-policy", "noeviction")


def run_to_end(settings):
    env = {**{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, **settings,
           "QUEUE_PORT": str(process.free_port())}
    return subprocess.run([program("urr-queue")], env=env, stdin=subprocess.DEVNULL, timeout=20, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


@pytest.mark.parametrize("wrong, text", [
    ({"VWR_TOKEN_SECRET": kit.ENTRY_SECRET}, "must differ"),
    ({"QUEUE_ENTRY_TOKEN_SECRET": "short"}, "at least 32"),
    ({"JWT_SECRET": ""}, "JWT_SECRET"),
    ({"REDIS_URL": "rediss://127.0.0.1:1/0"}, "REDIS_URL"),
])
def test_wrong_settings_end_the_start_with_a_plain_sentence(redis_url, wrong, text):
    ended = run_to_end({name: str(value) for name, value in {**kit.settings(redis_url), **wrong}.items()})
    assert ended.returncode != 0 and text in ended.stdout


def test_a_cluster_is_refused_at_the_start(redis_url, tmp_path):
    port = process.free_port()
    cluster = subprocess.Popen(["redis-server", "--port", str(port), "--cluster-enabled", "yes", "--bind",
                                "127.0.0.1", "--dir", str(tmp_path), "--save", ""], stdout=subprocess.DEVNULL)
    try:
        process.eventually(lambda: subprocess.run(["redis-cli", "-p", str(port), "ping"], check=False,
                                                  capture_output=True).stdout.startswith(b"PONG"), 10)
        settings = kit.settings(f"redis://127.0.0.1:{port}/0")
        ended = run_to_end({name: str(value) for name, value in settings.items()})
    finally:
        cluster.kill()
        cluster.wait()
    assert ended.returncode == 1 and "Redis Cluster" in ended.stdout


def test_one_tier_1_pass_shared_by_1000_accounts_helps_one(queue, operator):
    daemons = [queue(), queue()]
    operator.register("ev1", threshold=0)
    operator.room.run("room", "ev1", "activate", "op", 0)
    assigned = daemons[0].request("POST", "/vwr/assign/ev1", json={"userId": "anon-1"}).json()
    for i in range(5):  # others, behind
        daemons[0].request("POST", "/vwr/assign/ev1", json={"userId": f"later-{i}"})

    def admitted():
        body = daemons[0].get(f"/vwr/check/ev1/{assigned['requestId']}?userId=anon-1").json()
        return body if body.get("admitted") else None
    shared_pass = process.eventually(admitted, 15)["token"]
    users = [User(f"account-{i}", *daemons) for i in range(1000)]
    answers = kit.crowd((daemons[i % 2], "POST", "/api/queue/check/ev1", {**user.headers, "x-vwr-token": shared_pass})
                        for i, user in enumerate(users))
    states = [status for status, _ in answers]
    assert states.count(200) == 1 and states.count(403) == 999
    winner = states.index(200)
    assert answers[winner][1]["position"] == 1
    assert operator.numbers("ev1")[0] % (1 << 33) == assigned["position"]
    refused = next(body for status, body in answers if status == 403)
    assert refused["redirectTo"] == "/vwr/ev1"
    # Forged, of another event, with the wrong secret: no pass.
    for bad in (shared_pass[:-2] + "xx", jwt.encode({"sub": "ev1", "uid": "a", "tier": 1, "pos": 1, "rid": "x",
                                                     "exp": int(time.time()) + 60}, "k" * 40)):
        assert users[500].check("ev1", headers={"x-vwr-token": bad}).status_code == 403
    # And a Tier 1 pass is no entry token.
    assert operator.active("ev1") == []

"""urr-stats: what the figures say after events of every kind, and that the API is the one promised."""
import base64
import datetime
import json
import os
import re
import secrets
import threading
import time
import uuid

import jsonschema
import jwt
import psycopg2
import pytest
import requests
import yaml
from confluent_kafka import Producer

from harness.daemon import Daemon
from harness.process import eventually
from harness.stack import ROOT, Stack

SECRET = base64.b64encode(secrets.token_bytes(48)).decode()
DAY = 86400
OPENAPI = yaml.safe_load(open(os.path.join(ROOT, "docs/openapi-stats.yaml")))


def token(role="admin", seconds=600):
    return jwt.encode({"userId": "op@example.com", "role": role, "exp": int(time.time()) + seconds},
                      base64.b64decode(SECRET), algorithm="HS256")


class World:
    """One broker and one daemon for the whole file: a group's offsets live in its database."""

    def __init__(self, folder):
        self.stack = Stack()
        self.stack.topics()
        self.database = self.stack.database("stats")
        self.producer = Producer({"bootstrap.servers": self.stack.kafka.brokers, "linger.ms": 1})
        self.settings = {"STATS_DATABASE_URL": self.database, "KAFKA_BROKERS": self.stack.kafka.brokers,
                         "JWT_SECRET": SECRET, "KAFKA_GROUP_INSTANCE_ID": "stats-1"}
        self.folder = folder
        self.daemon = self.start()

    def start(self, **settings):
        count = len(os.listdir(self.folder))
        return Daemon("urr-stats", {**self.settings, **settings}, f"{self.folder}/{count}.log",
                      "STATS_PORT").start()

    def publish(self, topic, key, *events):
        for event in events:
            value = event if isinstance(event, bytes) else json.dumps(event).encode()
            self.producer.produce(topic, value, key)
        assert self.producer.flush(20) == 0

    def rows(self, sql, *values):
        with psycopg2.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall()

    def ask(self, path, **options):
        headers = {"Authorization": "Bearer " + token()}
        return self.daemon.get("/api/stats" + path, headers=headers, **options)

    def settled(self):
        """Waits until everything published so far is counted."""
        def caught_up():
            then, = self.rows("SELECT min(caught_up_at) FROM consumer_offsets")[0]
            return then is not None and then > before
        before, = self.rows("SELECT now()")[0]
        eventually(caught_up, 30, what="urr-stats has caught up")

    def fresh_answer(self, path):
        time.sleep(1.1)  # an answer is kept for a second by contract
        response = self.ask(path)
        assert response.status_code == 200, response.text
        return response.json()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(str(tmp_path_factory.mktemp("stats")))
    yield world
    world.daemon.kill()
    world.stack.close()


def stamp(seconds_ago=0):
    return int((time.time() - seconds_ago) * 1000)


def payment(kind="PAYMENT_CONFIRMED", amount=50000, **more):
    return {"type": kind, "paymentId": str(uuid.uuid4()), "orderId": "o1", "userId": "u",
            "reservationId": str(uuid.uuid4()), "amount": amount, "timestamp": stamp(),
            **({"reason": "asked"} if kind == "PAYMENT_REFUNDED" else {"paymentMethod": "card"}), **more}


def reservation(kind, event_id, amount=50000, **more):
    return {"type": kind, "sagaId": str(uuid.uuid4()), "reservationId": str(uuid.uuid4()), "userId": "u",
            "eventId": event_id, "totalAmount": amount, "timestamp": stamp(), **more}


def test_every_kind_of_event_reaches_its_figure_once(world):
    before = world.fresh_answer("/overview")["totals"]
    events_id = str(uuid.uuid4())
    paid, refunded = payment(), payment("PAYMENT_REFUNDED", 20000)
    world.publish("payment-events", "o1", paid, refunded, paid,  # the same payment twice
                  payment(amount=7000, paymentType="transfer", referenceId=str(uuid.uuid4())),
                  payment(amount=3000, paymentType="membership", referenceId=str(uuid.uuid4())))
    confirmed = reservation("RESERVATION_CONFIRMED", events_id, paymentMethod="card")
    world.publish("reservation-events", "r", reservation("RESERVATION_CREATED", events_id), confirmed,
                  confirmed, reservation("RESERVATION_CANCELLED", events_id, 20000, reason="refunded"),
                  reservation("RESERVATION_CANCELLED", events_id, reason="expired"))
    transfer = {"sagaId": "s", "transferId": str(uuid.uuid4()), "reservationId": str(uuid.uuid4()),
                "sellerId": "a", "timestamp": stamp()}
    world.publish("transfer-events", "t",
                  {"type": "TRANSFER_COMPLETED", "buyerId": "b", "totalPrice": 7000, **transfer},
                  {"type": "TRANSFER_CANCELLED", "reason": "user", **transfer})
    world.publish("membership-events", "m",
                  {"type": "MEMBERSHIP_ACTIVATED", "sagaId": "s", "membershipId": str(uuid.uuid4()),
                   "userId": "u", "artistId": str(uuid.uuid4()), "timestamp": stamp()})
    world.settled()
    after = world.fresh_answer("/overview")["totals"]
    grown = {name: after[name] - before[name] for name in after}
    assert grown == {
        "totalReservations": 1, "confirmedReservations": 1, "cancelledReservations": 2,
        "totalRevenue": 50000, "refundedRevenue": 20000, "netRevenue": 30000,
        "paymentRevenue": 60000, "refunds": 20000, "netPaymentRevenue": 40000,
        "transfers": 1, "transferAmount": 7000, "memberships": 1}
    event = world.fresh_answer(f"/events/{events_id}")
    assert (event["confirmedReservations"], event["netRevenue"], event["averageOrderValue"]) == (1, 30000, 50000)
    assert world.fresh_answer("/cancellations?days=1")["reasons"]["expired"] >= 1
    assert world.fresh_answer("/realtime")["currentHour"]["payments"] >= 3


def test_days_are_those_of_the_time_zone_and_of_the_event(world):
    event_id = str(uuid.uuid4())
    # 15:30 in London is half past midnight of the next day in Seoul.
    world.publish("reservation-events", "r",
                  reservation("RESERVATION_CREATED", event_id, timestamp="2026-03-01T15:30:00Z"))
    world.settled()
    days = world.fresh_answer(f"/events/{event_id}")["days"]
    assert [day["date"] for day in days] == ["2026-03-02"]
    hour, = world.rows("SELECT hour FROM hourly_stats WHERE hour = '2026-03-01 15:00Z'")[0]
    assert hour == datetime.datetime(2026, 3, 1, 15, tzinfo=datetime.timezone.utc)


def test_what_breaks_the_rules_is_a_dead_letter_with_its_reason(world):
    world.publish("payment-events", "bad", b"\x00\xffnot json", payment(amount=-1),
                  payment(kind="PAYMENT_TELEPORTED"))
    world.settled()
    reasons = world.rows("""SELECT convert_from(v, 'UTF8') FROM outbox,
                            unnest(header_names, header_values) AS h (n, v)
                            WHERE topic = 'payment-events.dlq' AND n LIKE '%%reason%%'""")
    assert {"bad_json", "bad_amount", "unknown_type"} <= {reason for reason, in reasons}


def test_counts_stay_exact_over_kill_9(world):
    event_id = str(uuid.uuid4())
    batch = [reservation("RESERVATION_CREATED", event_id) for _ in range(3000)]
    for start in range(0, 3000, 500):
        world.publish("reservation-events", f"k{start}", *batch[start:start + 500])
        world.daemon.kill()
        world.daemon.start(ready=None)
    world.daemon.wait("/readyz", 200)
    eventually(lambda: world.rows("SELECT total_reservations FROM event_stats WHERE event_id = %s",
                                  event_id) == [(3000,)], 40, what="3000 reservations counted once")


def test_an_answer_is_one_snapshot_while_events_pour_in(world):
    first = world.fresh_answer("/overview")
    gap = first["totals"]["totalReservations"] - first["today"]["totalReservations"]
    stop = threading.Event()

    def pour():
        while not stop.is_set():
            world.publish("reservation-events", "pour",
                          *[reservation("RESERVATION_CREATED", "pour") for _ in range(200)])
    thread = threading.Thread(target=pour)
    thread.start()
    seen = set()
    try:
        eventually(lambda: [look(world, seen, gap)] and len(seen) >= 5, 30,
                   what="five different snapshots were looked at")
    finally:
        stop.set()
        thread.join()


def look(world, seen, gap):
    answer = world.ask("/overview").json()
    assert answer["totals"]["totalReservations"] - answer["today"]["totalReservations"] == gap
    seen.add(answer["totals"]["totalReservations"])


def test_keys_are_forgotten_only_where_nobody_can_count_twice(world):
    """After the tests of days long past: it moves the bound for good."""
    world.daemon.stop()
    world.daemon = world.start(STATS_PRUNE_AFTER_DAYS="1")
    eventually(lambda: world.rows("SELECT 1 FROM stats_generations WHERE pruned_before IS NOT NULL"), 20,
               what="the bound has moved")
    old = reservation("RESERVATION_CREATED", str(uuid.uuid4()), timestamp=stamp(3 * DAY))
    old_payment = payment(timestamp=stamp(3 * DAY))
    world.publish("reservation-events", "old", old)
    world.publish("payment-events", "old", old_payment)
    world.settled()
    key = f"PAYMENT_CONFIRMED:{old_payment['paymentId']}"
    assert world.rows("SELECT 1 FROM processed_events WHERE event_key = %s", key) == [(1,)]
    assert world.rows("SELECT 1 FROM event_stats WHERE event_id = %s", old["eventId"]) == []
    assert world.rows("""SELECT count(*) FROM outbox WHERE topic = 'reservation-events.dlq'
                         AND convert_to('older_than_pruned', 'UTF8') = ANY (header_values)""") == [(1,)]
    eventually(lambda: world.rows("""SELECT count(*) FROM processed_events
                                     WHERE event_key LIKE 'RESERVATION%%:1772379000000'""") == [(0,)], 30,
               what="the key of 2026-03-01 is forgotten")
    assert world.rows("SELECT count(*) > 0 FROM processed_events WHERE event_key LIKE 'PAYMENT%%'") == [(True,)]


# The API ------------------------------------------------------------------------------------------

def resolve(schema):
    """References inlined and `nullable` put the way JSON Schema says it."""
    if isinstance(schema, list):
        return [resolve(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = OPENAPI
        for part in schema["$ref"][2:].split("/"):
            target = target[part]
        return resolve(target)
    done = {name: resolve(value) for name, value in schema.items() if name != "nullable"}
    if schema.get("nullable"):
        done["type"] = [done["type"], "null"]
    return done


def check(response, path, status="200"):
    assert response.status_code == int(status), response.text
    described = resolve(OPENAPI["paths"][path]["get"]["responses"][status])
    schema = described["content"]["application/json"]["schema"]
    jsonschema.validate(response.json(), schema, format_checker=jsonschema.draft7_format_checker)


@pytest.mark.parametrize("path", sorted(OPENAPI["paths"]))
def test_the_answer_is_what_the_openapi_file_says(world, path):
    event_id = str(uuid.uuid4())
    world.publish("reservation-events", "r", reservation("RESERVATION_CONFIRMED", event_id, paymentMethod="x"))
    world.settled()
    asked = path.replace("{eventId}", event_id)
    check(world.ask(asked), path)
    check(world.daemon.get("/api/v1/stats" + asked, headers={"Authorization": "Bearer " + token()}), path)
    check(world.daemon.get("/api/stats" + asked), path, "401")
    check(world.daemon.get("/api/stats" + asked, headers={"Authorization": "Bearer " + token("user")}), path,
          "403")
    assert "503" in OPENAPI["paths"][path]["get"]["responses"]


def test_the_daemon_has_no_path_that_the_openapi_file_does_not_know():
    source = open(os.path.join(ROOT, "consumers/stats/stats_api.c")).read()
    assert sorted(re.findall(r'BOTH\("([^"]+)"', source)) == sorted(OPENAPI["paths"])


@pytest.mark.parametrize("path, query", [
    ("/daily", "days=0"), ("/daily", "days=367"), ("/daily", "days=1e3"), ("/daily", "days="),
    ("/daily", "days=99999999999999999999"), ("/events", "limit=101"), ("/events", "sortBy=drop%20table"),
    ("/revenue", "period=yearly"), ("/hourly-traffic", "days=-1"), ("/conversion", "days=%2b5"),
    ("/cancellations", "days=five")])
def test_a_bad_parameter_is_refused_by_name(world, path, query):
    response = world.ask(f"{path}?{query}")
    check(response, path, "400")
    assert query.split("=")[0] in response.json()["error"]["message"]


def test_an_unknown_event_is_not_found_whatever_its_name(world):
    for name in ("nope", "%27%20OR%201=1%20--", "x" * 128):
        check(world.ask(f"/events/{name}"), "/events/{eventId}", "404")
    check(world.ask("/events/" + "x" * 129), "/events/{eventId}", "400")


def test_forged_tokens_are_refused(world):
    claims = {"userId": "x", "role": "admin", "exp": int(time.time()) + 60}
    key = base64.b64decode(SECRET)
    forged = [jwt.encode(claims, b"another secret of at least thirty-two bytes", algorithm="HS256"),
              jwt.encode(claims, key, algorithm="HS512"), jwt.encode(claims, None, algorithm="none"),
              jwt.encode({**claims, "exp": 1}, key, algorithm="HS256"), "x.y.z", ""]
    for bad in forged:
        response = world.daemon.get("/api/stats/overview", headers={"Authorization": "Bearer " + bad})
        assert response.status_code == 401, bad


def test_the_api_says_so_while_the_database_is_away_and_comes_back(world):
    world.stack.act("kill", "pg")
    try:
        eventually(lambda: world.ask("/overview").status_code == 503, 20, what="503 without PostgreSQL")
        check(world.ask("/payments"), "/payments", "503")
        world.daemon.wait("/readyz", 503)
        assert world.daemon.get("/healthz").status_code == 200
    finally:
        world.stack.act("start", "pg")
    world.daemon.wait("/readyz", 200)
    eventually(lambda: world.ask("/overview").status_code == 200, 20, what="answers again")


def test_settings_are_refused_by_name(world, tmp_path):
    for setting, value in (("STATS_TIME_ZONE", "Mars/Olympus"), ("JWT_SECRET", "short"),
                           ("STATS_PRUNE_AFTER_DAYS", "-1")):
        bad = Daemon("urr-stats", {**world.settings, setting: value}, str(tmp_path / setting), "STATS_PORT")
        bad.start(ready=None)
        assert bad.child.wait(20) != 0
        log = open(bad.log_path).read()
        assert setting in log and SECRET not in log


def test_a_wall_of_dashboards_costs_one_query_a_second(world):
    with requests.Session() as session:
        session.headers["Authorization"] = "Bearer " + token()
        before, = world.rows("SELECT sum(calls) FROM (SELECT xact_commit AS calls FROM pg_stat_database "
                             "WHERE datname = current_database()) x")[0]
        start = time.time()
        for _ in range(500):
            assert session.get(world.daemon.url + "/api/stats/daily").status_code == 200
        took = time.time() - start
    eventually(lambda: True, 1)
    after, = world.rows("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")[0]
    # The consumer's own look-ups (a few per second) and our two connections are in the figure too.
    assert after - before < 60 + 15 * took, f"{after - before} transactions for 500 answers in {took:.1f} s"

"""urr-ticket-consumer end to end: every row of the saga table through real Kafka, order, poison."""
import json
import os
import time

import pytest
from harness.daemon import Daemon
from harness.process import eventually as eventually_
from test_sql_saga import ROWS, bought
from ticket_world import TABLES, Pipe, TicketWorld, new_id, to_json


@pytest.fixture
def w(ticket_db, kafka, topic_prefix, daemon, eventually):
    world = TicketWorld(ticket_db, Pipe(kafka, topic_prefix), daemon, eventually)
    yield world
    world.close()


# --- every row of the table: one consumer, the database emptied between rows ---------------------------

@pytest.fixture(scope="module")
def shared(stack_of_the_run, tmp_path_factory):
    stack = stack_of_the_run
    pipe = Pipe(stack.kafka.brokers, f"rows{os.getpid()}-{stack.number()}-")
    url = stack.database("ticket")
    log = str(tmp_path_factory.mktemp("rows") / "urr-ticket-consumer.log")
    consumer = Daemon("urr-ticket-consumer", pipe.settings(url, CONSUMER_LINGER_MS="0"), log,
                      "TICKET_CONSUMER_PORT")
    consumer.start()
    yield pipe, url, consumer
    assert consumer.stop() == 0
    assert consumer.sanitizer_report() is None
    stack.drop_database(url)


@pytest.fixture
def row_world(shared):
    pipe, url, consumer = shared
    world = TicketWorld(url, pipe, None, eventually_)
    world.run(f"TRUNCATE {TABLES}")
    # The rows play with past holds: no sweeper may come between.
    world.run("ALTER TABLE reservations DISABLE TRIGGER reservations_deadline")
    world.artist = world.one("INSERT INTO artists (name, membership_price) VALUES ('IU', 30000) RETURNING id")
    world.event = world.one("INSERT INTO events (title, artist_id) VALUES ('Seats', %s) RETURNING id", world.artist)
    yield world
    world.close()


@pytest.mark.parametrize("name", ROWS)
def test_row(row_world, name):
    """Once; then as a duplicate; then after its key was forgotten."""
    w = row_world
    event, outcome, reason, followups, claim = ROWS[name](w)
    before = w.state()
    seen = w.seen()
    w.publish(event)
    w.drained()
    letters = w.letters()
    if outcome == "dead":
        assert [(each["urr-reason"], each["topic"]) for each in letters] == [(reason, w.pipe.topic + ".dlq")]
        assert json.loads(letters[0]["value"]) == to_json(event)
        assert w.seen() == seen, "a dead letter leaves no key"
        w.run("DELETE FROM outbox WHERE header_names IS NOT NULL")
        assert w.state() == before
    else:
        assert letters == [] and w.seen() == seen + 1
    assert w.followups() == followups
    assert claim()
    after = w.state()
    for forgotten in (False, True):
        if forgotten:
            w.run("DELETE FROM processed_events")
        w.publish(event)
        w.drained()
        assert [each["urr-reason"] for each in w.letters()] == ([reason] if outcome == "dead" else [])
        w.run("DELETE FROM outbox WHERE header_names IS NOT NULL")
        assert w.state() == after
    w.check_all(but=["deadline"])


# --- order ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("batched", [True, False], ids=["in one batch", "one by one"])
def test_events_of_one_entity_take_effect_in_their_order(w, batched):
    """Early, late and doubled arrivals; in one batch they must come to the same as one by one."""
    early, twice, asked, resold = (w.reservation(user=f"o{i}") for i in range(4))
    key = "one-partition"
    events = [w.refunded("early"), w.confirmed(early, "early"),                  # the refund came first
              w.confirmed(twice, "first"), w.confirmed(twice, "second"),         # paid twice
              w.confirmed(asked, "asked"), w.refunded("asked"),                  # paid, then given back
              w.confirmed(asked, "after"),                                       # and paid once more, too late
              w.confirmed(resold, "resold", user="o3")]
    if batched:
        w.publish(*events, key=key)
        w.start()
    else:
        w.start(CONSUMER_BATCH_SIZE="1")
        for event in events:
            w.publish(event, key=key)
    w.drained()
    assert [w.reservation_row(r)[0] for r in (early, twice, asked, resold)] == \
        ["pending", "confirmed", "refunded", "confirmed"]
    assert {p: w.ledger(p) for p in ("early", "first", "second", "asked", "after")} == {
        "early": "refunded", "first": "applied", "second": "refund_requested", "asked": "refunded",
        "after": "refund_requested"}
    told = [(json.loads(value)["type"], json.loads(value).get("paymentId")) for _, _, value in w.followups()]
    assert sorted(told, key=str) == sorted([
        ("RESERVATION_CONFIRMED", None), ("PAYMENT_REFUND_REQUESTED", "second"), ("RESERVATION_CONFIRMED", None),
        ("RESERVATION_CANCELLED", None), ("PAYMENT_REFUND_REQUESTED", "after"), ("RESERVATION_CONFIRMED", None)],
        key=str)
    of_asked = [json.loads(value)["type"] for _, key, value in w.followups() if key == asked]
    assert of_asked == ["RESERVATION_CONFIRMED", "RESERVATION_CANCELLED"]

    tid = w.listing(resold, seller="o3")
    w.publish(bought(w, tid, payment="t1", user="bob"), bought(w, tid, payment="t2", user="eve"), key=key)
    w.drained()
    assert w.reservation_row(resold)[3] == "bob"
    assert (w.ledger("t1"), w.ledger("t2")) == ("applied", "refund_requested")
    w.check_all()


def test_the_internal_call_came_first(w):
    rid = w.reservation()
    assert w.rows("SELECT * FROM ticket_internal_confirm(%s, 'p1', 100000, 'card')", rid) == [("applied", None)]
    told = w.followups()
    w.start()
    w.publish(w.confirmed(rid))
    w.drained()
    assert w.followups() == told and len(told) == 1
    assert w.ledger() == "applied" and w.seen() == 1
    w.check_all()


def test_a_cancelled_ticket_is_refunded_end_to_end(w):
    """Paid, cancelled by its owner, the payment service answers: seats are free at the very end."""
    rid = w.reservation(saga="s1")
    w.start()
    w.publish(w.confirmed(rid))
    w.drained()
    assert w.rows("SELECT outcome FROM ticket_cancel(%s::uuid[], 'user', 'ann')", [rid]) == [("refund_requested",)]
    assert w.seat_states(rid) == ["sold", "sold"]
    request = next(json.loads(value) for topic, _, value in w.followups() if topic == "payment-commands")
    assert (request["sagaId"], request["paymentId"], request["amount"]) == ("s1", "p1", 100000)
    w.publish({"type": "PAYMENT_REFUNDED", "paymentId": request["paymentId"], "orderId": None, "userId": None,
               "reservationId": None, "referenceId": None, "paymentType": "reservation",
               "amount": request["amount"], "reason": "asked", "timestamp": int(time.time() * 1000)})
    w.drained()
    assert w.reservation_row(rid)[:2] == ("refunded", "refunded")
    assert w.seat_states(rid) == ["available", "available"]
    assert all(json.loads(value)["sagaId"] == "s1" for _, _, value in w.followups())


def test_legacy_events_and_both_kinds_of_time(w):
    one, two, three = (w.reservation(user=f"l{i}") for i in range(3))
    w.start()
    w.publish({"paymentId": "a", "orderId": "a", "userId": "l0", "reservationId": one, "amount": 100000,
               "paymentMethod": "card", "timestamp": "2024-05-01T12:00:00+09:00"},
              {"paymentId": "b", "orderId": "b", "userId": "l1", "reservationId": two, "amount": 100000})
    w.drained()
    w.publish({"paymentId": "b", "reason": "changed my mind", "orderId": None, "amount": 100000})
    w.publish({"type": "PAYMENT_CONFIRMED", "paymentType": None, "paymentId": "c", "orderId": "c",
               "reservationId": three.upper(), "amount": 100000, "timestamp": 1714532400000, "extra": {"x": [1]}})
    w.drained()
    assert [w.reservation_row(r)[0] for r in (one, two, three)] == ["confirmed", "refunded", "confirmed"]
    assert '"timestamp":"2024-05-01T03:00:00.000Z"' in w.followups()[0][2] + w.followups()[1][2]
    assert w.letters() == []


def test_duplicates_of_every_kind_count_once(w):
    """Each payment three times: beside itself, later in the batch, and after a restart from the log's start."""
    places = w.bulk(300)
    for reservation in places:
        w.publish(w.pays(reservation), w.pays(reservation), wait=False)
    w.publish(*(w.pays(reservation) for reservation in places))
    consumer = w.start()
    w.drained()
    w.applied_once(places)
    consumer.stop()
    w.run("UPDATE consumer_offsets SET next_offset = 0, generation = generation + 1")
    consumer.start()
    w.drained()
    w.applied_once(places)
    assert w.seen() == 300


# --- poison --------------------------------------------------------------------------------------------

def test_poison_one_in_ten(w):
    """Undecodable, no UUID, unknown, and refused by a constraint: each is buried once, the rest applied."""
    w.run("ALTER TABLE payment_ledger ADD CONSTRAINT no_evil CHECK (user_id NOT LIKE 'evil%%')")
    places = w.bulk(1000)
    good, expected = [], {}
    for i, reservation in enumerate(places):
        key = f"k{i}"
        if i % 10 != 9:
            good.append(reservation)
            w.publish(w.pays(reservation), key=key, wait=False)
            continue
        kind = (i // 10) % 4
        value, reason = [
            (b"\xff{not json" + str(i).encode(), "bad_json"),
            (json.dumps({**to_json(w.pays(reservation)), "reservationId": "abc-123"}).encode(), "bad_subject_id"),
            (json.dumps({"type": "PAYMENT_WONDERED", "paymentId": "x"}).encode(), "unknown_type"),
            (json.dumps(to_json(w.pays(reservation, user="evil"))).encode(), "database_refused")][kind]
        expected[key] = (value, reason)
        w.publish(value, key=key, timestamp=1700000000000 + i, headers=[("trace", b"t%d" % i)], wait=False)
    w.publish()
    consumer = w.start(CONSUMER_LINGER_MS="500")
    w.drained(60)
    letters = w.letters()
    assert {each["key"].decode(): (each["value"], each["urr-reason"]) for each in letters} == expected
    assert len(letters) == 100
    for each in letters:
        assert each["topic"] == w.pipe.topic + ".dlq" and each["urr-topic"] == w.pipe.topic
        assert each["urr-group"] == w.pipe.group and each["urr-attempts"] == "1"
        assert each["trace"] == "t" + each["key"].decode()[1:] and each["timestamp"] >= 1700000000000
        assert each["urr-reason"] != "database_refused" or "no_evil" in each["urr-detail"]
    assert len({(each["urr-partition"], each["urr-offset"]) for each in letters}) == 100
    assert w.seen() == 900
    assert w.status_counts() == {"confirmed": 900, "pending": 100}
    assert consumer.metric(f'urr_consumer_events_total{{group="{w.pipe.group}",outcome="dead"}}') == 100
    more = w.bulk(3000)
    w.publish(*(w.pays(reservation) for reservation in more))
    began = time.monotonic()
    w.drained(30)
    print(f"after the poison: {3000 / (time.monotonic() - began):.0f} events/s")
    assert w.status_counts() == {"confirmed": 3900, "pending": 100}
    assert len(w.letters()) == 100
    w.check_all()


def test_poison_of_odd_sizes_and_bytes(w):
    rid = w.reservation()
    huge = json.dumps({**to_json(w.confirmed(rid)), "note": "x" * 1_000_000}).encode()
    bad = [b"", None, b"a\x00b", b"[]", huge, b'{"paymentId":"a\\u0000b","reservationId":"%s","amount":1}' % rid.encode(),
           json.dumps({**to_json(w.confirmed(rid)), "amount": 1.5}).encode(),
           json.dumps({**to_json(w.confirmed(rid)), "userId": "tab\there"}).encode(),
           json.dumps({**to_json(w.confirmed(rid)), "timestamp": 4102444800000}).encode()]
    w.publish(*bad, key="k", timestamp=1700000000123)
    w.publish(w.confirmed(rid))
    w.start()
    w.drained()
    letters = sorted(w.letters(), key=lambda each: int(each["urr-offset"]))
    assert [each["urr-reason"] for each in letters] == [
        "empty_value", "empty_value", "bad_json", "not_object", "too_large", "bad_json", "bad_amount", "bad_id",
        "timestamp_range"]
    assert [each["value"] for each in letters if each["urr-reason"] != "too_large"] == bad[:4] + bad[5:]
    assert letters[4]["urr-cut"] == str(len(huge)) and len(letters[4]["value"]) == 900_000
    assert w.reservation_row(rid)[0] == "confirmed" and w.seen() == 1


def test_a_redriven_letter_is_heard(w):
    """What became dead for a reason that has passed takes effect when it comes again."""
    rid = new_id()
    w.start()
    event = to_json(w.confirmed(rid, age=7200))
    w.publish(event)
    w.drained()
    assert [each["urr-reason"] for each in w.letters()] == ["subject_missing"]
    seat = w.seat("reserved", "ann", 7)
    w.run("INSERT INTO reservations (id, reservation_number, user_id, event_id, total_amount, expires_at)"
          " VALUES (%s, 'late', 'ann', %s, 100000, now() + interval '1 h')", rid, w.event)
    w.run("INSERT INTO reservation_items (reservation_id, seat_id, price, fencing_token) VALUES (%s, %s, 100000, 7)",
          rid, seat)
    w.publish(event, headers=[("urr-attempts", b"1")])
    w.drained()
    assert w.reservation_row(rid)[0] == "confirmed"


# --- what must stand still -------------------------------------------------------------------------------

def test_says_what_came_of_the_payments(w):
    consumer = w.start()
    places = w.bulk(3)
    w.publish(*(w.pays(reservation) for reservation in places))
    w.publish(w.pays(places[0], payment="again"), w.refunded("unheard-of"))
    w.publish(w.confirmed(new_id(), "old", age=7200))
    w.drained()

    def metric(name, **labels):
        text = ",".join(f'{k}="{v}"' for k, v in labels.items())
        return consumer.metric(f"{name}{{{text}}}" if labels else name)
    assert metric("urr_ticket_payments_total", kind="confirmed_reservation", outcome="applied") == 3
    assert metric("urr_ticket_payments_total", kind="confirmed_reservation", outcome="refund_requested") == 1
    assert metric("urr_ticket_payments_total", kind="confirmed_reservation", outcome="dead") == 1
    assert metric("urr_ticket_payments_total", kind="refunded", outcome="ledger_only") == 1
    assert metric("urr_ticket_refund_requests_total", reason="already_paid") == 1
    assert metric("urr_ticket_brake_requests") == 1 and metric("urr_ticket_brake_engaged") == 0


def test_old_keys_are_forgotten_young_ones_stay(w):
    w.run("INSERT INTO processed_events (event_key, consumer_group, processed_at)"
          " SELECT 'old' || g, %s, now() - interval '31 days' FROM generate_series(1, 5000) g", w.pipe.group)
    w.run("INSERT INTO processed_events (event_key, consumer_group, processed_at)"
          " SELECT 'young' || g, %s, now() - interval '29 days' FROM generate_series(1, 100) g", w.pipe.group)
    w.run("INSERT INTO processed_events (event_key, consumer_group, processed_at)"
          " VALUES ('another group''s', 'g2', now() - interval '99 days')")
    consumer = w.start()
    w.eventually(lambda: w.seen() <= 101, 15, what="old keys gone")
    assert w.rows("SELECT count(*) FROM processed_events WHERE event_key LIKE 'old%%'") == [(0,)]
    assert w.seen() == 101
    assert consumer.metric("urr_ticket_pruned_total") == 5000


def test_the_planted_fault_lets_events_leave_without_their_effect(w):
    """What the chaos checker must find: here the commit is made to fail, and the follow-up is out."""
    w.run("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
          " $$ BEGIN IF NEW.user_id = 'doomed' THEN RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation';"
          " END IF; RETURN NULL; END $$")
    w.run("CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON reservations DEFERRABLE INITIALLY DEFERRED"
          " FOR EACH ROW EXECUTE FUNCTION refuse()")
    rid = w.reservation(user="doomed")
    sound = w.start()
    w.publish(w.confirmed(rid))
    w.drained()
    assert w.followups() == [] and w.reservation_row(rid)[0] == "pending"
    sound.stop()
    w.start(URR_TEST_PUBLISH_BEFORE_COMMIT="1")
    w.publish(w.confirmed(rid, payment="p2"))
    w.drained()
    assert len(w.followups()) > 0 and w.reservation_row(rid)[0] == "pending"

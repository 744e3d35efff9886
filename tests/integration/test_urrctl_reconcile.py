"""urrctl reconcile and doctor: each planted trouble is found, exactly; what can be repaired is."""
import json

import pytest
import redis

from night_world import FOUND, OK, TICKET, USAGE, NightWorld
from sql_world import new_id


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = NightWorld(str(tmp_path_factory.mktemp("reconcile")))
    world.floor = world.standing(100)
    world.sold = world.created(world.reservation(seats=2))
    world.stood = world.created(world.reservation(standing=world.floor, quantity=3))
    world.open = world.created(world.reservation(seats=1))
    world.paid = new_id()
    world.publish(world.confirmed(world.sold, payment=world.paid),
                  world.confirmed(world.stood, payment=new_id(), amount=30000))
    world.publish(world.confirmed(new_id(), payment=new_id(), age=7200))  # a dead letter, and no difference
    world.settled()
    yield world
    world.close_all()


def differences(world, *arguments, code=FOUND):
    return world.ask("reconcile", *arguments, code=code)["differences"]


def seat(world, rid, n=0):
    return world.rows("SELECT seat_id::text FROM reservation_items WHERE reservation_id = %s ORDER BY 1", rid)[n][0]


def test_the_books_of_a_healthy_system_agree(world):
    answer = world.ask("reconcile")
    assert answer == {"found": 0, "left": 0, "differences": [], "skipped": []}
    assert "the books agree" in world.urrctl("reconcile").out


def test_seats_items_and_sums_are_found_exactly_and_repaired(world):
    lost, ghost = seat(world, world.sold), world.seat(status="sold", user="nobody")
    ended = world.reservation(status="cancelled", seats=1)
    world.run("UPDATE seats SET status = 'available', locked_by = NULL WHERE id = %s", lost)
    world.run("UPDATE seats SET status = 'sold' WHERE id = %s", seat(world, world.open))
    world.run("UPDATE reservation_items SET live = true WHERE reservation_id = %s", ended)
    world.run("UPDATE ticket_types SET available_quantity = 50 WHERE id = %s", world.floor)
    world.created(ended)
    world.run("INSERT INTO outbox (topic, key, value) VALUES ('reservation-events', %s, %s)", ended.encode(),
              json.dumps({"type": "RESERVATION_CANCELLED", "sagaId": ended, "reservationId": ended, "userId": "ann",
                          "eventId": str(world.event), "totalAmount": 50000, "reason": "user",
                          "timestamp": "2026-01-01T00:00:00Z"}).encode())
    world.run("UPDATE reservations SET cancel_reason = 'user' WHERE id = %s", ended)
    world.settled()
    found = {(d["check"], d["subject"]): (d["wanted"], d["found"]) for d in differences(world)}
    assert found == {
        ("seats", f"seat {lost}"): ("sold", "available"),
        ("seats", f"seat {ghost}"): ("available", "sold"),
        ("seats", f"seat {seat(world, world.open)}"): ("reserved", "sold"),
        ("items", next(s for c, s in found if c == "items")): ("not live (reservation cancelled)", "live"),
        ("standing", f"ticket type {world.floor}"): ("97 available", "50 available")}
    assert {d["state"] for d in differences(world, "--repair", "--dry-run")} == {"differs"}
    done = world.urrctl("reconcile", "--repair")
    assert done.code == USAGE and "--yes" in done.err
    assert {d["state"] for d in differences(world)} == {"differs"}
    assert {d["state"] for d in differences(world, "--repair", "--yes", code=OK)} == {"repaired"}
    world.ask("reconcile")
    assert world.one("SELECT available_quantity FROM ticket_types WHERE id = %s", world.floor) == 97
    assert world.rows("SELECT status, locked_by FROM seats WHERE id = %s", lost) == [("sold", "ann")]
    assert world.one("SELECT count(*) FROM operator_audit WHERE command = 'reconcile --repair'") == 1


def test_the_ledger_is_held_against_the_log_in_both_directions(world):
    amount, = world.rows("SELECT amount FROM payment_ledger WHERE payment_id = %s", world.paid)[0]
    world.run("UPDATE payment_ledger SET amount = 1 WHERE payment_id = %s", world.paid)
    world.run("INSERT INTO payment_ledger (payment_id, payment_type, amount, state, event_time, created_at)"
              " VALUES ('made-up', 'reservation', 5, 'rejected', now(), now() - interval '2 h')")
    found = differences(world, "--repair", "--yes")  # nothing here repairs itself
    assert {(d["check"], d["wanted"], d["found"], d["state"]) for d in found} == {
        ("payments", f"in the ledger with {amount}", "1", "differs"),
        ("payments", "an event in the log", "none", "differs")}
    assert all("urrctl" in d["wayOut"] for d in found)
    world.run("UPDATE payment_ledger SET amount = %s WHERE payment_id = %s", amount, world.paid)
    world.run("DELETE FROM payment_ledger WHERE payment_id = 'made-up'")
    kept = world.rows("DELETE FROM payment_ledger WHERE payment_id = %s RETURNING payment_id, order_id, payment_type,"
                      " subject_id::text, user_id, amount, state, event_time", world.paid)[0]
    assert {d["check"] for d in differences(world)} == {"payments", "ledger"}
    world.run("INSERT INTO payment_ledger (payment_id, order_id, payment_type, subject_id, user_id, amount, state,"
              " event_time) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", *kept)
    world.ask("reconcile")


def test_figures_that_differ_from_ticket_db_are_named(world):
    world.stats_rows("UPDATE event_daily_stats_gen SET total_revenue = total_revenue + 5 WHERE event_id = %s"
                     " AND total_revenue > 0", str(world.event))
    found, = differences(world)
    assert found["check"] == "stats" and found["subject"] == f"event {world.event}, total_revenue"
    assert int(found["found"]) == int(found["wanted"]) + 5 and found["wayOut"] == "urrctl stats rebuild"
    assert world.ask("stats", "rebuild", "--yes")["state"] == "switched"
    world.ask("reconcile")


def test_locks_that_postgresql_does_not_know_are_dropped(world):
    client = redis.Redis.from_url(world.stack.redis.url)
    good, bad = seat(world, world.open), world.seat()
    for each, token in ((good, 7), (bad, 3)):
        client.hset(f"seat:{{{world.event}}}:{each}", mapping={"status": "locked", "userId": "ann", "token": token})
        client.set(f"seat:{{{world.event}}}:{each}:token_seq", token)
    found, = differences(world)
    assert (found["check"], found["found"]) == ("redis", "locked by ann, token 3")
    assert differences(world, "--repair", "--yes", code=OK)[0]["state"] == "repaired"
    assert client.exists(f"seat:{{{world.event}}}:{good}") and not client.exists(f"seat:{{{world.event}}}:{bad}")
    client.flushall()


# --- doctor


def troubles(world, code=FOUND):
    return {(t["check"], t["page"].split("#")[1]): t for t in world.ask("doctor", code=code)["troubles"]
            if t["check"] != "disk"}  # of the machine the test runs on


def settled_doctor(world):
    """What the machine itself has is not ours to judge; else nothing."""
    answer = world.urrctl("doctor", "--json").json
    assert [t for t in answer["troubles"] if t["check"] != "disk"] == [], answer
    assert answer["looked"] > 15


def test_a_healthy_stack_has_no_troubles(world):
    world.settled()
    settled_doctor(world)


def test_each_planted_trouble_is_found_with_its_page(world):
    world.daemons["urr-relay"].kill()
    client = redis.Redis.from_url(world.stack.redis.url)
    before = {name: client.config_get(name)[name] for name in ("appendonly", "maxmemory-policy", "maxmemory")}
    world.run("INSERT INTO consumer_gaps (consumer_group, topic, partition, from_offset, to_offset)"
              " VALUES ('g', 'payment-events', 0, 5, 9)")
    world.run("INSERT INTO consumer_control (consumer_group, paused, reason, detail, changed_by)"
              " VALUES ('h', true, 'refund_brake', '30 of 40', 'consumer')")
    world.run("INSERT INTO consumer_control (consumer_group, paused, reason, changed_by)"
              " VALUES ('i', true, 'operator', 'ann')")
    world.run("INSERT INTO outbox (topic, value, created_at) VALUES ('payment-commands', '{}', now() - interval '2 min')")
    world.run("INSERT INTO outbox_failed (outbox_id, topic, created_at, reason)"
              " VALUES (1, 'payment-commands', now(), 'too large')")
    late = world.reservation(seats=1)
    world.run("UPDATE reservations SET expires_at = now() - interval '1 h' WHERE id = %s", late)
    world.run("UPDATE reservation_deadlines SET look_at = now() - interval '1 h' WHERE reservation_id = %s", late)
    world.run("INSERT INTO payment_ledger (payment_id, payment_type, amount, state, event_time, refund_decided_by,"
              " refund_reason, refund_requested_at) VALUES ('slow', 'reservation', 5, 'refund_requested', now(),"
              " 'user', 'user', now() - interval '3 h')")
    world.run("INSERT INTO redis_cleanup (cause, event_id, user_id, reservation_id, created_at)"
              " VALUES ('sold', %s, 'u', %s, now() - interval '10 min')", new_id(), new_id())
    world.daemons["urr-ticket-consumer"].kill()
    world.run("UPDATE consumer_offsets SET caught_up_at = now() - interval '10 min' WHERE consumer_group = %s", TICKET)
    world.run("DELETE FROM schema_migrations WHERE set_name = 'operator' AND version = 2")
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("appendonly", "no")
    found = troubles(world)
    want = {("gaps", "the-consumer-stopped-with-a-gap"), ("brake", "refund-brake"), ("paused", "consumer-paused"),
            ("outbox", "relay-stands-still"), ("outbox", "outbox-failed"), ("pending", "sweep-blocked"),
            ("refunds", "refund-unanswered"), ("redis_cleanup", "redis-cleanup"), ("caught up", "consumer-lag"),
            ("versions", "versions"), ("redis", "redis-unsafe")}
    assert not want - found.keys(), want - found.keys()
    assert all(t["level"] == "bad" for key, t in found.items() if key in want - {("redis_cleanup", "redis-cleanup")})
    text = world.urrctl("doctor")
    assert text.code == FOUND and "docs/runbook.md#refund-brake" in text.out
    for name, value in before.items():
        client.config_set(name, value)


def test_a_server_that_is_away_is_a_finding_and_the_rest_is_still_looked_at(world):
    found = world.ask("doctor", code=FOUND, KAFKA_BROKERS="127.0.0.1:1", REDIS_URL="redis://127.0.0.1:1/0",
                      PAYMENT_DATABASE_URL="postgresql://u:p@127.0.0.1:1/x")["troubles"]
    away = {t["check"] for t in found if t["page"].endswith("#server-away")}
    assert away == {"database", "redis", "kafka"}
    assert any(t["check"] == "gaps" for t in found)


def test_doctor_takes_no_words(world):
    assert world.urrctl("doctor", "now").code == USAGE

"""urrctl dlq and urrctl saga against running daemons: what they show, and what a redrive does."""
import json
import random
import signal
import time

import pytest

from harness.process import eventually
from night_world import OK, REFUSED, RETRY, STATS, TICKET, USAGE, NightWorld
from sql_world import new_id


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = NightWorld(str(tmp_path_factory.mktemp("letters")))
    yield world
    world.close_all()


def letters(world, *filters, count=None):
    """The open ones, once there are `count` of them."""
    def found():
        rows = world.ask("dlq", "list", *filters)["letters"]
        return (rows,) if count is None or len(rows) == count else None
    return eventually(found, 30, what=f"{count} letters {filters}")[0]


def what(story):
    return [step["what"] for step in story["steps"]]


def orphan(world, payment=None, **changes):
    """A payment for a reservation that is not there (any more), too old to be paid back by itself."""
    subject = new_id()
    return subject, world.confirmed(subject, payment=payment or new_id(), age=7200, **changes)


# --- saga: every outcome


def test_a_confirmed_saga_is_told_from_its_hold_to_its_follow_up(world):
    rid = world.created(world.reservation(saga="saga-" + new_id()))
    payment = new_id()
    world.publish(world.confirmed(rid, payment=payment))
    world.settled()
    saga, number = world.rows("SELECT saga_id, reservation_number FROM reservations WHERE id = %s", rid)[0]
    for name in (rid, saga, number, payment, "o-" + payment):
        story = world.ask("saga", name)
        assert story["sagaId"] == saga and "confirmed" in story["outcome"], name
        told = what(story)
        for step in ("reservation made", "RESERVATION_CREATED", "PAYMENT_CONFIRMED", "payment is applied",
                     "reservation is confirmed", "RESERVATION_CONFIRMED"):
            assert step in told, (name, step, told)
        assert sum(each.startswith("holds seat") for each in told) == 2
        assert [s["time"] for s in story["steps"]] == sorted(s["time"] for s in story["steps"])
    places = [s["where"] for s in story["steps"] if s["what"] == "PAYMENT_CONFIRMED"]
    assert len(places) == 1 and places[0].startswith("payment-events/")


def test_every_other_outcome_has_its_story(world):
    wrong = world.created(world.reservation(seats=1))
    cancelled = world.created(world.reservation(seats=1))
    refunded = world.created(world.reservation(seats=1))
    expired = world.created(world.reservation(seats=1))
    sold = world.created(world.reservation(seats=1))
    lost = world.created(world.reservation(seats=1))
    member = world.membership(user=new_id())
    ids = {name: new_id() for name in ("wrong", "refunded", "sold", "bought", "member", "lost")}
    world.run("UPDATE seats SET fencing_token = 99 WHERE id IN (SELECT seat_id FROM reservation_items"
              " WHERE reservation_id = %s)", lost)
    world.publish(world.confirmed(wrong, payment=ids["wrong"], amount=1),
                  world.confirmed(refunded, payment=ids["refunded"], amount=50000),
                  world.confirmed(sold, payment=ids["sold"], amount=50000),
                  world.confirmed(lost, payment=ids["lost"], amount=50000),
                  world.confirmed(member, payment=ids["member"], amount=30000, type="membership"))
    world.run("SELECT ticket_cancel(ARRAY[%s]::uuid[], 'admin')", cancelled)
    world.run("UPDATE reservations SET expires_at = now() - interval '1 h' WHERE id = %s", expired)
    world.run("UPDATE reservation_deadlines SET look_at = now() - interval '1 h' WHERE reservation_id = %s", expired)
    world.settled()
    listing = world.listing(sold, saga="t-" + new_id())
    world.publish(world.confirmed(listing, payment=ids["bought"], amount=70000, type="transfer", user="bob"),
                  world.refunded(ids["refunded"], amount=50000))
    world.settled()
    eventually(lambda: world.one("SELECT status FROM reservations WHERE id = %s", expired) == "expired", 40,
               what="the hold to expire")
    world.settled()
    for name, outcome, steps in (
            (wrong, "pending", ("refund requested", "PAYMENT_REFUND_REQUESTED")),
            (cancelled, "cancelled", ("reservation is cancelled (user)", "RESERVATION_CANCELLED")),
            (refunded, "refunded", ("PAYMENT_REFUNDED", "payment is refunded", "RESERVATION_CANCELLED")),
            (expired, "expired", ("reservation is expired (expired)", "RESERVATION_CANCELLED")),
            (lost, "seat_lost", ("reservation is cancelled (seat_lost)", "PAYMENT_REFUND_REQUESTED")),
            (listing, "transferred", ("listed for transfer", "transfer is completed", "TRANSFER_COMPLETED")),
            (member, "active", ("membership asked for", "joining", "MEMBERSHIP_ACTIVATED"))):
        story = world.ask("saga", name)
        assert outcome in story["outcome"], (name, story["outcome"])
        assert not set(steps) - set(what(story)), (outcome, what(story))


def test_a_saga_that_only_a_dead_letter_knows_is_found_in_the_log(world):
    subject, event = orphan(world)
    world.publish(event)
    letters(world, "--reason", "subject_missing", count=1)
    for name in (subject, event["payment"]):
        story = world.ask("saga", name)
        assert "not in ticket_db" in story["outcome"]
        assert {"PAYMENT_CONFIRMED", "dead letter: subject_missing"} <= set(what(story))
    world.ask("dlq", "discard", "--reason", "subject_missing", "--note", "a test's", "--yes")


def test_nothing_of_that_name_is_a_plain_refusal(world):
    done = world.urrctl("saga", "nobody-" + new_id())
    assert done.code == REFUSED and "neither in the databases nor in the log" in done.err


# --- dlq


def test_list_filters_and_show_tells_headers_body_and_saga(world):
    rid = world.created(world.reservation(seats=1))
    payment = new_id()
    world.publish(world.confirmed(rid, payment=payment, amount=50000))
    world.settled()
    world.publish(world.refunded(payment, amount=10))          # partial: a dead letter of ticket
    world.publish(b"{broken", key="k1")                        # of both groups
    rows = letters(world, count=3)
    assert sorted((row["reason"], row["group"]) for row in rows) == [
        ("bad_json", STATS), ("bad_json", TICKET), ("partial_refund", TICKET)]
    assert len(letters(world, "--group", STATS)) == 1
    assert len(letters(world, "--topic", "payment-events")) == 3
    assert letters(world, "--topic", "reservation-events") == []
    assert letters(world, "--until", "1d") == []
    partial, = letters(world, "--reason", "partial_refund")
    shown = world.ask("dlq", "show", partial["id"])
    letter, = shown["letters"]
    headers = {h["name"]: h["value"] for h in letter["headers"]}
    assert headers["urr-reason"] == "partial_refund" and headers["urr-attempts"] == "1"
    assert json.loads(letter["value"])["paymentId"] == payment
    assert "confirmed" in shown["outcome"] and "dead letter: partial_refund" in what(shown)
    text = world.urrctl("dlq", "show", partial["id"]).out
    assert "partial_refund" in text and "its saga:" in text and '"paymentId"' in text


def test_export_writes_every_byte_and_refuses_to_overwrite(world, tmp_path):
    target = tmp_path / "letters.jsonl"
    done = world.urrctl("dlq", "export", "--reason", "bad_json", "--out", str(target))
    assert done.code == OK, done.err
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(rows) == 2 and all(row["value"] == "{broken" and row["key"] == "k1" for row in rows)
    assert world.urrctl("dlq", "export", "--out", str(target)).code == USAGE


def test_an_unfixed_letter_is_redriven_until_the_fifth_attempt_and_one_record_stays_one(world):
    for attempt in range(1, 5):
        rows = letters(world, "--reason", "bad_json", count=2)  # one per group, however often
        assert {row["attempts"] for row in rows} == {attempt}
        done = world.ask("dlq", "redrive", "--reason", "bad_json", "--yes")
        assert (done["redriven"], done["twins"], done["stay"]) == (1, 1, 0)
        world.settled()
        eventually(lambda: {r["attempts"] for r in letters(world, "--reason", "bad_json")} == {attempt + 1}, 30,
                   what="the letters to come back")
    before = world.ends("payment-events")
    done = world.ask("dlq", "redrive", "--reason", "bad_json", "--yes")
    assert done["redriven"] == 0 and done["stay"] == 2
    assert {row["plan"] for row in done["letters"]} == {"tried 5 times: mend the cause and publish it anew"}
    world.settled()
    assert world.ends("payment-events") == before


def test_a_mended_letter_takes_effect_when_it_is_redriven(world):
    subject, event = orphan(world, amount=50000)
    world.publish(event)
    row, = letters(world, "--reason", "subject_missing", count=1)
    rid = world.reservation(seats=1)
    world.run("INSERT INTO reservations (id, reservation_number, user_id, event_id, total_amount, expires_at)"
              " SELECT %s, 'back' || reservation_number, user_id, event_id, total_amount, expires_at"
              "   FROM reservations WHERE id = %s", subject, rid)  # it comes back from a backup, items and all
    world.run("UPDATE reservation_items SET reservation_id = %s WHERE reservation_id = %s", subject, rid)
    world.run("DELETE FROM reservations WHERE id = %s", rid)
    dry = world.ask("dlq", "redrive", row["id"], "--dry-run")
    assert (dry["ready"], dry["redriven"], dry["dryRun"]) == (1, 0, True)
    assert world.one("SELECT count(*) FROM outbox WHERE topic = 'payment-events'") == 0
    assert len(letters(world, "--reason", "subject_missing")) == 1
    assert world.ask("dlq", "redrive", row["id"], "--yes")["redriven"] == 1
    world.settled()
    assert world.reservation_row(subject)[0] == "confirmed"
    assert letters(world, "--reason", "subject_missing") == []
    state, by = world.rows("SELECT state, marked_by FROM dead_letter_marks ORDER BY marked_at DESC LIMIT 1")[0]
    assert state == "redriven" and "@" in by
    assert world.one("SELECT count(*) FROM operator_audit WHERE command = 'dlq redrive'") > 0
    again = world.ask("dlq", "redrive", row["id"], "--yes")  # by name: it says why not
    assert again["redriven"] == 0 and again["letters"][0]["plan"] == "redriven already"


def test_a_redrive_killed_at_random_moments_sends_each_letter_once(world):
    count = 60
    payments = [orphan(world)[1] for _ in range(count)]
    world.publish(*payments)
    letters(world, "--reason", "subject_missing", count=count)
    start = sum(world.ends("payment-events").values())
    chance = random.Random(7)
    world.daemons["urr-ticket-consumer"].kill()  # or what left would be refused again meanwhile
    for signal_ in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        running = world.spawn("dlq", "redrive", "--reason", "subject_missing", "--since", "1d", "--rate", "40", "--yes")
        time.sleep(chance.uniform(0.3, 0.9))  # anywhere in the work is right
        running.send_signal(signal_)
        running.communicate(timeout=30)
    fast = world.ask("dlq", "redrive", "--reason", "subject_missing", "--since", "1d", "--rate", "10000", "--yes")
    assert fast["redriven"] <= count
    world.start("urr-ticket-consumer")
    world.settled()
    assert sum(world.ends("payment-events").values()) - start == count
    rows = letters(world, "--reason", "subject_missing", count=count)
    assert {row["attempts"] for row in rows} == {2}
    assert world.one("SELECT count(*) FROM dead_letter_marks WHERE state = 'redriven' AND attempts = 1"
                     " AND consumer_group = %s", TICKET) >= count


def test_discarded_letters_are_out_of_sight_and_can_be_seen(world):
    dry = world.ask("dlq", "discard", "--reason", "subject_missing", "--dry-run")
    assert dry["ready"] == 60 and dry["discarded"] == 0
    assert world.ask("dlq", "discard", "--reason", "subject_missing", "--note", "known", "--yes")["discarded"] == 60
    assert letters(world, "--reason", "subject_missing") == []
    states = {row["state"] for row in letters(world, "--all", "--reason", "subject_missing")}
    assert states == {"redriven", "discarded"}
    assert world.one("SELECT note FROM dead_letter_marks WHERE state = 'discarded' LIMIT 1") is not None


@pytest.mark.parametrize("arguments, word", [
    (("dlq",), "list"), (("dlq", "redrive"), "say which"), (("dlq", "discard", "--topic", "payment-events"), "--note"),
    (("dlq", "show", "payment-events.dlq/0/999999"), "no dead letter"), (("dlq", "list", "--since", "soon"), "--since"),
    (("dlq", "redrive", "--reason", "bad_json", "--rate", "0"), "--rate"), (("saga",), "saga")])
def test_wrong_use_is_said_plainly_and_changes_nothing(world, arguments, word):
    marks = world.one("SELECT count(*) FROM dead_letter_marks")
    done = world.urrctl(*arguments)
    assert done.code == USAGE and word in done.err, done.err
    assert world.one("SELECT count(*) FROM dead_letter_marks") == marks


def test_without_a_terminal_a_change_needs_yes(world):
    world.publish(b"{broken too", key="k2")
    letters(world, "--reason", "bad_json", count=4)
    done = world.urrctl("dlq", "redrive", "--group", TICKET, "--reason", "bad_json")
    assert done.code == USAGE and "--yes" in done.err
    assert len(letters(world, "--reason", "bad_json")) == 4


def test_nobody_home_is_a_message_not_a_stack_trace(world):
    done = world.urrctl("dlq", "list", KAFKA_BROKERS="127.0.0.1:1")
    assert done.code == RETRY and "127.0.0.1:1" in done.err

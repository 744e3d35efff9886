"""urrctl's levers on running daemons: pause, gaps, the refund brake, refused messages; each heard within a second."""
import json
import os
import pty
import time

import pytest
from harness.stack import program
from operator_kit import OK, REFUSED, USAGE, Urrctl
from test_engine import delete_records
from test_relay_daemon import make_topic, outbox, read_all, relay  # noqa: F401
from ticket_world import Pipe, TicketWorld, new_id

SOON = 4  # seconds; a second on a machine with nothing else to do


@pytest.fixture
def w(ticket_db, kafka, topic_prefix, daemon, eventually):
    world = TicketWorld(ticket_db, Pipe(kafka, topic_prefix), daemon, eventually)
    world.urrctl = Urrctl(world.pipe.settings(ticket_db))
    yield world
    world.close()


def audit(w):
    return w.rows("SELECT command, target, before, after FROM operator_audit ORDER BY id")


def test_a_pause_and_a_resume_reach_every_instance(w):
    consumers = [w.start(), w.start()]
    ctl, group = w.urrctl, w.pipe.group
    assert ctl("consumer", "pause", group, "--dry-run", "--json")["changed"] is False
    assert all(each.get("/readyz").status_code == 200 for each in consumers)
    start = time.monotonic()
    ctl("consumer", "pause", group, "--reason", "upgrade", "--yes")
    for each in consumers:
        w.says(each, "paused: operator: upgrade")
    assert time.monotonic() - start < SOON
    places = w.bulk(30)
    w.publish(*(w.pays(each) for each in places))
    assert "already" in ctl("consumer", "pause", group, "--yes")
    assert w.status_counts() == {"pending": 30}
    ctl("consumer", "resume", group, "--yes")
    w.drained()
    w.applied_once(places)
    assert "not paused" in ctl("consumer", "resume", group, "--yes")
    assert [(row[0], row[1], row[3]["paused"]) for row in audit(w)] == [
        ("consumer pause", group, True), ("consumer resume", group, False)]


def on_a_terminal(ctl, answer, *words):
    """Runs it with a terminal, answers its question; (exit code, all that was on the screen)."""
    pid, screen = pty.fork()
    if pid == 0:
        os.execve(program("urrctl"), ["urrctl", *words], ctl.env)
    seen = b""
    while True:
        try:
            some = os.read(screen, 4096)
        except OSError:
            break
        if not some:
            break
        seen += some
        if b"[y/N] " in seen and answer:
            os.write(screen, answer.encode() + b"\n")
            answer = None
    os.close(screen)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


def test_on_a_terminal_it_asks_and_shows_a_bar(w):
    w.start()
    places = w.bulk(20)
    w.publish(*(w.pays(each) for each in places))
    w.drained()
    code, screen = on_a_terminal(w.urrctl, "n", "consumer", "pause", w.pipe.group)
    assert code == REFUSED and "not confirmed; nothing was changed" in screen
    assert w.one("SELECT count(*) FROM consumer_control") == w.one("SELECT count(*) FROM operator_audit") == 0
    words = ("replay", w.pipe.group, "--topic", w.pipe.topic, "--from-time", "1h", "--rate", "50")
    code, screen = on_a_terminal(w.urrctl, "no", *words)
    assert code == REFUSED and w.one("SELECT count(*) FROM consumer_replays") == 0
    code, screen = on_a_terminal(w.urrctl, "y", *words)
    assert code == OK and "100%  20/20" in screen and "20 duplicate" in screen
    assert w.one("SELECT who FROM operator_audit LIMIT 1").count("@") == 1
    w.applied_once(places)


def test_a_gap_stops_the_consumer_until_it_is_accepted(w):
    consumer = w.start()
    w.publish(*({"orderId": f"a{i}"} for i in range(30)))
    w.drained()
    consumer.stop()
    w.publish(*({"orderId": f"b{i}"} for i in range(60)))
    ends = {p: end for p, end in w.rows("SELECT partition, next_offset FROM consumer_offsets")}
    delete_records(w.pipe.brokers, w.pipe.topic, 1, ends[1] + 5)
    consumer.start(ready=None)
    w.says(consumer, "left the log before")
    ctl, group = w.urrctl, w.pipe.group
    gap, = ctl("gaps", "list", "--json")["gaps"]
    assert (gap["group"], gap["partition"], gap["fromOffset"], gap["records"]) == (group, 1, ends[1], 5)
    dry = ctl("gaps", "accept", group, str(gap["id"]), "--dry-run", "--json")
    assert not dry["changed"] and len(dry["changes"]) == 1
    assert len(ctl("gaps", "list", group, "--json")["gaps"]) == 1
    start = time.monotonic()
    ctl("gaps", "accept", group, str(gap["id"]), "--note", "restored by hand", "--yes")
    consumer.wait("/readyz", 200)
    assert time.monotonic() - start < SOON
    assert ctl("gaps", "list", "--json")["gaps"] == []
    assert ctl("gaps", "list", "--all", "--json")["gaps"][0]["note"] == "restored by hand"
    assert "no such open gap" in ctl("gaps", "accept", group, str(gap["id"]), "--yes", code=REFUSED)
    w.eventually(lambda: w.consumed() >= w.pipe.sent, 20)
    assert [row[0] for row in audit(w)] == ["gaps accept"]


def test_the_brake_is_seen_and_released_and_no_refund_is_forgotten(w):
    consumer = w.start()
    strangers = [w.confirmed(new_id(), payment=f"lost-{i}", amount=50000) for i in range(40)]
    w.publish(*strangers)
    w.says(consumer, "refund_brake")
    ctl, group = w.urrctl, w.pipe.group
    listed = ctl("refunds", "list", "--json")
    assert listed["brakeEngaged"] and "refund requests" in listed["brakeDetail"]
    assert "refunds resume" in ctl("consumer", "resume", group, "--yes", code=REFUSED)
    assert "refund brake holds" in ctl("replay", group, "--from-time", "1h", "--yes", code=REFUSED)
    start = time.monotonic()
    ctl("refunds", "resume", "--minutes", "5", "--yes")
    consumer.wait("/readyz", 200)
    assert time.monotonic() - start < SOON
    w.drained()
    assert w.refund_requests() == 40
    waiting = ctl("refunds", "list", "--json")
    assert not waiting["brakeEngaged"] and len(waiting["refunds"]) == 40
    assert ctl("refunds", "list", "--older-than", "1h", "--json")["refunds"] == []

    # Asked once more, word for word; settled by hand; and neither twice.
    first = next(json.loads(value) for topic, _, value in w.followups() if topic == "payment-commands")
    ctl("refunds", "retry", first["paymentId"], "--yes")
    again = [json.loads(value) for topic, _, value in w.followups() if json.loads(value)["paymentId"] == first["paymentId"]]
    assert again == [first, first]
    assert "--note" in ctl("refunds", "settle", "lost-3", code=USAGE)
    ctl("refunds", "settle", "lost-3", "--note", "paid back at the desk", "--yes")
    assert w.one("SELECT state FROM payment_ledger WHERE payment_id = 'lost-3'") == "rejected"
    ctl("refunds", "settle", "lost-3", "--note", "again", "--yes", code=REFUSED)
    ctl("refunds", "retry", "no-such", "--yes", code=REFUSED)
    assert [row[0] for row in audit(w)] == ["refunds resume", "refunds retry", "refunds settle"]


def test_refused_messages_are_listed_retried_and_discarded(relay, outbox, make_topic, kafka, eventually):  # noqa: F811
    ticket = outbox("ticket")
    topic = make_topic("small", 1, **{"max.message.bytes": "20000"})
    for key in ("a", "b"):
        ticket.sql("INSERT INTO outbox (topic, key, value) VALUES (%s, %s, convert_to(repeat('x', 50000), 'UTF8'))", topic, key)
        ticket.add(topic, key, 2, 3)
    relay(ticket=ticket)
    eventually(lambda: ticket.count() == 0 and ticket.count("outbox_failed") == 6, 20)
    ctl = Urrctl({"TICKET_DATABASE_URL": ticket.url})
    rows = ctl("outbox", "list", "--json")["failed"]
    assert len(rows) == 6 and {row["key"] for row in rows} == {"a", "b"} and not any(r["retryRequested"] for r in rows)
    oldest = {key: min(row["id"] for row in rows if row["key"] == key) for key in "ab"}
    assert len(ctl("outbox", "retry", "ticket", str(oldest["a"]), "--dry-run", "--json")["changes"]) == 3
    assert ticket.count("outbox_failed") == 6

    ctl("outbox", "discard", "ticket", str(oldest["a"]), "--yes")
    kept, = ticket.sql("SELECT before->>'topic', length(before->>'value_base64') FROM operator_audit")
    assert kept[0] == topic and kept[1] > 50000
    start = time.monotonic()
    later = min(row["id"] for row in rows if row["key"] == "a" and row["id"] != oldest["a"])
    ctl("outbox", "retry", "ticket", str(later), "--yes")
    eventually(lambda: ticket.count("outbox_failed") == 3, 20)
    assert time.monotonic() - start < SOON
    assert [value for key, value in read_all(kafka, topic, 2) if key == b"a"] == [b"2", b"3"]
    ticket.sql("UPDATE outbox_failed SET value = '1' WHERE length(value) > 20000")
    ctl("outbox", "retry", "ticket", "--all", "--yes")
    eventually(lambda: ticket.count("outbox_failed") == 0 and ticket.count() == 0, 20)
    assert "no such message" in ctl("outbox", "discard", "ticket", "4711", "--yes", code=REFUSED)
    assert "is not ticket, payment or stats" in ctl("outbox", "retry", "tickets", "1", "--yes", code=USAGE)


def test_stats_can_be_replayed_too(stats_db, topics, kafka, daemon, eventually):
    """Counters only ever add: a replay over all of it must add nothing, and exactly what is missing."""
    import confluent_kafka as ck
    import psycopg2
    db = psycopg2.connect(stats_db)
    db.autocommit = True

    def one(sql):
        with db.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()[0]
    settings = {"STATS_DATABASE_URL": stats_db, "KAFKA_BROKERS": kafka, "JWT_SECRET": "x" * 48}
    daemon("urr-stats", settings, port_setting="STATS_PORT")
    producer = ck.Producer({"bootstrap.servers": kafka})
    start = int(time.time() * 1000)
    for i in range(90):
        producer.produce("membership-events", json.dumps({
            "type": "MEMBERSHIP_ACTIVATED", "sagaId": new_id(), "membershipId": new_id(), "userId": "u",
            "artistId": new_id(), "timestamp": start + i}))
    assert producer.flush(20) == 0
    activated = "SELECT coalesce(sum(memberships), 0)::int FROM daily_stats"
    eventually(lambda: one("SELECT count(*) FROM processed_events WHERE event_key LIKE 'MEMBERSHIP%'") >= 90, 30)
    total = one(activated)
    # A third is forgotten, figure and key, as if it had never been applied.
    with db.cursor() as cursor:
        cursor.execute("DELETE FROM processed_events WHERE event_key IN (SELECT event_key FROM processed_events"
                       " WHERE event_key LIKE 'MEMBERSHIP%' ORDER BY processed_at DESC LIMIT 30)")
        cursor.execute("UPDATE daily_stats_gen SET memberships_activated = memberships_activated - 30"
                       " WHERE date = (SELECT max(date) FROM daily_stats_gen WHERE memberships_activated >= 30)")
    assert one(activated) == total - 30
    ctl = Urrctl(settings)
    words = ("replay", "stats-service-group", "--topic", "membership-events", "--from-time", "1h", "--yes", "--json")
    done = ctl(*words)
    assert done["applied"] == 30 and one(activated) == total
    assert ctl(*words)["applied"] == 0 and one(activated) == total
    db.close()

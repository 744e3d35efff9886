"""urr-ticket-consumer when things go wrong: late sweeps, the brake, several instances, zombies, kill -9."""
import json
import time

import confluent_kafka as ck
import confluent_kafka.admin
import pytest
from ticket_world import Pipe, TicketWorld, new_id, to_json, wait_seconds


@pytest.fixture
def w(ticket_db, kafka, topic_prefix, daemon, eventually):
    world = TicketWorld(ticket_db, Pipe(kafka, topic_prefix), daemon, eventually)
    yield world
    world.close()


def age_holds(w, seconds):
    """Moves all holds into the past, as if so many seconds had gone by."""
    w.run("UPDATE reservations SET expires_at = expires_at - %s * interval '1 s'", seconds)
    w.run("UPDATE reservation_deadlines SET look_at = look_at - %s * interval '1 s'", seconds)


# --- the sweeper -----------------------------------------------------------------------------------------

def test_a_consumer_that_slept_expires_no_paid_reservation(w):
    """Stopped for ten minutes; 400 holds ran out meanwhile, all but 50 of them paid in time."""
    consumer = w.start()
    w.caught_up()
    consumer.stop()
    places = w.bulk(400)
    paid, unpaid = places[:350], places[350:]
    at = int(time.time() * 1000) - 500_000
    w.publish(*({**to_json(w.pays(reservation)), "timestamp": at} for reservation in paid))
    age_holds(w, 700)
    w.run("UPDATE consumer_offsets SET caught_up_at = now() - interval '600 s'")
    consumer.start(ready=None)
    w.drained()
    w.eventually(lambda: w.status_counts() == {"confirmed": 350, "expired": 50}, 15, what="350 confirmed, 50 expired")
    told = [json.loads(value) for _, _, value in w.followups()]
    assert sum(each["type"] == "RESERVATION_CONFIRMED" for each in told) == 350
    assert {each["reservationId"] for each in told if each["type"] == "RESERVATION_CANCELLED"} == \
        {rid for rid, _ in unpaid}
    assert w.refund_requests() == 0
    assert consumer.metric("urr_ticket_expired_total") == 50
    w.check_all()


def test_nothing_expires_while_payments_wait_unread(w):
    """Paused with payments in the log: their holds run out, and nobody ends them."""
    consumer = w.start()
    w.caught_up()
    w.run("INSERT INTO consumer_control (consumer_group, paused, reason, changed_by)"
          " VALUES (%s, true, 'operator', 'test')", w.pipe.group)
    w.says(consumer, "paused: operator")
    places = w.bulk(20)
    w.publish(*(w.pays(reservation) for reservation in places), *({"fills": i} for i in range(20)))
    wait_seconds(1.5)  # what was asked before the payments came is answered by now
    w.run("UPDATE consumer_offsets SET caught_up_at = now() - interval '600 s'")
    age_holds(w, 700)
    wait_seconds(3)
    assert w.status_counts() == {"pending": 20}
    w.run("UPDATE consumer_control SET paused = false")
    w.drained()
    w.eventually(lambda: w.status_counts() == {"confirmed": 20})
    w.check_all()


def test_many_holds_end_step_by_step_within_a_second_or_two(w):
    w.start()
    w.caught_up()
    w.bulk(5000, expires_in=-700)
    began = time.monotonic()
    w.eventually(lambda: w.status_counts() == {"expired": 5000}, 30, what="5,000 expired")
    print(f"5,000 holds ended within {time.monotonic() - began:.1f} s")
    assert len(w.followups()) == 5000
    w.check_all()


def test_a_partition_that_was_added_blocks_the_sweeper_until_it_is_read(w):
    """A payment may lie there before the group has heard of the partition."""
    consumer = w.start()
    w.caught_up()
    w.pipe.admin.create_partitions([ck.admin.NewPartitions(w.pipe.topic, 4)])[w.pipe.topic].result(20)
    w.eventually(lambda: consumer.metric("urr_ticket_sweep_blocked") == 1, 10, what="the sweep is blocked")
    paid, = w.bulk(1, expires_in=-700)
    w.publish(w.pays(paid), partition=3)
    wait_seconds(2.5)
    assert w.status_counts() == {"pending": 1}
    consumer.stop()
    consumer.start()
    w.drained()
    assert w.status_counts() == {"confirmed": 1}
    w.bulk(1, expires_in=-700)
    w.eventually(lambda: w.status_counts() == {"confirmed": 1, "expired": 1}, 15, what="the sweep goes on")


def test_a_transactional_publisher_keeps_nobody_waiting(w):
    """Control records count in the log's end and are never delivered; an aborted payment is none."""
    places = w.bulk(30)
    publisher = ck.Producer({"bootstrap.servers": w.pipe.brokers, "transactional.id": w.pipe.topic})
    publisher.init_transactions(30)
    for number, commit in enumerate((True, False, True)):
        publisher.begin_transaction()
        for i, reservation in enumerate(places[number * 10:number * 10 + 10]):
            publisher.produce(w.pipe.topic, json.dumps(to_json(w.pays(reservation))), partition=i % 3)
        publisher.flush(10)
        publisher.commit_transaction(10) if commit else publisher.abort_transaction(10)
    consumer = w.start()
    w.eventually(lambda: w.status_counts() == {"confirmed": 20, "pending": 10}, 20, what="the committed ones")
    w.caught_up()
    age_holds(w, 700)
    w.eventually(lambda: w.status_counts() == {"confirmed": 20, "expired": 10}, 15, what="the aborted ones expire")
    places_then = w.rows("SELECT partition, next_offset FROM consumer_offsets ORDER BY 1")
    consumer.kill()
    consumer.start()
    w.caught_up()
    assert w.rows("SELECT partition, next_offset FROM consumer_offsets ORDER BY 1") == places_then
    more = w.bulk(5)
    w.publish(*(w.pays(reservation) for reservation in more))
    w.eventually(lambda: w.status_counts() == {"confirmed": 25, "expired": 10}, 15, what="the next ones")
    assert w.refund_requests() == 0
    w.check_all()


# --- the brake -------------------------------------------------------------------------------------------

def strangers(w, count, age):
    """Payments for reservations that are not in this database."""
    return [w.confirmed(new_id(), f"stranger-{age}-{i}", user=f"s{i}", age=age) for i in range(count)]


def test_an_empty_database_under_an_old_topic_sends_no_refund(w):
    consumer = w.start()
    w.publish(*strangers(w, 500, age=7200))
    w.drained()
    letters = w.letters()
    assert len(letters) == 500 and {each["urr-reason"] for each in letters} == {"subject_missing"}
    assert w.followups() == [] and w.one("SELECT count(*) FROM payment_ledger") == 0
    consumer.wait("/readyz", 200, 5)


@pytest.mark.parametrize("batch", ["1000", "3", "1"])
def test_an_empty_database_under_a_fresh_topic_is_stopped(w, batch):
    """Never a 21st request, however the events fall into batches; the daemon lives and says why."""
    consumer = w.start(CONSUMER_BATCH_SIZE=batch)
    w.publish(*strangers(w, 200, age=60))
    w.says(consumer, "refund_brake", 20)
    wait_seconds(1.5)
    assert w.refund_requests() <= 20
    assert w.refund_requests() == 20 or batch != "1", "the brake does not stop too early"
    assert w.rows("SELECT paused, reason FROM consumer_control") == [(True, "refund_brake")]
    assert consumer.get("/healthz").status_code == 200 and consumer.running
    assert consumer.metric("urr_ticket_brake_engaged") == 1
    assert w.letters() == []


def test_a_burst_of_mismatches_stops_until_an_operator_resumes(w):
    """Two instances; both stand still, nothing is lost, and all goes on where it stopped."""
    places = w.bulk(200)
    first, second = w.start(), w.start()
    w.publish(*(w.pays(reservation) for reservation in places[:100]))
    w.drained()
    w.publish(*(w.pays(reservation, amount=1) for reservation in places[100:]))
    for each in (first, second):
        w.says(each, "refund_brake", 20)
    stopped_at, left = w.consumed(), w.refund_requests()
    assert left <= 20
    wait_seconds(2)
    assert (w.consumed(), w.refund_requests()) == (stopped_at, left)

    # Resumed without a look: it stops again at once, with no request more than twenty.
    w.run("UPDATE consumer_control SET paused = false")
    w.eventually(lambda: w.one("SELECT paused FROM consumer_control"), 20, what="paused again")
    assert w.refund_requests() <= 20

    w.run("UPDATE consumer_control SET paused = false, brake_released_until = now() + interval '10 min'")
    w.drained()
    assert w.refund_requests() == 100
    assert w.status_counts() == {"confirmed": 100, "pending": 100}
    for each in (first, second):
        each.wait("/readyz", 200, 5)
    w.check_all()


def test_refunds_below_five_percent_flow(w):
    places = w.bulk(1000)
    consumer = w.start()
    w.publish(*(w.pays(reservation, amount=1 if i % 25 == 0 else 50000) for i, reservation in enumerate(places)),
              key="one-partition")
    w.drained()
    assert w.refund_requests() == 40 and w.status_counts() == {"confirmed": 960, "pending": 40}
    assert consumer.get("/readyz").status_code == 200


# --- several instances -------------------------------------------------------------------------------------

def test_instances_come_and_go_in_the_middle(w):
    """One, then two, then three; one is killed, one leaves; every payment counts once."""
    places = w.bulk(6000)
    parts = [places[i * 1500:(i + 1) * 1500] for i in range(4)]

    def pay(part):
        w.publish(*(w.pays(reservation) for reservation in part))
    first = w.start(CONSUMER_BATCH_SIZE="50")
    pay(parts[0])
    second = w.start(ready=None, CONSUMER_BATCH_SIZE="50")
    pay(parts[1])
    third = w.start(ready=None, CONSUMER_BATCH_SIZE="50")
    pay(parts[2])
    first.kill()
    pay(parts[3])
    assert second.stop() == 0
    w.drained(60)
    w.applied_once(places)
    assert w.seen() == 6000 and w.letters() == [] and third.running


def test_a_zombie_changes_nothing(w):
    """Frozen past its session in the middle of the work, thawed while another has gone on."""
    places = w.bulk(3000)
    zombie = w.start(CONSUMER_BATCH_SIZE="20")
    w.publish(*(w.pays(reservation) for reservation in places[:1500]))
    w.eventually(lambda: w.consumed() > 100, 20, every=0.005, what="the zombie at work")
    zombie.freeze()
    at_freeze = w.consumed()
    other = w.start(ready=None)
    w.drained(40)
    assert w.consumed() > at_freeze
    w.publish(*(w.pays(reservation) for reservation in places[1500:]))
    zombie.thaw()
    w.drained(40)
    wait_seconds(2)
    w.applied_once(places)
    assert w.seen() == 3000 and other.running and zombie.running


@pytest.mark.parametrize("member, limit", [("", 12), ("ticket-1", 3)], ids=["dynamic", "static member id"])
def test_first_effect_after_kill_9_and_restart(w, member, limit):
    settings = {"KAFKA_GROUP_INSTANCE_ID": member} if member else {}
    consumer = w.start(KAFKA_SESSION_TIMEOUT_MS="10000", **settings)
    before, after = w.bulk(2)
    w.publish(w.pays(before))
    w.drained()
    consumer.kill()
    w.publish(w.pays(after))
    began = time.monotonic()
    consumer.start(ready=None)
    w.drained(30)
    took = time.monotonic() - began
    print(f"first effect {took:.2f} s after the restart ({member or 'no member id'})")
    assert took < limit
    w.applied_once([before, after])


def test_killed_again_and_again_in_the_middle_of_its_work(w):
    """kill -9 while it works, ten times; what it had begun leaves no trace, what it ends counts once."""
    places = w.bulk(4000)
    consumer = w.start(KAFKA_GROUP_INSTANCE_ID="ticket-1", CONSUMER_BATCH_SIZE="40")
    for i in range(10):
        part = places[i * 400:(i + 1) * 400]
        before = w.consumed()
        w.publish(*(w.pays(reservation) for reservation in part))
        w.eventually(lambda: w.consumed() > before, 20, every=0.002, what="work going on")
        consumer.kill()
        consumer.start(ready=None)
    w.drained(60)
    w.applied_once(places)


def test_a_stop_finishes_the_batch_and_leaves(w):
    consumer = w.start()
    places = w.bulk(200)
    w.publish(*(w.pays(reservation) for reservation in places))
    assert consumer.stop(15) == 0
    half = w.status_counts().get("confirmed", 0)
    assert w.seen() == half == len(w.followups())
    began = time.monotonic()
    consumer.start()
    w.drained()
    print(f"the next one took over within {time.monotonic() - began:.2f} s")
    w.applied_once(places)


def test_ready_means_postgresql_and_kafka_and_not_paused(w, servers):
    consumer = w.start()
    rid, = w.bulk(1)
    servers.act("freeze", "kafka")
    try:
        w.says(consumer, "kafka", 60)
        assert consumer.get("/healthz").status_code == 200
    finally:
        servers.act("thaw", "kafka")
    consumer.wait("/readyz", 200, 60)
    w.publish(w.pays(rid))
    w.drained()
    assert w.status_counts() == {"confirmed": 1}

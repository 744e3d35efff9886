"""The consumer engine against real Kafka and PostgreSQL, driven through consumers/example."""
import ctypes
import json
import random
import time

import confluent_kafka as ck
import confluent_kafka.admin

from engine_world import world  # noqa: F401 (a fixture)


def delete_records(brokers, topic, partition, before):
    """Python's client of this distribution has no DeleteRecords; the C library below it has."""
    lib = ctypes.CDLL("librdkafka.so.1")
    for name in ("conf_new", "new", "topic_partition_list_new", "topic_partition_list_add", "DeleteRecords_new",
                 "queue_new", "queue_poll", "event_error_string", "event_DeleteRecords_result",
                 "DeleteRecords_result_offsets"):
        getattr(lib, "rd_kafka_" + name).restype = ctypes.c_void_p
    conf = ctypes.c_void_p(lib.rd_kafka_conf_new())
    error = ctypes.create_string_buffer(256)
    lib.rd_kafka_conf_set(conf, b"bootstrap.servers", brokers.encode(), error, 256)
    client = ctypes.c_void_p(lib.rd_kafka_new(0, conf, error, 256))
    parts = ctypes.c_void_p(lib.rd_kafka_topic_partition_list_new(1))
    lib.rd_kafka_topic_partition_list_add(parts, topic.encode(), partition)
    lib.rd_kafka_topic_partition_list_set_offset(parts, topic.encode(), partition, ctypes.c_int64(before))
    request = (ctypes.c_void_p * 1)(lib.rd_kafka_DeleteRecords_new(parts))
    queue = ctypes.c_void_p(lib.rd_kafka_queue_new(client))
    lib.rd_kafka_DeleteRecords(client, request, ctypes.c_size_t(1), None, queue)
    event = ctypes.c_void_p(lib.rd_kafka_queue_poll(queue, 20000))
    assert event and lib.rd_kafka_event_error(event) == 0
    lib.rd_kafka_event_destroy(event)
    lib.rd_kafka_DeleteRecords_destroy(ctypes.c_void_p(request[0]))
    lib.rd_kafka_topic_partition_list_destroy(parts)
    lib.rd_kafka_queue_destroy(queue)
    lib.rd_kafka_destroy(client)


def test_applies_each_event_once_over_kill_9_and_restarts(world):
    total = 0
    consumer = world.start()
    for round_ in range(4):
        events = [world.payment(amount=random.randint(1, 9)) for _ in range(2000)]
        total += sum(e["amount"] for e in events)
        world.publish(events + random.sample(events, 200))  # a tenth arrives twice
        world.eventually(lambda: world.totals()[0] > 2000 * round_, 30)
        consumer.kill()
        consumer.start(ready=None)
    world.applied(8000, total, 40)
    assert world.value("SELECT count(*) FROM processed_events") == 8000
    assert world.letters() == []


def test_takes_effect_within_3_s_of_a_restart_with_a_static_member_id(world):
    consumer = world.start(KAFKA_GROUP_INSTANCE_ID="one")
    world.publish([world.payment()])
    world.applied(1, 1)
    consumer.kill()
    world.publish([world.payment()])
    began = time.monotonic()
    consumer.start(ready=None)
    world.applied(2, 2, 10)
    assert time.monotonic() - began < 3


def test_takes_effect_within_12_s_of_a_restart_without_one(world):
    consumer = world.start(KAFKA_SESSION_TIMEOUT_MS="10000")
    world.publish([world.payment()])
    world.applied(1, 1)
    consumer.kill()
    world.publish([world.payment()])
    began = time.monotonic()
    consumer.start(ready=None)
    world.applied(2, 2, 20)
    assert time.monotonic() - began < 12


def test_poison_is_buried_once_and_the_good_ones_are_applied(world):
    events, bad = [], 0
    for i in range(1000):
        if i % 10 == 9:
            bad += 1
            events.append(world.payment(user=f"bad{i}", amount=5, type="PAYMENT_REFUNDED", reason="x"))
        else:
            events.append(world.payment(amount=2))
    world.publish(events, timestamp=1700000000123)
    consumer = world.start(CONSUMER_LINGER_MS="500")
    world.applied(900, 1800, 60)
    world.eventually(lambda: len(world.letters()) == bad, 30)
    letters = world.letters()
    assert {l["urr-reason"] for l in letters} == {"database_refused"}
    assert all("never_below_zero" in l["urr-detail"] for l in letters)
    assert all(l["urr-attempts"] == "1" and l["urr-group"] == world.group for l in letters)
    assert all(l["timestamp"] == 1700000000123 and l["key"] for l in letters)
    assert len({(l["urr-partition"], l["urr-offset"]) for l in letters}) == bad
    assert world.value("SELECT count(*) FROM processed_events") == 900
    world.publish([world.payment(user="later") for _ in range(3000)])
    world.applied(3900, 4800, 20)
    assert consumer.metric('urr_consumer_dead_letters_total{') == bad


def test_undecodable_records_become_dead_letters_with_their_bytes(world):
    big = json.dumps(world.payment(note="x" * 950_000)).encode()
    bad = [b"\xff\xfe{", b"", None, b"a\x00b", b'{"type":"NO_SUCH"}', b"[]",
           b'{"paymentId":"a\\u0000b","amount":1}', big]
    world.publish(bad, key="k", headers=[("trace", b"\x00\x01"), ("urr-attempts", b"2"), ("urr-reason", b"old")],
                  timestamp=1700000000123)
    world.publish([world.payment()])
    consumer = world.start()
    world.applied(1, 1)
    world.eventually(lambda: len(world.letters()) == len(bad), 20)
    letters = sorted(world.letters(), key=lambda l: int(l["urr-offset"]))
    assert [l["urr-reason"] for l in letters] == ["bad_json", "empty_value", "empty_value", "bad_json",
                                                  "unknown_type", "not_object", "bad_json", "too_large"]
    assert [l["value"] for l in letters[:7]] == bad[:7]
    assert len(letters[7]["value"]) == 900_000 and letters[7]["urr-cut"] == str(len(big))
    assert all(l["trace"] == "\x00\x01" and l["urr-attempts"] == "3" for l in letters)
    assert all(l["key"] == b"k" and l["timestamp"] == 1700000000123 for l in letters)
    assert world.value("SELECT DISTINCT topic FROM outbox") == world.topic + ".dlq"
    assert consumer.get("/readyz").status_code == 200


def test_ignored_types_are_counted_not_buried(world):
    consumer = world.start(KAFKA_IGNORED_TYPES="PAYMENT_PENDING,gift")
    world.publish([{"type": "PAYMENT_PENDING"}, world.payment(paymentType="gift"), world.payment()], key="k")
    world.applied(1, 1)
    assert world.letters() == []
    assert consumer.metric('urr_consumer_events_total{group="%s",outcome="ignored"}' % world.group) == 2


def test_instances_share_the_work_through_rebalances(world):
    first = world.start()
    total = 0
    for step in range(5):
        world.publish([world.payment() for _ in range(1500)])
        total += 1500
        if step == 0:
            second = world.start(ready=None)
        if step == 1:
            third = world.start(ready=None)
        if step == 2:
            first.kill()
        if step == 3:
            assert second.stop() == 0
    world.applied(total, total, 60)
    assert world.value("SELECT count(*) FROM processed_events") == total
    assert third.running and world.letters() == []


def test_a_zombie_changes_nothing(world):
    zombie = world.start()
    world.publish([world.payment() for _ in range(100)])
    world.applied(100, 100)
    zombie.freeze()
    other = world.start(ready=None)
    world.publish([world.payment() for _ in range(500)])
    world.applied(600, 600, 40)
    world.publish([world.payment() for _ in range(500)])
    zombie.thaw()
    world.applied(1100, 1100, 40)
    world.publish([world.payment() for _ in range(500)])
    world.applied(1600, 1600, 40)
    assert world.value("SELECT count(*) FROM processed_events") == 1600
    assert other.running and zombie.running


def test_pause_and_resume_take_a_second_on_all_instances(world):
    one, two = world.start(), world.start()
    world.publish([world.payment()])
    world.applied(1, 1, 40)
    world.sql("INSERT INTO consumer_control (consumer_group, paused, reason, detail, changed_by) "
              "VALUES (%s, true, 'operator', 'looking around', 'me')", world.group)
    for each in (one, two):
        world.told(each, "paused: operator: looking around", 3)
    world.publish([world.payment() for _ in range(20)])
    time.sleep(1.5)
    assert world.totals()[0] == 1
    world.sql("UPDATE consumer_control SET paused = false")
    world.applied(21, 21, 5)
    one.wait("/readyz", 200, 5)


def test_follows_an_operator_who_moves_the_offset(world):
    world.start()
    world.publish([world.payment() for _ in range(30)], partition=0)
    world.applied(30, 30)
    # Everything is read again; dedupe keeps the effect as it was, then the rest is forgotten on purpose.
    world.sql("UPDATE consumer_offsets SET next_offset = 0, generation = generation + 1 WHERE partition = 0")
    world.eventually(lambda: world.consumed() == 30, 5)
    assert world.totals() == (30, 30)
    world.sql("DELETE FROM processed_events")
    world.sql("UPDATE consumer_offsets SET next_offset = 10, generation = generation + 1 WHERE partition = 0")
    world.applied(50, 50, 5)


def test_a_commit_without_a_row_is_refused_until_an_operator_decides(world):
    world.publish([world.payment() for _ in range(9)], partition=0)
    kept = ck.Consumer({"bootstrap.servers": world.brokers, "group.id": world.group})
    kept.commit(offsets=[ck.TopicPartition(world.topic, 0, 4)], asynchronous=False)
    kept.close()
    consumer = world.start(ready=None)
    world.told(consumer, "no offset row", 20)
    assert world.totals() == (0, 0) and world.value("SELECT count(*) FROM consumer_offsets") == 0
    world.sql("INSERT INTO consumer_offsets (consumer_group, topic, partition, next_offset) "
              "SELECT %s, %s, p, CASE p WHEN 0 THEN 4 ELSE 0 END FROM generate_series(0, 2) p", world.group, world.topic)
    world.applied(5, 5, 10)
    consumer.wait("/readyz", 200, 5)


def test_a_gap_is_recorded_and_stops_until_it_is_accepted(world):
    consumer = world.start()
    world.publish([world.payment() for _ in range(10)], partition=1)
    world.applied(10, 10)
    consumer.kill()
    world.publish([world.payment() for _ in range(10)], partition=1)
    delete_records(world.brokers, world.topic, 1, 15)
    consumer.start(ready=None)
    world.told(consumer, "left the log", 20)
    assert world.sql("SELECT partition, from_offset, to_offset FROM consumer_gaps") == [(1, 10, 15)]
    assert world.totals() == (10, 10)
    world.sql("UPDATE consumer_gaps SET accepted_at = now(), accepted_by = 'me'")
    world.applied(15, 15, 10)
    consumer.wait("/readyz", 200, 5)


def test_a_topic_made_anew_stops_the_consumer(world):
    consumer = world.start()
    world.publish([world.payment() for _ in range(10)], partition=0)
    world.applied(10, 10)
    consumer.kill()
    world.admin.delete_topics([world.topic])[world.topic].result(20)
    world._producer = None

    def made():
        try:
            world.create_topic()
            return True
        except ck.KafkaException:
            return False
    world.eventually(made, 20, every=0.3)
    world.publish([world.payment() for _ in range(20)], partition=0)
    consumer.start(ready=None)
    world.told(consumer, "made anew", 30)
    time.sleep(2.5)  # it looks again each second and must not slip through
    assert world.totals() == (10, 10)
    world.sql("UPDATE consumer_offsets SET next_offset = 0, generation = generation + 1, last_offset = NULL, "
              "last_timestamp = NULL, last_key_hash = NULL")
    world.applied(30, 30, 10)


def test_an_offset_beyond_the_end_stops_the_consumer(world):
    consumer = world.start()
    world.publish([world.payment() for _ in range(3)], partition=0)
    world.applied(3, 3)
    consumer.kill()
    world.sql("UPDATE consumer_offsets SET next_offset = 99 WHERE partition = 0")
    consumer.start(ready=None)
    world.told(consumer, "the log ends at 3", 20)


def test_a_grown_topic_is_read_from_the_new_partitions_first_record(world):
    consumer = world.start()
    world.publish([world.payment()])
    world.applied(1, 1)
    consumer.kill()
    world.admin.create_partitions([ck.admin.NewPartitions(world.topic, 5)])[world.topic].result(20)
    world.publish([world.payment() for _ in range(7)], partition=4)
    consumer.start()
    world.applied(8, 8, 20)
    assert world.value("SELECT count(*) FROM consumer_offsets") == 5


def test_is_caught_up_behind_a_transactional_publisher(world):
    publisher = ck.Producer({"bootstrap.servers": world.brokers, "transactional.id": world.topic})
    publisher.init_transactions(30)
    for commit in (True, False, True):
        publisher.begin_transaction()
        for _ in range(5):
            publisher.produce(world.topic, json.dumps(world.payment()), partition=0)
        publisher.flush(10)
        publisher.commit_transaction(10) if commit else publisher.abort_transaction(10)
    consumer = world.start()
    world.applied(10, 10)

    def moving():
        ages = world.sql("SELECT extract(epoch FROM now() - caught_up_at) FROM consumer_offsets")
        return len(ages) == 3 and all(age is not None and age < 2.5 for age, in ages)
    world.eventually(moving, 10)
    time.sleep(3)
    assert moving()
    consumer.kill()
    consumer.start()
    world.publish([world.payment()], partition=0)
    world.applied(11, 11, 20)
    world.eventually(moving, 10)


def test_is_not_caught_up_while_it_may_not_apply(world):
    consumer = world.start()
    world.publish([world.payment() for _ in range(3)], partition=0)
    world.applied(3, 3)
    world.eventually(lambda: world.value("SELECT count(*) FROM consumer_offsets WHERE caught_up_at IS NOT NULL") == 3, 10)
    world.sql("INSERT INTO consumer_control (consumer_group, paused, reason, changed_by) "
              "VALUES (%s, true, 'operator', 'me')", world.group)
    world.told(consumer, "paused: operator", 3)
    world.publish([world.payment()], partition=0)
    published = world.value("SELECT now()")
    time.sleep(3)
    assert world.value("SELECT caught_up_at FROM consumer_offsets WHERE partition = 0") < published
    assert world.value("SELECT caught_up_at FROM consumer_offsets WHERE partition = 1") > published


def test_waits_for_postgresql_and_blames_no_event(world, servers):
    consumer = world.start()
    world.publish([world.payment() for _ in range(200)])
    world.applied(200, 200)
    world.db.close()
    servers.act("kill", "pg")
    world.publish([world.payment() for _ in range(300)])
    world.told(consumer, "database", 20)
    time.sleep(2)
    servers.act("start", "pg")
    world.reconnect()
    world.applied(500, 500, 30)
    assert world.letters() == []
    consumer.wait("/readyz", 200, 10)


def test_survives_kafka_away(world, servers):
    consumer = world.start()
    world.publish([world.payment() for _ in range(20)])
    world.applied(20, 20)
    servers.act("restart", "kafka")
    world._producer = None
    world.publish([world.payment() for _ in range(20)])
    world.applied(40, 40, 60)
    assert consumer.running


def test_stops_gracefully_and_leaves_the_group(world):
    consumer = world.start()
    world.publish([world.payment() for _ in range(100)])
    world.applied(100, 100)
    began = time.monotonic()
    assert consumer.stop(15) == 0
    assert time.monotonic() - began < 5
    world.publish([world.payment()])
    began = time.monotonic()
    world.start(ready=None)
    world.applied(101, 101, 10)


def test_stays_small_while_it_catches_up(world):
    events = 100_000
    world.publish([world.payment(user=f"u{i % 5000}") for i in range(events)])
    consumer = world.start(ready=None)
    peak = 0

    def done():
        nonlocal peak
        peak = max(peak, consumer.rss_kb())
        return world.totals()[0] == events
    began = time.monotonic()
    world.eventually(done, 120, every=0.05)
    print(f"{events / (time.monotonic() - began):.0f} events/s, peak {peak} kB")
    assert peak < 64 * 1024

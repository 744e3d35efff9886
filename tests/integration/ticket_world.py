"""A ticket_db with the real consumer in front of it: events go through Kafka, the outbox shows what left."""
import json
import time

import confluent_kafka as ck
import confluent_kafka.admin
import requests
from sql_world import INVARIANTS, World, new_id

TABLES = ("outbox, outbox_failed, processed_events, payment_ledger, refund_brake, redis_cleanup, reservation_items,"
          " reservation_deadlines, membership_point_logs, artist_memberships, ticket_transfers, reservations, seats,"
          " ticket_types, events, artists, consumer_control")


def to_json(event):
    """An event of sql_world as a payment service publishes it."""
    user = event["user"]
    value = {"type": "PAYMENT_CONFIRMED" if event["kind"] == "confirmed" else "PAYMENT_REFUNDED",
             "paymentId": event["payment"], "orderId": event["order"],
             "userId": user if user is None or user.isascii() else None,  # ids are ASCII at the edge
             "reservationId": None, "referenceId": None, "paymentType": event["type"],
             "timestamp": int(round(event["at"].timestamp() * 1000))}
    value["reservationId" if event["type"] == "reservation" else "referenceId"] = event["subject"]
    if event["kind"] == "confirmed":
        value["paymentMethod"] = event["method"]
    else:
        value["reason"] = "customer"
    if event["amount"] is not None:
        value["amount"] = event["amount"]
    if event["saga"] is not None:
        value["sagaId"] = event["saga"]
    return value


class Pipe:
    """One topic and one group; outlives the worlds that share it."""

    def __init__(self, brokers, prefix, partitions=3):
        self.brokers, self.topic, self.group = brokers, prefix + "payment-events", prefix + "ticket"
        self.admin = ck.admin.AdminClient({"bootstrap.servers": brokers})
        self.admin.create_topics([ck.admin.NewTopic(self.topic, partitions, 1)])[self.topic].result(20)
        self.sent = 0
        self._producer = None

    @property
    def producer(self):
        if not self._producer:
            self._producer = ck.Producer({"bootstrap.servers": self.brokers, "linger.ms": 5,
                                          "enable.idempotence": True, "partitioner": "murmur2_random",
                                          "message.max.bytes": 1_048_000})
        return self._producer

    def publish(self, *events, wait=True, **options):
        """Events of sql_world, dictionaries, or bytes. wait=False: acknowledged by the next call that waits, which
        spares a round trip for each of many."""
        for event in events:
            raw = isinstance(event, (bytes, type(None)))
            if not raw and "kind" in event:
                event = to_json(event)
            key = options.get("key") or (None if raw else event.get("orderId") or event.get("paymentId"))
            value = event if raw else json.dumps(event)
            while True:
                try:
                    self.producer.produce(self.topic, value, key, **{k: v for k, v in options.items() if k != "key"})
                    break
                except BufferError:
                    self.producer.poll(0.1)
            self.sent += 1
        assert not wait or self.producer.flush(30) == 0

    def settings(self, url, **more):
        return {"TICKET_DATABASE_URL": url, "TICKET_CONSUMER_TOPIC": self.topic,
                "TICKET_CONSUMER_GROUP": self.group, "KAFKA_BROKERS": self.brokers,
                "KAFKA_SESSION_TIMEOUT_MS": "6000", **more}


class TicketWorld(World):
    def __init__(self, url, pipe, daemon, eventually):
        super().__init__(url)
        self.url, self.pipe, self._daemon, self.eventually = url, pipe, daemon, eventually
        self.publish = pipe.publish

    def start(self, ready="/readyz", **settings):
        return self._daemon("urr-ticket-consumer", self.pipe.settings(self.url, **settings),
                            port_setting="TICKET_CONSUMER_PORT", ready=ready)

    def bulk(self, count, expires_in=300):
        """Pending reservations of one seat each, made at once: [(id, user)]; they cost 50,000."""
        start = next(self.number) * 1_000_000
        return self.rows("""
            WITH n AS MATERIALIZED (SELECT g, gen_random_uuid() AS rid, gen_random_uuid() AS sid, 'u' || g AS who
                                      FROM generate_series(%s, %s) g),
            s AS (INSERT INTO seats (id, event_id, section, row_number, seat_number, price, status, locked_by,
                                     fencing_token)
                  SELECT sid, %s, 'B', g / 1000, g %% 1000, 50000, 'reserved', who, 7 FROM n),
            r AS (INSERT INTO reservations (id, reservation_number, user_id, event_id, total_amount, expires_at)
                  SELECT rid, 'B' || g, who, %s, 50000, now() + %s * interval '1 s' FROM n),
            i AS (INSERT INTO reservation_items (reservation_id, seat_id, price, fencing_token)
                  SELECT rid, sid, 50000, 7 FROM n)
            SELECT rid::text, who FROM n ORDER BY g""",
                         start, start + count - 1, self.event, self.event, expires_in)

    def pays(self, reservation, **changes):
        """The payment of one of bulk()."""
        rid, user = reservation
        return self.confirmed(rid, **{"payment": "p-" + rid, "amount": 50000, "user": user, **changes})

    def consumed(self):
        return int(self.one("SELECT coalesce(sum(next_offset), 0) FROM consumer_offsets"))

    def drained(self, timeout=30):
        """Until all that was published is applied."""
        self.eventually(lambda: self.consumed() >= self.pipe.sent, timeout,
                        what=f"{self.pipe.sent} records applied")

    def followups(self):
        """What left, without dead letters: (topic, key, value)."""
        return [each for each in self.told_any() if not each[0].endswith(".dlq")]

    def told_any(self):
        return [(topic, bytes(key or b"").decode(), bytes(value or b"").decode("utf-8", "replace"))
                for topic, key, value in self.rows("SELECT topic, key, value FROM outbox ORDER BY id")]

    def letters(self):
        """Dead letters: their headers, and key, value, topic and timestamp."""
        found = []
        for topic, names, values, value, key, stamp in self.rows(
                "SELECT topic, header_names, header_values, value, key, timestamp_ms FROM outbox"
                " WHERE header_names IS NOT NULL ORDER BY id"):
            headers = {n: bytes(v).decode() for n, v in zip(names, values) if v is not None}
            found.append({**headers, "topic": topic, "timestamp": stamp,
                          "value": None if value is None else bytes(value),
                          "key": None if key is None else bytes(key)})
        return found

    def status_counts(self):
        return dict(self.rows("SELECT status, count(*) FROM reservations GROUP BY status"))

    def seen(self):
        return self.one("SELECT count(*) FROM processed_events")

    def refund_requests(self):
        return sum(1 for topic, _, _ in self.followups() if topic == "payment-commands")

    def says(self, consumer, text, timeout=30):
        """Waits until /readyz is red and says so."""
        def red():
            try:
                answer = consumer.get("/readyz", timeout=2)
            except requests.RequestException:
                return False
            return answer.status_code == 503 and text in answer.text
        self.eventually(red, timeout, what=f"/readyz saying {text!r}")

    def caught_up(self, timeout=20, partitions=3):
        """Until every partition was caught up after this call."""
        since = self.one("SELECT now()")
        self.eventually(lambda: self.one("SELECT count(*) FROM consumer_offsets WHERE caught_up_at > %s", since)
                        == partitions, timeout, what="all partitions caught up")

    def check_all(self, but=()):
        """sql_world's rules, dead letters aside."""
        self.run("DELETE FROM outbox WHERE topic LIKE '%%.dlq'")
        for claim, sql in INVARIANTS.items():
            if not any(word in claim for word in but):
                broken = self.rows(sql)
                assert not broken, f"{claim}: {broken}"

    def applied_once(self, reservations):
        """Each of bulk()'s is confirmed, with one follow-up; nothing else left."""
        assert self.status_counts() == {"confirmed": len(reservations)}
        keys = sorted(key for topic, key, value in self.followups())
        assert keys == sorted(rid for rid, _ in reservations)
        assert self.one("SELECT count(*) FROM seats WHERE status = 'sold'") == len(reservations)
        assert self.one("SELECT count(*) FROM payment_ledger WHERE state = 'applied'") == len(reservations)
        self.check_all()


def wait_seconds(seconds):
    """Where the claim is that nothing happens."""
    time.sleep(seconds)


__all__ = ["Pipe", "TABLES", "TicketWorld", "new_id", "to_json", "wait_seconds"]

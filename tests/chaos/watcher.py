"""Reads follow-ups as they appear in Kafka and looks at once whether ticket_db shows their effect: an event
without its effect is wrong at that moment, even if the effect comes later.

Every condition stays true once it is true, so a slow look cannot blame the innocent."""
import datetime
import json
import threading
import time

import psycopg2
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

import checker
import facts

WITHOUT_EFFECT = """
SELECT u.n
  FROM unnest(%s::integer[], %s::text[], %s::text[], %s::text[]) AS u (n, type, id, reason)
 WHERE NOT CASE u.type
       WHEN 'RESERVATION_CREATED' THEN EXISTS (
            SELECT FROM reservations r WHERE r.id = u.id::uuid)
       WHEN 'RESERVATION_CONFIRMED' THEN EXISTS (
            SELECT FROM reservations r WHERE r.id = u.id::uuid AND r.status IN ('confirmed', 'refunded'))
       WHEN 'RESERVATION_CANCELLED' THEN EXISTS (
            SELECT FROM reservations r WHERE r.id = u.id::uuid
               AND CASE u.reason WHEN 'expired' THEN r.status <> 'pending'     -- it may have been revived
                                 WHEN 'refunded' THEN r.status = 'refunded'
                                 ELSE r.status = 'cancelled' END)
       WHEN 'TRANSFER_COMPLETED' THEN EXISTS (
            SELECT FROM ticket_transfers t WHERE t.id = u.id::uuid AND t.status = 'completed')
       WHEN 'TRANSFER_CANCELLED' THEN EXISTS (
            SELECT FROM ticket_transfers t WHERE t.id = u.id::uuid AND t.status = 'cancelled')
       WHEN 'MEMBERSHIP_ACTIVATED' THEN EXISTS (
            SELECT FROM artist_memberships m WHERE m.id = u.id::uuid AND m.status <> 'pending')
       WHEN 'PAYMENT_REFUND_REQUESTED' THEN EXISTS (
            SELECT FROM payment_ledger l WHERE l.payment_id = u.id AND l.refund_requested_at IS NOT NULL)
       END
"""


class Watcher:
    def __init__(self, brokers, ticket_url, partitions=3):
        self.complaints, self.seen, self.failure = [], 0, None
        self._brokers, self._url = brokers, ticket_url
        self._places = [TopicPartition(topic, partition, OFFSET_BEGINNING)
                        for topic in facts.TOPICS if topic != checker.PAYMENTS for partition in range(partitions)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guard, name="watcher", daemon=True)

    def start(self):
        self._thread.start()
        return self

    def stop(self):
        self._stop.set()
        self._thread.join(60)
        if self.failure:
            raise self.failure

    def _guard(self):
        try:
            self._watch()
        except Exception as error:  # told by stop()
            self.failure = error

    def _watch(self):
        consumer = Consumer({"bootstrap.servers": self._brokers, "group.id": "chaos-watcher", "log_level": 0,
                             "enable.auto.commit": False, "auto.offset.reset": "error", "fetch.wait.max.ms": 10,
                             "reconnect.backoff.max.ms": 200})
        consumer.assign(self._places)
        db = None
        while not self._stop.is_set():
            first = consumer.poll(0.1)
            messages = [first] if first is not None else []
            messages += consumer.consume(500, timeout=0) if first is not None else []
            events = [checker.decode(facts.record_of(m)) for m in messages if not m.error()]
            while events and not self._stop.is_set():
                try:
                    if db is None:
                        db = psycopg2.connect(self._url, connect_timeout=2)
                        db.autocommit = True
                    self._look(db, events)
                    break
                except (psycopg2.OperationalError, psycopg2.InterfaceError):
                    db = None
                    time.sleep(0.01)
        consumer.close()

    def _look(self, db, events):
        with db.cursor() as cursor:
            cursor.execute(WITHOUT_EFFECT, (
                list(range(len(events))), [e.type for e in events], [e.id for e in events],
                [e.body.get("reason") for e in events]))
            for (number,) in cursor.fetchall():
                at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
                self.complaints.append(f"{at}: in Kafka without its effect in ticket_db:"
                                       f" {json.dumps(events[number].body)}")
        self.seen += len(events)

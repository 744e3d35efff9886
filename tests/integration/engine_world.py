"""What tests of the consumer engine share: one topic, group and database each, and a consumer on them."""
import json
import os
import time

import confluent_kafka as ck
import confluent_kafka.admin
import psycopg2
import pytest
import requests

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMA = ("sql/engine/001_consumer_state.sql", "sql/outbox/001_outbox.sql", "consumers/example/schema.sql")


class World:
    """One test's topic, group, database and consumers."""

    def __init__(self, brokers, url, prefix, daemon, eventually):
        self.brokers, self.url, self.topic = brokers, url, prefix + "payments"
        self.group, self._daemon, self.eventually = prefix + "group", daemon, eventually
        self.admin = ck.admin.AdminClient({"bootstrap.servers": brokers})
        self.reconnect()
        for path in SCHEMA:
            with open(os.path.join(ROOT, path)) as file:
                self.sql(file.read())
        self._producer = None
        self.number = 0

    def reconnect(self):
        """A new connection of the test's own, as soon as the server takes one."""
        def connected():
            try:
                self.db = psycopg2.connect(self.url)
                return True
            except psycopg2.OperationalError:
                return False
        self.eventually(connected, 30, what="a database connection")
        self.db.autocommit = True

    def create_topic(self, partitions=3):
        future = self.admin.create_topics([ck.admin.NewTopic(self.topic, partitions, 1)])[self.topic]
        future.result(20)

    def start(self, ready="/readyz", program="urr-example-consumer", **settings):
        return self._daemon(program, {
            "EXAMPLE_DATABASE_URL": self.url, "EXAMPLE_TOPIC": self.topic, "EXAMPLE_GROUP": self.group,
            "KAFKA_BROKERS": self.brokers, "KAFKA_SESSION_TIMEOUT_MS": "6000", **settings}, ready=ready)

    def sql(self, statement, *values):
        with self.db.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else None

    def value(self, statement, *values):
        return self.sql(statement, *values)[0][0]

    @property
    def producer(self):
        if not self._producer:
            self._producer = ck.Producer({"bootstrap.servers": self.brokers, "linger.ms": 5,
                                          "enable.idempotence": True, "partitioner": "murmur2_random",
                                          "message.max.bytes": 1_048_000})
        return self._producer

    def payment(self, user=None, amount=1, **more):
        self.number += 1
        return {"type": "PAYMENT_CONFIRMED", "paymentId": f"p{self.number}", "orderId": f"o{self.number}",
                "reservationId": f"r{self.number}", "userId": user or f"u{self.number % 50}",
                "amount": amount, "timestamp": int(time.time() * 1000), **more}

    def publish(self, events, **options):
        for event in events:
            raw = isinstance(event, (bytes, type(None)))
            key = options.get("key") or (None if raw else event.get("orderId"))
            value = event if raw else json.dumps(event)
            while True:
                try:
                    self.producer.produce(self.topic, value, key, **{k: v for k, v in options.items() if k != "key"})
                    break
                except BufferError:
                    self.producer.poll(0.1)
        assert self.producer.flush(30) == 0

    def totals(self):
        """(payments applied, sum of amounts)"""
        return tuple(int(n) for n in self.sql(
            "SELECT coalesce(sum(payments), 0), coalesce(sum(amount), 0) FROM example_totals")[0])

    def applied(self, payments, amount, timeout=30):
        def there():
            assert self.totals() == (payments, amount)
            return True
        self.eventually(there, timeout, every=0.05, what=f"{payments} payments of {amount}")

    def letters(self):
        """Dead letters, each (reason, detail, source offset, attempts, value, key, timestamp)."""
        rows = []
        for names, values, value, key, stamp in self.sql(
                "SELECT header_names, header_values, value, key, timestamp_ms FROM outbox ORDER BY id"):
            headers = {n: bytes(v).decode() for n, v in zip(names, values) if v is not None}
            rows.append({**headers, "value": None if value is None else bytes(value),
                         "key": None if key is None else bytes(key), "timestamp": stamp})
        return rows

    def told(self, consumer, text, timeout=30):
        """Waits until /readyz is red and says so."""
        def says():
            try:
                answer = consumer.get("/readyz", timeout=2)
            except requests.RequestException:
                return False
            return answer.status_code == 503 and text in answer.text
        self.eventually(says, timeout, what=f"/readyz saying {text!r}")

    def consumed(self):
        return int(self.value("SELECT coalesce(sum(next_offset), 0) FROM consumer_offsets"))


@pytest.fixture
def world(kafka, pg_url, topic_prefix, daemon, eventually):
    world = World(kafka, pg_url, topic_prefix, daemon, eventually)
    world.create_topic()
    yield world
    world.db.close()  # the topic stays: the consumers still run, and the broker goes with the test run

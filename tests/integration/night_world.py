"""The stack as operators meet it at night: servers, all three event daemons, and urrctl beside them."""
import base64
import json
import os
import secrets
import subprocess

import confluent_kafka as ck
import psycopg2

from harness import payments
from harness.daemon import Daemon
from harness.process import eventually
from harness.stack import Stack, program
from sql_world import World, compact, iso
from ticket_world import to_json

OK, FAILED, USAGE, REFUSED, RETRY, FOUND = range(6)
TICKET, STATS = "ticket-service-group", "stats-service-group"
PORTS = {"urr-ticket-consumer": "TICKET_CONSUMER_PORT", "urr-relay": "RELAY_PORT", "urr-stats": "STATS_PORT"}


class NightWorld(World):
    """One per file: the contract's topics under their own names, a group's offsets in its database."""

    def __init__(self, folder):
        self.stack = Stack()
        self.stack.topics()
        self.ticket_url = self.stack.database("ticket")
        self.stats_url = self.stack.database("stats")
        self.payment_url = self.stack.database("payment")
        super().__init__(self.ticket_url)
        self.brokers = self.stack.kafka.brokers
        self.producer = payments.publisher(self.brokers)
        self.settings = {"TICKET_DATABASE_URL": self.ticket_url, "STATS_DATABASE_URL": self.stats_url,
                         "PAYMENT_DATABASE_URL": self.payment_url, "KAFKA_BROKERS": self.brokers,
                         "REDIS_URL": self.stack.redis.url}
        self.folder = folder
        self.daemons = {}
        self.served = {**self.settings, "KAFKA_SESSION_TIMEOUT_MS": "6000",
                       "JWT_SECRET": base64.b64encode(secrets.token_bytes(48)).decode()}
        for name in PORTS:
            self.start(name)

    def start(self, name, ready="/readyz"):
        each = Daemon(name, {**self.served, "KAFKA_GROUP_INSTANCE_ID": name}, f"{self.folder}/{name}.log", PORTS[name])
        self.daemons[name] = each
        return each.start(ready)

    def close_all(self):
        for each in self.daemons.values():
            each.kill()
        self.close()
        self.stack.close()

    # --- what happens ---------------------------------------------------------------------------------

    def created(self, rid):
        """Tells RESERVATION_CREATED as the seat service does."""
        user, amount, saga, at = self.rows(
            "SELECT user_id, total_amount, coalesce(saga_id, id::text), created_at FROM reservations WHERE id = %s", rid)[0]
        value = compact(type="RESERVATION_CREATED", sagaId=saga, reservationId=rid, userId=user,
                        eventId=self.event, totalAmount=amount, timestamp=iso(at))
        self.run("INSERT INTO outbox (topic, key, value) VALUES ('reservation-events', %s, %s)",
                 rid.encode(), value.encode())
        return rid

    def publish(self, *events, topic="payment-events", key=None):
        for event in events:
            raw = isinstance(event, bytes)
            if not raw and "kind" in event:
                event = to_json(event)
            name = key or (None if raw else event.get("orderId") or event.get("paymentId"))
            self.producer.produce(topic, event if raw else json.dumps(event), name)
        assert self.producer.flush(30) == 0

    def stats_rows(self, sql, *values):
        with psycopg2.connect(self.stats_url) as db, db.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def ends(self, *topics):
        consumer = ck.Consumer({"bootstrap.servers": self.brokers, "group.id": "ends", "log_level": 0})
        found = {}
        for topic in topics:
            for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
                found[topic, partition] = consumer.get_watermark_offsets(
                    ck.TopicPartition(topic, partition), timeout=10, cached=False)[1]
        consumer.close()
        return found

    def settled(self, timeout=40):
        """Until every event is applied, every follow-up sent, and those are counted too."""
        followed = ("payment-events", "reservation-events", "transfer-events", "membership-events")

        def reached(group, ask, topics):
            ends = self.ends(*topics)
            stand = {(t, p): n for t, p, n in ask(
                "SELECT topic, partition, next_offset FROM consumer_offsets WHERE consumer_group = %s", group)}
            return all(stand.get(place, 0) >= end for place, end in ends.items())

        def quiet():  # in the order of cause and effect
            return (reached(TICKET, self.rows, ("payment-events",)) and not self.one("SELECT count(*) FROM outbox")
                    and reached(STATS, self.stats_rows, followed)
                    and not self.stats_rows("SELECT count(*) FROM outbox")[0][0])
        eventually(quiet, timeout, what="everything applied and counted")

    # --- the tool -------------------------------------------------------------------------------------

    def spawn(self, *arguments, **settings):
        env = {name: value for name, value in os.environ.items()
               if not name.endswith("_DATABASE_URL") and not name.startswith(("KAFKA_", "JWT_", "REDIS_"))}
        return subprocess.Popen([program("urrctl"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**env, **self.settings, **settings})

    def urrctl(self, *arguments, **settings):
        """The result has .code, .out, .err and, with --json, .json."""
        done = self.spawn(*arguments, **settings)
        done.out, done.err = done.communicate(timeout=120)
        done.code = done.returncode
        assert "Sanitizer" not in done.err, done.err
        if "--json" in arguments:
            assert done.err == "", done.err
            done.json = json.loads(done.out)
        return done

    def ask(self, *arguments, code=OK, **settings):
        done = self.urrctl(*arguments, "--json", **settings)
        assert done.code == code, (done.code, done.out)
        return done.json

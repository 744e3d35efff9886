"""See tests/bench/consumer."""
import glob
import io
import json
import os
import subprocess
import sys
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import confluent_kafka as ck  # noqa: E402
import confluent_kafka.admin  # noqa: E402
import psycopg2  # noqa: E402
from harness.daemon import Daemon  # noqa: E402
from harness.stack import Stack  # noqa: E402

EVENTS = int(os.environ.get("EVENTS", "100000"))
HISTORY = int(os.environ.get("HISTORY", "5000000"))
PER_TRANSACTION = 1000  # as the engine's full batch
GROUP = "ticket-service-group"

# What one confirmation writes: four new rows, and new versions of the reservation and its seat.
WRITTEN = {
    "processed_events": "event_key IN (SELECT 'PAYMENT_CONFIRMED:' || payment_id FROM payment_ledger)",
    "payment_ledger": "true",
    "reservations": "status = 'confirmed'",
    "seats": "status = 'sold'",
    "redis_cleanup": "true",
    "outbox": "true",
}

PREPARE = """
WITH n AS MATERIALIZED (SELECT g, gen_random_uuid() AS rid, gen_random_uuid() AS sid, 'user-' || g AS who
                          FROM generate_series(%(first)s, %(last)s) g),
s AS (INSERT INTO seats (id, event_id, section, row_number, seat_number, price, status, locked_by, fencing_token)
      SELECT sid, %(event)s, 'A', g / 1000, g %% 1000, 50000, 'reserved', who, 7 FROM n),
r AS (INSERT INTO reservations (id, reservation_number, user_id, event_id, total_amount, saga_id, expires_at)
      SELECT rid, 'R' || g, who, %(event)s, 50000, 'saga-' || rid, now() + interval '1 day' FROM n),
i AS (INSERT INTO reservation_items (reservation_id, seat_id, price, fencing_token) SELECT rid, sid, 50000, 7 FROM n)
SELECT rid::text, who FROM n"""


class Bench:
    def __init__(self):
        self.stack = Stack()
        pg = self.stack.pg
        for name, value in (("shared_buffers", "512MB"), ("max_wal_size", "4GB"), ("checkpoint_timeout", "15min")):
            pg.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.stack.act("kill", "pg")
        self.url = self.stack.database("ticket")
        self.db = psycopg2.connect(self.url)
        self.db.autocommit = True
        self.event = self.rows("INSERT INTO events (title) VALUES ('bench') RETURNING id::text")[0][0]
        self.brokers = self.stack.kafka.brokers
        self.made = 0

    def rows(self, sql, values=None):
        with self.db.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def topic(self, name):
        admin = ck.admin.AdminClient({"bootstrap.servers": self.brokers})
        admin.create_topics([ck.admin.NewTopic(name, 3, 1)])[name].result(20)
        return name

    def reserve(self, count):
        made = []
        for first in range(self.made, self.made + count, 50000):
            made += self.rows(PREPARE, {"first": first, "last": min(first + 50000, self.made + count) - 1,
                                        "event": self.event})
        self.made += count
        return made

    def publish(self, topic, reservations):
        producer = ck.Producer({"bootstrap.servers": self.brokers, "linger.ms": 20, "partitioner": "murmur2_random",
                                "queue.buffering.max.messages": 1000000, "acks": "all"})
        now = int(time.time() * 1000)
        for number, (rid, user) in enumerate(reservations):
            payment = uuid.uuid4()
            value = (f'{{"type":"PAYMENT_CONFIRMED","paymentId":"pay-{payment}","orderId":"order-{rid}",'
                     f'"userId":"{user}","reservationId":"{rid}","referenceId":null,"paymentType":"reservation",'
                     f'"amount":50000,"paymentMethod":"card","sagaId":"saga-{rid}","timestamp":{now}}}')
            while True:
                try:
                    producer.produce(topic, value, f"order-{rid}")
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0

    def settle(self):
        """Every measurement begins with a clean slate: statistics, no vacuum due, no checkpoint near."""
        self.rows("VACUUM ANALYZE")
        admin = psycopg2.connect(self.stack.pg.url(self.url.rsplit("/", 1)[1], "postgres"))
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute("CHECKPOINT")
        admin.close()

    def consume(self, topic, count, group):
        """Events/s between the first and the last one applied, and the daemon's peak memory in kB."""
        log = os.path.join(self.stack.folder, f"{group}.log")
        consumer = Daemon("urr-ticket-consumer", {
            "TICKET_DATABASE_URL": self.url, "TICKET_CONSUMER_TOPIC": topic, "TICKET_CONSUMER_GROUP": group,
            "KAFKA_BROKERS": self.brokers}, log, "TICKET_CONSUMER_PORT")
        consumer.start(ready=None)
        first = None
        try:
            while True:
                done, now = self.rows("SELECT coalesce(sum(next_offset), 0)::bigint, clock_timestamp()"
                                      " FROM consumer_offsets WHERE consumer_group = %s AND topic = %s",
                                      (group, topic))[0]
                if done and not first:
                    first = (done, now)
                if done >= count:
                    break
                assert consumer.running, consumer.tail()
                time.sleep(0.005 if not first else 0.02)
            with open(f"/proc/{consumer.pid}/status") as status:
                peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        finally:
            consumer.stop()
        return (done - first[0]) / (now - first[1]).total_seconds(), peak

    def copy(self, count):
        """The rows the consumer wrote, into tables with the same columns, checks and indexes."""
        for table in WRITTEN:
            self.rows(f"CREATE TABLE copy_{table} (LIKE {table} INCLUDING ALL)")
        chunks = {}
        for table, condition in WRITTEN.items():
            columns = ", ".join(name for name, in self.rows(
                "SELECT column_name::text FROM information_schema.columns WHERE table_name = %s"
                " ORDER BY ordinal_position", (table,)))
            text = io.StringIO()
            with self.db.cursor() as cursor:
                cursor.copy_expert(f"COPY (SELECT {columns} FROM {table} WHERE {condition}) TO STDOUT", text)
            lines = text.getvalue().splitlines(keepends=True)
            assert len(lines) == count, (table, len(lines))
            chunks[table] = (columns, ["".join(lines[i:i + PER_TRANSACTION])
                                       for i in range(0, count, PER_TRANSACTION)])
        self.settle()
        loader = psycopg2.connect(self.url)
        began = time.monotonic()
        with loader.cursor() as cursor:
            for number in range(len(chunks["outbox"][1])):
                for table, (columns, parts) in chunks.items():
                    cursor.copy_expert(f"COPY copy_{table} ({columns}) FROM STDIN", io.StringIO(parts[number]))
                loader.commit()
        took = time.monotonic() - began
        loader.close()
        for table in WRITTEN:
            self.rows(f"DROP TABLE copy_{table}")
        return count / took

    def naive(self, rows, seconds=5):
        program = max(glob.glob("/usr/lib/postgresql/*/bin/pgbench"))
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "consumer.sql")
        done = subprocess.run([program, "-n", "-M", "prepared", "-c", "1", "-T", str(seconds), "-D", f"rows={rows}",
                               "-f", script, self.url], stdout=subprocess.PIPE, text=True, check=True)
        return next(float(line.split("=")[1].split()[0]) for line in done.stdout.splitlines()
                    if line.startswith("tps ="))

    def history(self, count):
        for _ in range(0, count, 500000):
            self.rows("INSERT INTO processed_events (event_key, consumer_group, processed_at)"
                      " SELECT 'PAYMENT_CONFIRMED:pay-' || gen_random_uuid(), %s, now() - interval '10 days'"
                      " FROM generate_series(1, %s)", (GROUP, min(count, 500000)))


def show(name, value, unit, note=""):
    print(f"{name:<58} {value:>12,.0f} {unit:<9} {note}", flush=True)


def report(name, value, unit, limit=None):
    ratio = round(value / limit, 3) if limit else None
    print(json.dumps({"bench": name, "value": round(value), "unit": unit,
                      "limit": round(limit) if limit else None, "ratio": ratio}), flush=True)


def run_group(bench, name, group, count):
    topic = bench.topic(name)
    bench.publish(topic, bench.reserve(count))
    bench.settle()
    return bench.consume(topic, count, group)


def compare(bench, quick):
    rate, peak = run_group(bench, "payment-events", GROUP, EVENTS)
    show("urr-ticket-consumer, confirmations of one seat each", rate, "events/s", f"peak {peak / 1024:.0f} MB")
    copy = bench.copy(EVENTS)
    show("plain COPY of the six rows each writes", copy, "events/s", f"ratio {rate / copy:.2f}, goal 0.35")
    naive = bench.naive(EVENTS)
    show("one transaction per event (pgbench, prepared)", naive, "events/s", f"{rate / naive:.0f} times, goal 20")
    if not quick:
        # The same place in the life of the tables, with and without the old keys.
        again, _ = run_group(bench, "payment-events-2", GROUP + "-2", EVENTS)
        bench.history(HISTORY)
        old, _ = run_group(bench, "payment-events-3", GROUP, EVENTS)
        show("a second run", again, "events/s")
        show(f"over {HISTORY:,} old keys", old, "events/s", f"ratio {old / again:.2f}, goal 0.8")
        report("consumer-history", old, "events/s", again)
    report("consumer", rate, "events/s", copy)
    report("consumer-naive", rate, "events/s", naive)


def million(bench):
    count = 1_000_000
    rate, peak = run_group(bench, "payment-events", GROUP, count)
    show("catching up on 1,000,000 events", rate, "events/s", f"peak {peak / 1024:.1f} MB, goal below 64")
    report("consumer-memory", peak / 1024, "MB", 64)


def main():
    bench = Bench()
    try:
        if "--million" in sys.argv:
            million(bench)
        else:
            compare(bench, "--quick" in sys.argv)
    finally:
        bench.stack.close()


if __name__ == "__main__":
    main()

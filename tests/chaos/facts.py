"""Reads Facts for the checker: every record of every topic, and the tables the saga writes.

The outbox forgets what was delivered, so watch_outbox() adds a trigger that copies each row at its
commit: then the checker can tell a message that the relay repeated from one that was caused twice."""
import time

import psycopg2
import psycopg2.extras
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

import checker

TOPICS = checker.DOMAIN + (checker.COMMANDS,)
WATCH_OUTBOX = """
CREATE TABLE chaos_written (id bigint PRIMARY KEY, topic text NOT NULL, key bytea, value bytea,
                            header_names text[], header_values bytea[]);
CREATE FUNCTION chaos_written_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_written
    SELECT o.id, o.topic, o.key, o.value, o.header_names, o.header_values FROM outbox o WHERE o.id = NEW.id
        ON CONFLICT DO NOTHING;      -- a retried row comes back under its old id
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_written AFTER INSERT ON outbox
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos_written_add();
"""
TABLES = {
    "reservations": "id::text, event_id::text, user_id, total_amount, status, payment_status, payment_id,"
                    " cancel_reason",
    "reservation_items": "id::text, reservation_id::text, seat_id::text, ticket_type_id::text, quantity,"
                         " fencing_token, live",
    "seats": "id::text, status, fencing_token, locked_by",
    "ticket_types": "id::text, total_quantity, available_quantity",
    "ticket_transfers": "id::text, reservation_id::text, status, total_price, payment_id",
    "artist_memberships": "id::text, status, points, payment_id",
    "payment_ledger": "payment_id, payment_type, subject_id::text, amount, state, refund_requested_at",
}


def watch_outbox(url):
    with psycopg2.connect(url) as db, db.cursor() as cursor:
        cursor.execute(WATCH_OUTBOX)
    db.close()


def ends(brokers, topics):
    """(topic, partition) → end of the log; raises while the broker is away."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "chaos-ends", "log_level": 0})
    try:
        found = {}
        for topic in topics:
            meta = consumer.list_topics(topic, timeout=10).topics[topic]
            if meta.error:
                raise KafkaException(meta.error)
            for partition in meta.partitions:
                found[topic, partition] = consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=10, cached=False)[1]
        return found
    finally:
        consumer.close()


def read_log(brokers, until):
    """Every record below the ends in `until`."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "chaos-reader", "log_level": 0,
                         "enable.auto.commit": False, "auto.offset.reset": "error"})
    left = {place for place, end in until.items() if end > 0}
    records = []
    try:
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in left])
        deadline = time.monotonic() + 120
        while left:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the log cannot be read to its end: {left}")
            for message in consumer.consume(1000, timeout=0.5):
                if message.error():
                    continue
                place = message.topic(), message.partition()
                if message.offset() < until[place]:
                    records.append(record_of(message))
                if message.offset() >= until[place] - 1:
                    left.discard(place)
        return records
    finally:
        consumer.close()


def record_of(message):
    return checker.Record(message.topic(), message.partition(), message.offset(), message.key(),
                          message.value(), tuple(message.headers() or ()))


def offsets(db, group):
    with db.cursor() as cursor:
        cursor.execute("SELECT topic, partition, next_offset FROM consumer_offsets WHERE consumer_group = %s",
                       (group,))
        return {(topic, partition): next_ for topic, partition, next_ in cursor.fetchall()}


def collect(brokers, ticket_url, stats_url, script):
    """`script` knows what was sent, and what ought to become of it: sent, poison, refused, allowed."""
    names = TOPICS + tuple(topic + ".dlq" for topic in checker.DOMAIN)
    facts = checker.Facts(ends=ends(brokers, names), sent=set(script.sent), poison=dict(script.poison),
                          refused=dict(script.refused), allowed=dict(script.allowed))
    facts.records = read_log(brokers, facts.ends)
    for url, name, group in ((ticket_url, "ticket", checker.TICKET), (stats_url, "stats", checker.STATS)):
        db = psycopg2.connect(url, cursor_factory=psycopg2.extras.RealDictCursor)
        try:
            _bookkeeping(db, name, group, facts)
            if name == "ticket":
                facts.ticket = {table: _rows(db, f"SELECT {columns} FROM {table}")
                                for table, columns in TABLES.items()}
            else:
                facts.stats = _figures(db)
        finally:
            db.close()
    return facts


def _rows(db, sql, *values):
    with db.cursor() as cursor:
        cursor.execute(sql, values)
        return [dict(row) for row in cursor.fetchall()]


def _bookkeeping(db, name, group, facts):
    facts.processed[group] = {row["event_key"] for row in _rows(
        db, "SELECT event_key FROM processed_events WHERE consumer_group = %s", group)}
    facts.offsets[group] = {(row["topic"], row["partition"]): row["next_offset"] for row in _rows(
        db, "SELECT topic, partition, next_offset FROM consumer_offsets WHERE consumer_group = %s", group)}
    facts.written[name] = [_outgoing(row) for row in _rows(db, "SELECT * FROM chaos_written")]
    facts.stuck[name] = {table: _rows(db, f"SELECT count(*) AS n FROM {table}")[0]["n"]
                         for table in ("outbox", "outbox_failed")}


def _outgoing(row):
    def raw(value):
        return None if value is None else bytes(value)
    headers = tuple((name, raw(value)) for name, value in zip(row["header_names"] or (),
                                                              row["header_values"] or ()))
    return checker.Outgoing(row["id"], row["topic"], raw(row["key"]), raw(row["value"]), headers)


def _figures(db):
    def sums(table):
        """Sums of all counters, over the live generation."""
        columns = [row["column_name"] for row in _rows(
            db, "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
                " AND data_type = 'bigint'", table)]
        picked = ", ".join(f"coalesce(sum({c}), 0)::bigint AS {c}" for c in columns)
        return f"SELECT {{key}} {picked} FROM {table} JOIN stats_generations g USING (generation)" \
               " WHERE g.state = 'live'"
    return {
        "daily": _rows(db, sums("daily_stats_gen").format(key=""))[0],
        "hourly": _rows(db, sums("hourly_stats_gen").format(key=""))[0],
        "events": {row["event_id"]: row for row in _rows(
            db, sums("event_daily_stats_gen").format(key="event_id,") + " GROUP BY event_id")},
    }

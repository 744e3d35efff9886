"""A ticket_db to play the saga in: makes rows, applies events the way the engine does, looks at what
became of it. Events go in without the engine's dedupe: the rules must hold by state alone."""
import datetime
import itertools
import json
import uuid

import psycopg2
import psycopg2.extensions

SHOW_TABLES = {
    "payment_ledger": "payment_id, order_id, saga_id, payment_type, subject_id, user_id, amount, state,"
                      " refund_decided_by, refund_reason",
    "reservations": "id, user_id, total_amount, status, payment_status, payment_method, payment_id, saga_id,"
                    " cancel_reason, idempotency_key",
    "reservation_items": "id, seat_id, ticket_type_id, quantity, fencing_token, live",
    "seats": "id, status, version, fencing_token, locked_by, locked_until",
    "ticket_types": "id, available_quantity",
    "ticket_transfers": "id, seller_id, buyer_id, payment_id, status, cancel_reason, saga_id",
    "artist_memberships": "id, status, points, payment_id, saga_id, joined_at, expires_at",
    "membership_point_logs": "membership_id, action_type, points",
    "redis_cleanup": "cause, event_id, user_id, reservation_id, seat_ids, fencing_tokens",
    "outbox": "topic, convert_from(key, 'UTF8'), convert_from(value, 'UTF8')",
}
APPLY = {
    "reservation": "ticket_apply_confirmed_reservation",
    "transfer": "ticket_apply_confirmed_transfer",
    "membership": "ticket_apply_confirmed_membership",
}


def iso(at):
    return at.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def compact(**fields):
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


class Brake(Exception):
    """The engine would roll back and pause here."""


class World:
    def __init__(self, url):
        self.db = psycopg2.connect(url)
        self.db.autocommit = True
        psycopg2.extensions.register_type(psycopg2.extensions.UNICODE, self.db)
        self.number = itertools.count(1)
        self.now = self.one("SELECT date_trunc('milliseconds', now())")
        self.artist = self.one("INSERT INTO artists (name, membership_price) VALUES ('IU', 30000) RETURNING id")
        self.event = self.one("INSERT INTO events (title, artist_id) VALUES ('Seats', %s) RETURNING id", self.artist)

    def close(self):
        self.db.close()

    def rows(self, sql, *arguments):
        with self.db.cursor() as cursor:
            cursor.execute(sql, arguments)
            return cursor.fetchall() if cursor.description else []

    def one(self, sql, *arguments):
        return self.rows(sql, *arguments)[0][0]

    def run(self, sql, *arguments):
        self.rows(sql, *arguments)

    # --- what there is -----------------------------------------------------------------------------

    def seat(self, status="available", user=None, token=0, until=None):
        n = next(self.number)
        return self.one("INSERT INTO seats (event_id, section, row_number, seat_number, price, status, locked_by,"
                        " fencing_token, locked_until) VALUES (%s, 'A', 1, %s, 50000, %s, %s, %s, %s) RETURNING id",
                        self.event, n, status, user, token, until)

    def standing(self, total=100):
        return self.one("INSERT INTO ticket_types (event_id, name, price, total_quantity, available_quantity)"
                        " VALUES (%s, 'floor', 10000, %s, %s) RETURNING id", self.event, total, total)

    def reservation(self, status="pending", user="ann", seats=2, standing=None, quantity=0, payment_id=None,
                    ledger="applied", saga=None, amount=None, token=7, expires_in=300, seat_ids=None,
                    payment_status=None, key=None):
        """A reservation with its items, in a state it could have reached."""
        live = status in ("pending", "confirmed")
        n = next(self.number)
        if seat_ids is None:
            seat_ids = [] if standing else [self.seat() for _ in range(seats)]
        if amount is None:
            amount = 50000 * len(seat_ids) + 10000 * quantity
        payment_status = payment_status or {"confirmed": "completed", "refunded": "refunded"}.get(status, "pending")
        rid = self.one(
            "INSERT INTO reservations (reservation_number, user_id, event_id, total_amount, status, payment_status,"
            " payment_id, saga_id, expires_at, idempotency_key)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, now() + %s * interval '1 s', %s) RETURNING id",
            f"R{n}", user, self.event, amount, status, payment_status, payment_id, saga, expires_in, key)
        for seat in seat_ids:
            self.run("INSERT INTO reservation_items (reservation_id, seat_id, price, fencing_token, live)"
                     " VALUES (%s, %s, 50000, %s, %s)", rid, seat, token, live)
            self.run("UPDATE seats SET fencing_token = greatest(fencing_token, %s)"
                     " WHERE id = %s AND status = 'available'", token, seat)
            if live:
                self.run("UPDATE seats SET status = %s, locked_by = %s WHERE id = %s",
                         "reserved" if status == "pending" else "sold", user, seat)
        if standing:
            self.run("INSERT INTO reservation_items (reservation_id, ticket_type_id, quantity, price, live)"
                     " VALUES (%s, %s, %s, 10000, %s)", rid, standing, quantity, live)
            if live:
                self.run("UPDATE ticket_types SET available_quantity = available_quantity - %s WHERE id = %s",
                         quantity, standing)
        if payment_id and ledger:
            self.run("INSERT INTO payment_ledger (payment_id, order_id, saga_id, payment_type, subject_id, user_id,"
                     " amount, state, event_time) VALUES (%s, %s, %s, 'reservation', %s, %s, %s, %s, now())",
                     payment_id, "o-" + payment_id, saga, rid, user, amount, ledger)
        return rid

    def listing(self, reservation, seller="ann", price=70000, status="listed", saga=None):
        return self.one("INSERT INTO ticket_transfers (reservation_id, seller_id, original_price, total_price, status,"
                        " saga_id) VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
                        reservation, seller, price, price, status, saga)

    def membership(self, status="pending", user="ann", price=30000, saga=None):
        ends = self.now + datetime.timedelta(days=365) if status == "active" else None
        return self.one("INSERT INTO artist_memberships (user_id, artist_id, status, price, saga_id, expires_at)"
                        " VALUES (%s, %s, %s, %s, %s, %s) RETURNING id", user, self.artist, status, price, saga, ends)

    # --- events ------------------------------------------------------------------------------------

    def confirmed(self, subject, payment="p1", amount=100000, type="reservation", user="ann", order="auto",
                  saga=None, age=0, method="card"):
        at = self.now - datetime.timedelta(seconds=age)
        return {"kind": "confirmed", "payment": payment, "type": type, "subject": subject, "amount": amount,
                "user": user, "order": f"o-{payment}" if order == "auto" else order, "saga": saga, "at": at,
                "method": method}

    def refunded(self, payment="p1", amount=100000, type="reservation", subject=None, saga=None, age=0):
        """As today's publisher sends it: order null, type reservation whatever was paid for."""
        return {"kind": "refunded", "payment": payment, "type": type, "subject": subject, "amount": amount,
                "user": None, "order": None, "saga": saga, "method": None,
                "at": self.now - datetime.timedelta(seconds=age)}

    def apply(self, *events, commit=True):
        """One batch as the engine runs it: lock, waves, brake, commit. Returns [(outcome, reason)]."""
        self.db.autocommit = False
        try:
            results = self._apply(list(events))
            self.db.commit() if commit else self.db.rollback()
            return results
        except BaseException:
            self.db.rollback()
            raise
        finally:
            self.db.autocommit = True

    def _apply(self, events):
        def column(name, batch):
            return [events[i][name] for i in batch]
        every = list(range(len(events)))
        keys = {}
        for number, key in self.rows(
                "SELECT * FROM ticket_lock_batch(%s, %s, %s::text[], %s::text[], %s, %s::uuid[])", every,
                column("kind", every), column("payment", every), column("saga", every), column("type", every),
                column("subject", every)):
            keys.setdefault(number, set()).add(key)
        results, last_wave = [None] * len(events), {}
        waves = {}
        for i in every:
            wave = max((last_wave.get(key, -1) + 1 for key in keys.get(i, ())), default=0)
            for key in keys.get(i, ()):
                last_wave[key] = wave
            event = events[i]
            waves.setdefault((wave, event["kind"], event["type"] if event["kind"] == "confirmed" else ""), []).append(i)
        for (_, kind, type_), batch in sorted(waves.items()):
            ms = [int(round(events[i]["at"].timestamp() * 1000)) for i in batch]
            common = (batch, column("payment", batch), column("order", batch), column("saga", batch),
                      column("user", batch))
            if kind == "confirmed":
                sql = (f"SELECT * FROM {APPLY[type_]}"
                       "(%s, %s::text[], %s::text[], %s::text[], %s::text[], %s::uuid[], %s, %s::text[], %s)")
                answer = self.rows(sql, *common, column("subject", batch), column("amount", batch),
                                   column("method", batch), ms)
            else:
                sql = ("SELECT * FROM ticket_apply_refunded(%s, %s::text[], %s::text[], %s::text[], %s::text[],"
                       " %s::text[], %s::uuid[], %s::bigint[], %s)")
                answer = self.rows(sql, *common, column("type", batch), column("subject", batch),
                                   column("amount", batch), ms)
            assert sorted(ord for ord, _, _ in answer) == batch, "every event is answered once"
            for number, outcome, reason in answer:
                results[number] = (outcome, reason)
        confirmations = sum(1 for i in every if events[i]["kind"] == "confirmed"
                            and results[i][0] in ("applied", "refund_requested"))
        tripped, requests, seen = self.rows("SELECT * FROM ticket_brake_check('ticket-service-group', %s)",
                                            confirmations)[0]
        if tripped:
            raise Brake(requests, seen)
        return results

    # --- what became of it -------------------------------------------------------------------------

    def state(self):
        """Everything but bookkeeping times, to compare before and after."""
        return {table: sorted(self.rows(f"SELECT {columns} FROM {table}"), key=repr)
                for table, columns in SHOW_TABLES.items()}

    def told(self):
        """The outbox in order: (topic, key, value)."""
        return [(topic, bytes(key).decode(), bytes(value).decode())
                for topic, key, value in self.rows("SELECT topic, key, value FROM outbox ORDER BY id")]

    def forget_told(self):
        self.run("DELETE FROM outbox")

    def reservation_row(self, rid):
        return self.rows("SELECT status, payment_status, payment_id, user_id FROM reservations WHERE id = %s", rid)[0]

    def ledger(self, payment="p1"):
        found = self.rows("SELECT state FROM payment_ledger WHERE payment_id = %s", payment)
        return found[0][0] if found else None

    def seat_states(self, rid):
        return sorted(row[0] for row in self.rows(
            "SELECT s.status FROM reservation_items i JOIN seats s ON s.id = i.seat_id WHERE i.reservation_id = %s",
            rid))

    def seats_of(self, rid):
        return [row[0] for row in self.rows(
            "SELECT seat_id FROM reservation_items WHERE reservation_id = %s ORDER BY seat_id", rid)]

    def left(self, standing):
        return self.one("SELECT available_quantity FROM ticket_types WHERE id = %s", standing)

    def check(self):
        """What must hold after every transaction, whatever happened."""
        for claim, sql in INVARIANTS.items():
            broken = self.rows(sql)
            assert not broken, f"{claim}: {broken}"


INVARIANTS = {
    "sold seats <=> live seat items of confirmed reservations, reserved <=> of pending ones": """
        SELECT s.id, s.status, r.status FROM seats s
          FULL JOIN (reservation_items i JOIN reservations r ON r.id = i.reservation_id AND i.live
                                         AND i.seat_id IS NOT NULL) ON i.seat_id = s.id
         WHERE coalesce(s.status, 'none') IS DISTINCT FROM
               CASE r.status WHEN 'confirmed' THEN 'sold' WHEN 'pending' THEN 'reserved' ELSE s.status END
            OR (s.status IN ('sold', 'reserved')) <> (r.id IS NOT NULL)
            OR (r.id IS NOT NULL AND s.fencing_token <> i.fencing_token)""",
    "only pending and confirmed reservations have live items, and all of theirs live": """
        SELECT i.id, r.status, i.live FROM reservation_items i JOIN reservations r ON r.id = i.reservation_id
         WHERE i.live <> (r.status IN ('pending', 'confirmed'))""",
    "standing quantities taken = live items": """
        SELECT t.id FROM ticket_types t
         WHERE t.total_quantity - t.available_quantity <>
               (SELECT coalesce(sum(i.quantity), 0) FROM reservation_items i
                 WHERE i.ticket_type_id = t.id AND i.live)""",
    "at most one refund request per payment": """
        SELECT convert_from(value, 'UTF8')::jsonb ->> 'paymentId' FROM outbox WHERE topic = 'payment-commands'
         GROUP BY 1 HAVING count(*) > 1""",
    "a refund request speaks of a payment whose ledger row knows of it, with its amount": """
        SELECT m.j FROM (SELECT convert_from(value, 'UTF8')::jsonb AS j FROM outbox
                          WHERE topic = 'payment-commands') m
          LEFT JOIN payment_ledger l ON l.payment_id = m.j ->> 'paymentId'
         WHERE l.refund_requested_at IS NULL OR l.amount IS DISTINCT FROM (m.j ->> 'amount')::bigint""",
    "the payment of a confirmed reservation is applied, or asked back": """
        SELECT r.id, l.state FROM reservations r LEFT JOIN payment_ledger l ON l.payment_id = r.payment_id
         WHERE r.status = 'confirmed' AND r.payment_id IS NOT NULL
           AND l.state IS DISTINCT FROM
               CASE r.payment_status WHEN 'refund_requested' THEN 'refund_requested' ELSE 'applied' END""",
    "points = the sum of their log": """
        SELECT m.id FROM artist_memberships m
         WHERE m.points <> (SELECT coalesce(sum(p.points), 0) FROM membership_point_logs p
                             WHERE p.membership_id = m.id)""",
    "every follow-up carries a saga and a time": """
        SELECT value FROM outbox WHERE convert_from(value, 'UTF8')::jsonb ->> 'sagaId' IS NULL
            OR convert_from(value, 'UTF8')::jsonb ->> 'timestamp' IS NULL""",
    "every pending reservation has a deadline not later than its end": """
        SELECT r.id FROM reservations r WHERE r.status = 'pending' AND NOT EXISTS (
               SELECT 1 FROM reservation_deadlines w WHERE w.reservation_id = r.id AND w.look_at <= r.expires_at)""",
}


def new_id():
    return str(uuid.uuid4())

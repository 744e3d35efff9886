"""Runs journeys against real servers that come and go: a clock that resumes them, a writer to ticket_db and
a publisher to Kafka. Every step is safe to repeat, because a commit or a delivery whose answer was lost may
have happened."""
import collections
import heapq
import json
import queue
import threading
import time

import psycopg2
import psycopg2.extras

import checker
import journeys
from harness import payments

WAIT_SECONDS = 60      # an Await that does not come true is given up
BATCH = 200
LOST = (psycopg2.OperationalError, psycopg2.InterfaceError)


class World:
    """The catalogue the journeys buy from."""

    def __init__(self, url, seats):
        with psycopg2.connect(url) as db, db.cursor() as cursor:
            cursor.execute("INSERT INTO artists (name, membership_price) VALUES ('IU', %s) RETURNING id::text",
                           (journeys.MEMBERSHIP_PRICE,))
            self.artist = cursor.fetchone()[0]
            cursor.execute("INSERT INTO events (title, artist_id, status) SELECT 'night ' || n, %s, 'on_sale'"
                           " FROM generate_series(1, 4) n RETURNING id::text", (self.artist,))
            *self.halls, self.field = [row[0] for row in cursor.fetchall()]
            cursor.execute("INSERT INTO seats (event_id, section, row_number, seat_number, price)"
                           " SELECT (%s::uuid[])[1 + n %% %s], 'A', 1, n, %s FROM generate_series(1, %s) n",
                           (self.halls, len(self.halls), journeys.SEAT_PRICE, seats))
            cursor.execute("INSERT INTO ticket_types (event_id, name, price, total_quantity, available_quantity)"
                           " SELECT %s, 'floor ' || n, %s, 1000000, 1000000 FROM generate_series(1, %s) n"
                           " RETURNING id::text", (self.field, journeys.STANDING_PRICE, journeys.STANDING_TYPES))
            self.standing = [row[0] for row in cursor.fetchall()]
            cursor.execute("CREATE INDEX chaos_free_seats ON seats (version DESC) WHERE status = 'available'")
        db.close()


class Publisher:
    """payment-events by one idempotent producer; a fatal one is made anew and what it had not delivered is
    sent again. Any thread."""

    def __init__(self, brokers, sent):
        self.published = 0
        self._brokers, self._sent = brokers, sent
        self._lock = threading.Lock()
        self._open = {}          # number → (key, value), not yet acknowledged
        self._number = 0
        self._producer = payments.publisher(brokers)

    def publish(self, key, value):
        with self._lock:
            self._number += 1
            self._open[self._number] = (key, value)
            self._send(self._number, key, value)

    def poll(self):
        with self._lock:
            self._producer.poll(0)

    @property
    def waiting(self):
        return len(self._open)

    def _send(self, number, key, value):
        while True:
            try:
                self._producer.produce("payment-events", value, key,
                                       on_delivery=lambda error, _: self._delivered(number, error))
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, number, error):
        if error is None:
            key_value = self._open.pop(number, None)
            if key_value:
                self._sent.add(key_value)
                self.published += 1

    def mend(self):
        """Called when nothing moves any more: a new producer sends what the old one did not deliver. As
        after a publisher's own restart, records may then stand in the log twice."""
        with self._lock:
            self._producer = payments.publisher(self._brokers)
            for number, (key, value) in sorted(self._open.items()):
                self._send(number, key, value)


class Load:
    """load = Load(...); load.start(); … load.finished; load.stop()."""

    def __init__(self, ticket_url, world, script, publisher, journeys_wanted, seconds):
        self.script, self.world, self.publisher = script, world, publisher
        self.started = self.finished_journeys = 0
        self.wanted = journeys_wanted
        self.failure = None
        self._url, self._pace = ticket_url, seconds / max(journeys_wanted, 1)
        self._due = []                  # (when, number, journey, answer)
        self._back = queue.SimpleQueue()
        self._writes = queue.SimpleQueue()
        self._tie = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._guard, args=(work,), name=work.__name__, daemon=True)
                         for work in (self._clock, self._writer)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    @property
    def finished(self):
        return self.finished_journeys == self.wanted

    def _guard(self, work):
        try:
            work()
        except Exception as error:  # the run looks here
            self.failure = error

    # --- the clock ---------------------------------------------------------------------------------

    def _clock(self):
        begin = time.monotonic()
        while not self._stop.is_set():
            now = time.monotonic()
            while self.started < self.wanted and begin + self.started * self._pace <= now:
                self._resume(self.script.journey(self.started), None)
                self.started += 1
            while self._due and self._due[0][0] <= now:
                _, _, journey, answer = heapq.heappop(self._due)
                self._resume(journey, answer)
            while not self._back.empty():
                self._resume(*self._back.get())
            self.publisher.poll()
            time.sleep(0.005)

    def _resume(self, journey, answer):
        try:
            step = journey.send(answer)
            while isinstance(step, journeys.Publish):
                self.publisher.publish(step.key, step.value)
                step = journey.send(None)
        except StopIteration:
            self.finished_journeys += 1
            return
        if isinstance(step, journeys.Sleep):
            self._tie += 1
            heapq.heappush(self._due, (time.monotonic() + step.seconds, self._tie, journey, None))
        else:
            self._writes.put((step, journey, time.monotonic() + WAIT_SECONDS))

    # --- the writer --------------------------------------------------------------------------------

    def _writer(self):
        db, looking = None, []
        while not self._stop.is_set():
            batch = self._gather(looking)
            if not batch:
                continue
            while not self._stop.is_set():
                try:
                    if db is None:
                        db = psycopg2.connect(self._url, connect_timeout=3, options="-c statement_timeout=5000",
                                              tcp_user_timeout=3000)
                    looking = self._write(db, batch)
                    break
                except LOST:
                    db = _closed(db)
                    time.sleep(0.05)
                except psycopg2.errors.QueryCanceled:
                    db.rollback()
        _closed(db)

    def _gather(self, looking):
        """Waits for steps; those that look for something come round again every 50 ms."""
        batch = list(looking)
        deadline = time.monotonic() + (0.05 if looking else 0.02)
        while len(batch) < BATCH:
            try:
                batch.append(self._writes.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                break
        return batch

    def _write(self, db, batch):
        kinds = collections.defaultdict(list)
        for entry in batch:
            step = entry[0]
            kinds[type(step.row if isinstance(step, journeys.Create) else step)].append(entry)
        with db.cursor() as cursor:
            for kind, work in ((journeys.Reservation, self._reserve), (journeys.Membership, self._subscribe),
                               (journeys.Listing, self._list)):
                if kinds[kind]:
                    work(cursor, [entry[0].row for entry in kinds[kind]])
                    db.commit()
                    self._done(kinds[kind])
                    batch[:] = [entry for entry in batch if entry not in kinds[kind]]
            for entry in kinds[journeys.Cancel]:
                self._cancel(db, cursor, entry[0])
                self._done([entry])
                batch.remove(entry)
            for entry in kinds[journeys.Lose]:
                self._lose(cursor, entry[0].id)
                db.commit()
                self._done([entry])
                batch.remove(entry)
            left = self._look(cursor, kinds[journeys.Await])
            db.rollback()
            return left

    def _done(self, entries, answer=None):
        for _, journey, _ in entries:
            self._back.put((journey, answer))

    def _reserve(self, cursor, rows):
        """All or none, with their events: RESERVATION_CREATED leaves in the transaction of the row."""
        cursor.execute("SELECT id::text FROM reservations WHERE id = ANY (%s::uuid[])", ([row.id for row in rows],))
        known = {row[0] for row in cursor.fetchall()}
        rows = [row for row in rows if row.id not in known]
        # Freed seats first: seats are to be sold more than once.
        cursor.execute("SELECT id::text, event_id::text, fencing_token FROM seats WHERE status = 'available'"
                       " ORDER BY version DESC LIMIT %s FOR UPDATE SKIP LOCKED", (sum(row.seats for row in rows) * 4,))
        free = collections.defaultdict(list)
        for seat in cursor.fetchall():
            free[seat[1]].append(seat)
        new, items, taken, told = [], [], [], []
        quantities = collections.Counter()
        for row in rows:
            event = self.world.field if row.standing is not None else max(free, key=lambda hall: len(free[hall]))
            new.append((row.id, "R" + row.id, row.user, event, row.amount, row.saga, row.expires_at))
            told.append((row.id, row.id, row.user, event, row.amount, row.saga))
            for _ in range(row.seats):
                seat, _, token = free[event].pop()
                items.append((row.id, seat, None, 1, journeys.SEAT_PRICE, token + 1))
                taken.append((seat, row.user, token + 1))
            if row.standing is not None:
                kind = self.world.standing[row.standing]
                items.append((row.id, None, kind, row.quantity, journeys.STANDING_PRICE, None))
                quantities[kind] += row.quantity
        many = psycopg2.extras.execute_values
        many(cursor, "INSERT INTO reservations (id, reservation_number, user_id, event_id, total_amount, saga_id,"
                     " expires_at) VALUES %s", new)
        if taken:
            many(cursor, "UPDATE seats s SET status = 'reserved', locked_by = v.who, fencing_token = v.token,"
                         " version = version + 1 FROM (VALUES %s) v (id, who, token) WHERE s.id = v.id::uuid", taken)
        many(cursor, "INSERT INTO reservation_items (reservation_id, seat_id, ticket_type_id, quantity, price,"
                     " fencing_token) VALUES %s", items, template="(%s, %s::uuid, %s::uuid, %s, %s, %s::bigint)")
        for kind in sorted(quantities):
            cursor.execute("UPDATE ticket_types SET available_quantity = available_quantity - %s WHERE id = %s",
                           (quantities[kind], kind))
        many(cursor, "INSERT INTO outbox (topic, key, value) VALUES %s",
             [("reservation-events", row[0].encode(), _created(row)) for row in told])

    def _subscribe(self, cursor, rows):
        psycopg2.extras.execute_values(
            cursor, "INSERT INTO artist_memberships (id, user_id, artist_id, price, saga_id) VALUES %s"
                    " ON CONFLICT (id) DO NOTHING",
            [(row.id, row.user, self.world.artist, journeys.MEMBERSHIP_PRICE, row.saga) for row in rows])

    def _list(self, cursor, rows):
        psycopg2.extras.execute_values(
            cursor, "INSERT INTO ticket_transfers (id, reservation_id, seller_id, original_price, total_price)"
                    " VALUES %s ON CONFLICT (id) DO NOTHING",
            [(row.id, row.reservation, row.seller, row.price, row.price) for row in rows])

    def _cancel(self, db, cursor, step):
        while True:
            try:
                cursor.execute("SELECT outcome FROM ticket_cancel(ARRAY[%s]::uuid[], %s, %s)",
                               (step.id, step.by, step.user))
                db.commit()
                return
            except (psycopg2.errors.SerializationFailure, psycopg2.errors.DeadlockDetected,
                    psycopg2.errors.LockNotAvailable):
                db.rollback()

    def _lose(self, cursor, reservation):
        """What a lock service that has lost its mind does: the first seat is locked by another, with a later token.
        Done twice (a commit whose answer was lost) it is the same."""
        cursor.execute("SELECT 1 FROM reservations WHERE id = %s FOR NO KEY UPDATE", (reservation,))
        cursor.execute("UPDATE seats s SET status = 'locked', locked_by = %s, fencing_token = s.fencing_token + 1,"
                       " locked_until = now() + interval '1 day', version = version + 1"
                       " FROM (SELECT seat_id, fencing_token FROM reservation_items WHERE reservation_id = %s AND live"
                       "        ORDER BY seat_id LIMIT 1) i"
                       " WHERE s.id = i.seat_id AND s.fencing_token = i.fencing_token",
                       (checker.LATER_HOLDER, reservation))

    def _look(self, cursor, entries):
        left, now = [], time.monotonic()
        for table in {entry[0].table for entry in entries}:
            mine = [entry for entry in entries if entry[0].table == table]
            cursor.execute(f"SELECT id::text, status FROM {table} WHERE id = ANY (%s::uuid[])",
                           ([entry[0].id for entry in mine],))
            status = dict(cursor.fetchall())
            for entry in mine:
                if status.get(entry[0].id) == entry[0].status:
                    self._done([entry], True)
                elif now > entry[2]:
                    self._done([entry], False)
                else:
                    left.append(entry)
        return left


def _created(row):
    id_, _, user, event, amount, saga = row
    return json.dumps({"type": "RESERVATION_CREATED", "sagaId": saga or id_, "reservationId": id_, "userId": user,
                       "eventId": event, "totalAmount": amount, "timestamp": payments.now_iso()}).encode()


def _closed(db):
    if db is not None:
        try:
            db.close()
        except psycopg2.Error:
            pass
    return None

"""Judges a finished run of the saga: what was published, what stands in the databases, what reached
Kafka. check(facts) returns complaints; none means nothing was lost, doubled, reordered or miscounted.

The judge knows the contract (SPEC 2 and 3), not the programs: it decodes events by itself and never asks
a function of ours what the right answer would be. facts.py collects Facts from real servers;
test_checker.py makes wrong ones by hand.
"""
import collections
import dataclasses
import datetime
import json

TICKET, STATS = "ticket-service-group", "stats-service-group"
PAYMENTS, COMMANDS = "payment-events", "payment-commands"
DOMAIN = (PAYMENTS, "reservation-events", "transfer-events", "membership-events")
SUBJECTS = {  # of follow-ups: the field that names the entity
    "RESERVATION_CREATED": "reservationId", "RESERVATION_CONFIRMED": "reservationId",
    "RESERVATION_CANCELLED": "reservationId", "TRANSFER_COMPLETED": "transferId",
    "TRANSFER_CANCELLED": "transferId", "MEMBERSHIP_ACTIVATED": "membershipId",
    "PAYMENT_REFUND_REQUESTED": "paymentId",
}
# What an entity can tell, in the order in which it can tell it (an expired reservation may be revived).
STEPS = {("RESERVATION_CREATED", None): 0, ("RESERVATION_CANCELLED", "expired"): 1,
         ("RESERVATION_CONFIRMED", None): 2, ("RESERVATION_CANCELLED", None): 3}

Record = collections.namedtuple("Record", "topic partition offset key value headers")
Event = collections.namedtuple("Event", "type id at body record")
Outgoing = collections.namedtuple("Outgoing", "id topic key value headers")
Complaint = collections.namedtuple("Complaint", "kind text")


@dataclasses.dataclass
class Facts:
    records: list = dataclasses.field(default_factory=list)  # every Record of every topic
    ends: dict = dataclasses.field(default_factory=dict)     # (topic, partition) → end of the log
    sent: set = dataclasses.field(default_factory=set)       # (key, value) that Kafka acknowledged
    poison: dict = dataclasses.field(default_factory=dict)   # key → (reason, groups that must refuse it)
    refused: dict = dataclasses.field(default_factory=dict)  # (type, paymentId) → reason, ticket only
    allowed: dict = dataclasses.field(default_factory=dict)  # subject's id → states it may end in
    ticket: dict = dataclasses.field(default_factory=dict)   # table → rows as dicts
    stats: dict = dataclasses.field(default_factory=dict)    # daily, hourly: sums; events: id → sums
    processed: dict = dataclasses.field(default_factory=dict)  # group → keys in processed_events
    offsets: dict = dataclasses.field(default_factory=dict)    # group → (topic, partition) → next offset
    written: dict = dataclasses.field(default_factory=dict)    # database → every Outgoing ever committed
    stuck: dict = dataclasses.field(default_factory=dict)      # database → rows in outbox, outbox_failed


def milliseconds(value):
    if isinstance(value, str):
        at = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
        return round(at.timestamp() * 1000)
    return value


def decode(record):
    """An Event by the contract's words; raises ValueError for what is none."""
    try:
        body = json.loads(record.value)
        kind = body.get("type")
        if kind is None and record.topic == PAYMENTS:  # legacy publishers
            kind = "PAYMENT_REFUNDED" if "reason" in body else "PAYMENT_CONFIRMED"
        subject = body["paymentId"] if kind.startswith("PAYMENT_") else body[SUBJECTS[kind]]
        return Event(kind, subject, milliseconds(body["timestamp"]), body, record)
    except (TypeError, KeyError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"{record.topic}[{record.partition}]@{record.offset}: {error!r}") from error


def check(facts):
    return Judge(facts).judge()


class Judge:
    def __init__(self, facts):
        self.facts = facts
        self.complaints = []
        self.repeats = 0  # records the relay sent once more: allowed, told
        self.payments, self.counted, self.told = [], [], []
        self.letters = []
        for record in sorted(facts.records, key=lambda r: (r.topic, r.partition, r.offset)):
            self._sort_in(record)

    def judge(self):
        self._everything_published()
        for database in self.facts.written:
            self._relayed(database)
        self._nothing_made_up()
        self._follow_ups()
        self._order()
        self._reservations()
        self._transfers_and_memberships()
        self._seats()
        self._standing()
        self._ledger()
        self._refund_requests()
        self._figures()
        self._dead_letters()
        self._processed()
        return self.complaints

    def complain(self, kind, text):
        self.complaints.append(Complaint(kind, text))

    def _sort_in(self, record):
        if record.topic.endswith(".dlq"):
            self.letters.append(record)
            return
        _, groups = self.facts.poison.get(record.key, (None, ()))
        if TICKET in groups and STATS in groups:
            return
        try:
            event = decode(record)
        except ValueError as error:
            self.complain("made up", f"a record nobody should have written: {error}")
            return
        if record.topic == PAYMENTS:
            if TICKET not in groups and (event.type, event.id) not in self.facts.refused:
                self.payments.append(event)
            self.counted.append(event)
        else:
            self.told.append(event)

    # --- the log -----------------------------------------------------------------------------------

    def _everything_published(self):
        present = {(r.key, r.value) for r in self.facts.records if r.topic == PAYMENTS}
        for key, value in self.facts.sent - present:
            self.complain("lost", f"acknowledged by Kafka and not in payment-events: {key} {value}")

    def _relayed(self, database):
        """Every committed outbox row is in Kafka; first appearances keep the order of a key's rows."""
        first, partitions = {}, collections.defaultdict(set)
        for record in self.facts.records:
            first.setdefault(_identity(record), record)
            partitions[record.topic, record.key].add(record.partition)
        last, seen = {}, set()
        for row in sorted(self.facts.written[database], key=lambda row: row.id):
            if _identity(row) in seen:
                self.complain("doubled", f"{database}: two outbox rows say the same: {_short(row)}")
                continue
            seen.add(_identity(row))
            record = first.get(_identity(row))
            if record is None:
                self.complain("lost", f"{database}: outbox row {row.id} is not in Kafka: {_short(row)}")
                continue
            lane = row.topic, row.key
            if len(partitions[lane]) > 1 and row.topic != PAYMENTS:
                self.complain("reordered", f"{row.key} of {row.topic} is in partitions {partitions[lane]}")
            if record.offset < last.get(lane, -1):
                self.complain("reordered", f"{database}: outbox row {row.id} was overtaken: {_short(row)}")
            last[lane] = max(record.offset, last.get(lane, -1))
        for name, count in self.facts.stuck.get(database, {}).items():
            if count:
                self.complain("lost", f"{database}: {count} rows are still in {name}")

    def _nothing_made_up(self):
        written = {_identity(row) for rows in self.facts.written.values() for row in rows}
        seen = set()
        for record in self.facts.records:
            if record.topic == PAYMENTS:
                continue
            if _identity(record) not in written:
                self.complain("made up", f"in Kafka without a committed cause: {_short(record)}")
            self.repeats += _identity(record) in seen
            seen.add(_identity(record))

    def _follow_ups(self):
        """One event per (type, id, time), and one time per (type, id) and reason."""
        contents, times = {}, {}
        for event in self.told:
            key = event.type, event.id, event.at
            if contents.setdefault(key, event.record.value) != event.record.value:
                self.complain("doubled", f"two contents of {key}")
            once = _once(event)
            if times.setdefault(once, event.at) != event.at:
                self.complain("doubled", f"{once} was told twice, of {times[once]} and {event.at}")
        self.once = set(times)

    def _order(self):
        """First appearances of a reservation's events: created, (expired,) confirmed, cancelled."""
        last, seen = {}, set()
        for event in self.told:
            key = event.type, event.id, event.at
            if not event.type.startswith("RESERVATION_") or key in seen:
                continue
            seen.add(key)
            step = STEPS[event.type, event.body["reason"] if _expired(event) else None]
            if step < last.get(event.id, -1):
                self.complain("reordered", f"{event.type} of {event.id} came too late")
            last[event.id] = step

    # --- ticket_db ---------------------------------------------------------------------------------

    def _rows(self, table):
        return self.facts.ticket.get(table, [])

    def _tells(self, subject, *wanted, may=()):
        """The entity has told exactly `wanted`, and perhaps what it `may`."""
        for type_, reason in wanted:
            if (type_, subject, reason) not in self.once:
                self.complain("lost", f"{subject} never told {type_} {reason or ''}")
        for type_, field in SUBJECTS.items():
            for reason in REASONS if type_ == "RESERVATION_CANCELLED" else (None,):
                if (type_, subject, reason) in self.once and (type_, reason) not in wanted + tuple(may):
                    self.complain("made up", f"{subject} told {type_} {reason or ''} without the effect")

    def _reservations(self):
        ledger = {row["payment_id"]: row for row in self._rows("payment_ledger")}
        known = set()
        for row in self._rows("reservations"):
            known.add(row["id"])
            created, confirmed = ("RESERVATION_CREATED", None), ("RESERVATION_CONFIRMED", None)
            cancelled = ("RESERVATION_CANCELLED", row["cancel_reason"])
            expired = ("RESERVATION_CANCELLED", "expired")
            status = row["status"]
            if status == "confirmed":
                self._tells(row["id"], created, confirmed, may=[expired])
            elif status == "refunded":
                self._tells(row["id"], created, confirmed, cancelled, may=[expired])
            elif status in ("cancelled", "expired"):
                self._tells(row["id"], created, cancelled)
            else:
                self._tells(row["id"], created)
            self._allowed(row["id"], status)
            paid = ledger.get(row["payment_id"])
            if status in ("confirmed", "refunded"):
                want = "applied" if status == "confirmed" else "refunded"
                if paid is None or paid["state"] != want:
                    self.complain("ledger", f"reservation {row['id']} is {status}, its payment {paid}")
                elif paid["payment_type"] == "reservation" and paid["amount"] != row["total_amount"]:
                    self.complain("ledger", f"reservation {row['id']} was paid with {paid['amount']}")
            if row["payment_status"] == "refund_requested":
                self.complain("lost", f"the refund of reservation {row['id']} was never answered")
        for type_, subject, _ in self.once:
            if type_.startswith("RESERVATION_") and subject not in known:
                self.complain("made up", f"{type_} of {subject}, which is not in ticket_db")

    def _allowed(self, subject, state):
        states = self.facts.allowed.get(subject)
        if states and state not in states:
            self.complain("lost", f"{subject} is {state}; its events lead to {' or '.join(sorted(states))}")

    def _transfers_and_memberships(self):
        for row in self._rows("ticket_transfers"):
            word = {"completed": "TRANSFER_COMPLETED", "cancelled": "TRANSFER_CANCELLED"}.get(row["status"])
            self._tells(row["id"], *([(word, None)] if word else []))
            self._allowed(row["id"], row["status"])
        for row in self._rows("artist_memberships"):
            joined = row["payment_id"] is not None
            self._tells(row["id"], *([("MEMBERSHIP_ACTIVATED", None)] if joined else []))
            self._allowed(row["id"], row["status"])
            if row["points"] != (200 if row["status"] == "active" else 0):
                self.complain("doubled", f"membership {row['id']} ({row['status']}): {row['points']} points")

    def _seats(self):
        state = {row["id"]: row["status"] for row in self._rows("reservations")}
        holders = collections.defaultdict(list)
        for item in self._rows("reservation_items"):
            live = state.get(item["reservation_id"]) in ("pending", "confirmed")
            if item["live"] != live:
                self.complain("seats", f"item {item['id']}: live is {item['live']}, its reservation is"
                                       f" {state.get(item['reservation_id'])}")
            if item["live"] and item["seat_id"]:
                holders[item["seat_id"]].append(item)
        for seat in self._rows("seats"):
            items = holders.pop(seat["id"], [])
            free = "locked" if seat.get("locked_by") == LATER_HOLDER else "available"
            want = {"confirmed": "sold", "pending": "reserved"}.get(
                state.get(items[0]["reservation_id"]) if items else None, free)
            if len(items) > 1:
                self.complain("doubled", f"seat {seat['id']} has {len(items)} live items")
            elif seat["status"] != want:
                self.complain("seats", f"seat {seat['id']} is {seat['status']}, by its items {want}")
            elif items and seat["fencing_token"] != items[0]["fencing_token"]:
                self.complain("seats", f"seat {seat['id']} and its item carry different tokens")
        for seat_id in holders:
            self.complain("seats", f"an item holds seat {seat_id}, which does not exist")

    def _standing(self):
        taken = collections.Counter()
        for item in self._rows("reservation_items"):
            if item["live"] and item["ticket_type_id"]:
                taken[item["ticket_type_id"]] += item["quantity"]
        for row in self._rows("ticket_types"):
            gone = row["total_quantity"] - row["available_quantity"]
            if gone != taken[row["id"]]:
                self.complain("standing", f"ticket type {row['id']}: {gone} taken, items say {taken[row['id']]}")

    # --- money -------------------------------------------------------------------------------------

    def _ledger(self):
        ledger = {row["payment_id"]: row for row in self._rows("payment_ledger")}
        confirmed, refunded = _first(self.payments, "PAYMENT_CONFIRMED"), _first(self.payments, "PAYMENT_REFUNDED")
        for payment in confirmed.keys() | refunded.keys():
            row = ledger.get(payment)
            if row is None:
                self.complain("lost", f"payment {payment} is not in the ledger")
                continue
            event = confirmed.get(payment) or refunded[payment]
            if row["amount"] != event.body["amount"]:
                self.complain("ledger", f"payment {payment}: {row['amount']} in the ledger,"
                                        f" {event.body['amount']} published")
            if (row["state"] == "refunded") != (payment in refunded):
                self.complain("ledger", f"payment {payment} is {row['state']}, its refund was"
                                        f" {'' if payment in refunded else 'not '}published")
            if row["state"] == "refund_requested":
                self.complain("lost", f"the refund of {payment} was requested and never answered")
        for payment in ledger.keys() - confirmed.keys() - refunded.keys():
            self.complain("made up", f"payment {payment} is in the ledger and was never published")
        self._applied_to_something(ledger)
        paid = sum(e.body["amount"] for e in confirmed.values())
        back = sum(e.body["amount"] for p, e in confirmed.items() if p in refunded)
        kept = sum(row["amount"] for row in ledger.values() if row["state"] == "applied")
        if paid - back != kept:
            self.complain("ledger", f"published {paid}, refunded {back}, but {kept} is applied")

    def _applied_to_something(self, ledger):
        transfers = {row["id"]: row for row in self._rows("ticket_transfers")}
        bought = {row["reservation_id"] for row in transfers.values() if row["status"] == "completed"}
        paid_by = {row["id"]: row["payment_id"]
                   for table in ("reservations", "artist_memberships") for row in self._rows(table)}
        for payment, row in ledger.items():
            if row["state"] != "applied":
                continue
            subject = row["subject_id"]
            if row["payment_type"] == "transfer":
                transfer = transfers.get(subject, {})
                good = transfer.get("payment_id") == payment and transfer["status"] == "completed"
            else:
                good = paid_by.get(subject) == payment or subject in bought
            if not good:
                self.complain("ledger", f"payment {payment} is applied, but {subject} does not know it")

    def _refund_requests(self):
        requests = {e.id: e for e in self.told if e.type == "PAYMENT_REFUND_REQUESTED"}
        asked = {row["payment_id"]: row for row in self._rows("payment_ledger") if row["refund_requested_at"]}
        for payment in asked.keys() - requests.keys():
            self.complain("lost", f"the ledger asked {payment} back, Kafka has no request")
        for payment in requests.keys() - asked.keys():
            self.complain("made up", f"a refund of {payment} is requested, the ledger knows nothing of it")
        for payment in requests.keys() & asked.keys():
            if requests[payment].body["amount"] != asked[payment]["amount"]:
                self.complain("ledger", f"{payment}: {requests[payment].body['amount']} asked back,"
                                        f" {asked[payment]['amount']} paid")

    # --- stats -------------------------------------------------------------------------------------

    def _figures(self):
        if not self.facts.stats:
            return
        daily = self._payment_figures()
        daily.update(self._reservation_figures(self._rows("reservations"), None))
        transfers = [r for r in self._rows("ticket_transfers") if r["status"] == "completed"]
        daily.update({
            "transfers_completed": len(transfers),
            "transfers_completed_amount": sum(r["total_price"] for r in transfers),
            "transfers_cancelled": sum(r["status"] == "cancelled" for r in self._rows("ticket_transfers")),
            "memberships_activated": sum(r["payment_id"] is not None for r in self._rows("artist_memberships")),
        })
        self._same("daily", self.facts.stats["daily"], daily)
        hourly = {name: daily[name] for name in (
            "reservations_created", "reservations_confirmed", "total_revenue", "payments_confirmed",
            "payment_revenue", "payments_refunded", "refund_amount")}
        hourly["reservations_cancelled"] = sum(n for name, n in daily.items() if name.startswith("cancelled_"))
        self._same("hourly", self.facts.stats["hourly"], hourly)
        by_event = collections.defaultdict(list)
        for row in self._rows("reservations"):
            by_event[row["event_id"]].append(row)
        for event in by_event.keys() | self.facts.stats["events"].keys():
            self._same(f"event {event}", self.facts.stats["events"].get(event, {}),
                       self._reservation_figures(by_event[event], event))

    def _payment_figures(self):
        paid, back = _first(self.counted, "PAYMENT_CONFIRMED"), _first(self.counted, "PAYMENT_REFUNDED")
        figures = {"payments_confirmed": len(paid), "payment_revenue": _sum(paid.values()),
                   "payments_refunded": len(back), "refund_amount": _sum(back.values())}
        for kind in ("transfer", "membership"):
            part = [e for e in paid.values() if e.body.get("paymentType") == kind]
            figures[f"{kind}_payments"], figures[f"{kind}_amount"] = len(part), _sum(part)
        return figures

    def _reservation_figures(self, rows, event):
        sold = [r for r in rows if r["status"] in ("confirmed", "refunded")]
        figures = {
            "reservations_created": len(rows), "reservations_confirmed": len(sold),
            "total_revenue": sum(r["total_amount"] for r in sold),
            "refunded_revenue": sum(r["total_amount"] for r in sold if r["status"] == "refunded"),
            "cancelled_refunded": sum(r["status"] == "refunded" for r in rows),
            # A revived reservation's row no longer says that it had expired: ask the log.
            "cancelled_expired": len({e.id for e in self.told if _expired(e)
                                      and event in (None, e.body["eventId"])}),
            "cancelled_amount_mismatch": 0,
        }
        for reason in ("user", "seat_lost", "event_cancelled"):
            figures["cancelled_" + reason] = sum(
                r["status"] == "cancelled" and r["cancel_reason"] == reason for r in rows)
        return figures

    def _same(self, name, stored, wanted):
        for column, value in wanted.items():
            if stored.get(column, 0) != value:
                self.complain("stats", f"{name}.{column} is {stored.get(column, 0)}, want {value}")

    # --- bookkeeping -------------------------------------------------------------------------------

    def _dead_letters(self):
        want = {}
        for record in self.facts.records:
            if record.topic != PAYMENTS:
                continue
            reason, groups = self.facts.poison.get(record.key, (None, ()))
            for group in groups:
                want[group, record.partition, record.offset] = reason
            if not groups:
                event = decode(record)
                if (event.type, event.id) in self.facts.refused:
                    reason = self.facts.refused[event.type, event.id]
                    want[TICKET, record.partition, record.offset] = reason
        found = {}
        for letter in self.letters:
            headers = dict(letter.headers)
            place = (headers.get("urr-group", b"").decode(), int(headers.get("urr-partition", b"-1")),
                     int(headers.get("urr-offset", b"-1")))
            if found.setdefault(place, letter)._replace(offset=0) != letter._replace(offset=0):
                self.complain("doubled", f"two different dead letters of {place}")
            reason = headers.get("urr-reason", b"").decode()
            if place not in want:
                self.complain("dead letters", f"{place} is dead of {reason}, and was a good event:"
                                              f" {_short(letter)} {headers.get('urr-detail')}")
            elif reason != want[place]:
                self.complain("dead letters", f"{place} is dead of {reason}, should be of {want[place]}")
        for place in want.keys() - found.keys():
            self.complain("lost", f"{place} ({want[place]}) has no dead letter")

    def _processed(self):
        want = {TICKET: {f"{e.type}:{e.id}" for e in self.payments},
                STATS: {f"{e.type}:{e.id}" for e in self.counted}
                | {f"{e.type}:{e.id}:{e.at}" for e in self.told if e.record.topic in DOMAIN}}
        for group, keys in want.items():
            stored = self.facts.processed.get(group, set())
            for key in keys - stored:
                self.complain("lost", f"{group} never processed {key}")
            for key in stored - keys:
                self.complain("made up", f"{group} processed {key}, which is not in the log")
            for (topic, partition), end in self.facts.ends.items():
                if topic not in ((PAYMENTS,) if group == TICKET else DOMAIN):
                    continue
                at = self.facts.offsets.get(group, {}).get((topic, partition), 0)
                if at != end:
                    self.complain("lost", f"{group} stands at {at} of {end} in {topic}[{partition}]")


LATER_HOLDER = "later-holder"  # who has the seats that reservations have lost
REASONS = ("expired", "user", "refunded", "amount_mismatch", "seat_lost", "event_cancelled")


def _expired(event):
    return event.type == "RESERVATION_CANCELLED" and event.body["reason"] == "expired"


def _once(event):
    reason = event.body["reason"] if event.type == "RESERVATION_CANCELLED" else None
    return event.type, event.id, reason


def _identity(row):
    return row.topic, row.key, row.value, tuple(row.headers)


def _first(events, type_):
    """paymentId → the first event of that type."""
    found = {}
    for event in events:
        if event.type == type_:
            found.setdefault(event.id, event)
    return found


def _sum(events):
    return sum(e.body["amount"] for e in events)


def _short(row):
    return f"{row.topic} {row.key} {(row.value or b'')[:200]}"

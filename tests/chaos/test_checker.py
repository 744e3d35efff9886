"""The checker against small worlds made by hand: one that is right, and one for each way to be wrong."""
import copy
import json

import checker
import pytest
from checker import COMMANDS, PAYMENTS, STATS, TICKET, Facts, Outgoing, Record

SOLD, REFUNDED, CANCELLED, FLOOR, OPEN = ("10000000-0000-4000-8000-00000000000%d" % n for n in range(5))
MEMBER, LISTING, EVENT, FIELD = ("20000000-0000-4000-8000-00000000000%d" % n for n in range(4))
AT = "2026-05-01T10:00:0%d.000Z"


def at(second):
    return AT % second


class Right:
    """A small world in which nothing is wrong. Reservations: SOLD (then sold on by LISTING), REFUNDED, CANCELLED
    while pending, FLOOR (standing), OPEN (unpaid; its wrong payment went back), a membership, and one poison."""

    def __init__(self):
        self.facts = Facts()
        self.ends = {}
        self.pay("p1", SOLD, 100, 1)
        self.pay("p2", REFUNDED, 50, 2)
        self.refund("p2", 50, 3)
        self.pay("p3", FLOOR, 20, 1)
        self.pay("p4", OPEN, 49, 1)
        self.refund("p4", 49, 5)
        self.pay("p5", MEMBER, 30, 1, "membership")
        self.pay("p6", LISTING, 110, 4, "transfer")
        self.pay("p1", SOLD, 100, 1)  # once more
        for n, (rid, amount) in enumerate([(SOLD, 100), (REFUNDED, 50), (CANCELLED, 50), (FLOOR, 20), (OPEN, 50)]):
            self.tell(n, "reservation-events", "RESERVATION_CREATED", rid, 0, amount)
        self.tell(10, "reservation-events", "RESERVATION_CONFIRMED", SOLD, 1, 100)
        self.tell(11, "reservation-events", "RESERVATION_CONFIRMED", REFUNDED, 2, 50)
        self.tell(12, "reservation-events", "RESERVATION_CANCELLED", REFUNDED, 3, 50, reason="refunded")
        self.tell(13, "reservation-events", "RESERVATION_CANCELLED", CANCELLED, 3, 50, reason="user")
        self.tell(14, "reservation-events", "RESERVATION_CONFIRMED", FLOOR, 1, 20)
        self.tell(15, COMMANDS, "PAYMENT_REFUND_REQUESTED", "p4", 1, amount=49)
        self.tell(16, "membership-events", "MEMBERSHIP_ACTIVATED", MEMBER, 1)
        self.tell(17, "transfer-events", "TRANSFER_COMPLETED", LISTING, 4, totalPrice=110)
        self.poison()
        self.tables()
        self.figures()
        self.books()

    def record(self, topic, key, value, headers=()):
        offset = self.ends.get((topic, 0), 0)
        self.ends[topic, 0] = offset + 1
        self.facts.records.append(Record(topic, 0, offset, key, value, tuple(headers)))
        return offset

    def pay(self, payment, subject, amount, second, kind="reservation"):
        self._publish({"type": "PAYMENT_CONFIRMED", "paymentId": payment, "paymentType": kind, "amount": amount,
                       "reservationId": subject, "timestamp": at(second)})

    def refund(self, payment, amount, second):
        self._publish({"type": "PAYMENT_REFUNDED", "paymentId": payment, "amount": amount, "reason": "x",
                       "timestamp": at(second)})

    def _publish(self, body):
        key, value = b"order-" + body["paymentId"].encode(), json.dumps(body).encode()
        self.record(PAYMENTS, key, value)
        self.facts.sent.add((key, value))

    def tell(self, number, topic, kind, subject, second, total=None, **more):
        body = {"type": kind, checker.SUBJECTS[kind]: subject, "timestamp": at(second),
                "eventId": FIELD if subject == FLOOR else EVENT, "totalAmount": total, **more}
        key, value = subject.encode(), json.dumps(body).encode()
        self.facts.written.setdefault("ticket", []).append(Outgoing(number, topic, key, value, ()))
        self.record(topic, key, value)

    def poison(self):
        offset = self.record(PAYMENTS, b"poison-1", b"{")
        self.facts.poison[b"poison-1"] = ("bad_json", (TICKET, STATS))
        for group, database in ((TICKET, "ticket"), (STATS, "stats")):
            headers = (("urr-reason", b"bad_json"), ("urr-group", group.encode()), ("urr-partition", b"0"),
                       ("urr-offset", str(offset).encode()))
            self.record(PAYMENTS + ".dlq", b"poison-1", b"{", headers)
            self.facts.written.setdefault(database, []).append(
                Outgoing(99, PAYMENTS + ".dlq", b"poison-1", b"{", headers))

    def tables(self):
        def reservation(rid, amount, status, payment=None, reason=None):
            return {"id": rid, "event_id": FIELD if rid == FLOOR else EVENT, "user_id": "u", "total_amount": amount,
                    "status": status, "payment_status": "whatever", "payment_id": payment, "cancel_reason": reason}

        def item(rid, seat, live, kind=None, quantity=1):
            return {"id": "item-" + rid, "reservation_id": rid, "seat_id": seat, "ticket_type_id": kind,
                    "quantity": quantity, "fencing_token": 7 if seat else None, "live": live}

        def paid(payment, kind, subject, amount, state, asked=None):
            return {"payment_id": payment, "payment_type": kind, "subject_id": subject, "amount": amount,
                    "state": state, "refund_requested_at": asked}

        self.facts.ticket = {
            "reservations": [reservation(SOLD, 100, "confirmed", "p6"), reservation(FLOOR, 20, "confirmed", "p3"),
                             reservation(REFUNDED, 50, "refunded", "p2", "refunded"),
                             reservation(CANCELLED, 50, "cancelled", None, "user"), reservation(OPEN, 50, "pending")],
            "reservation_items": [item(SOLD, "seat1", True), item(REFUNDED, "seat2", False),
                                  item(CANCELLED, "seat2", False), item(FLOOR, None, True, "floor", 2),
                                  item(OPEN, "seat3", True)],
            "seats": [{"id": f"seat{n}", "status": status, "fencing_token": 7}
                      for n, status in ((1, "sold"), (2, "available"), (3, "reserved"))],
            "ticket_types": [{"id": "floor", "total_quantity": 10, "available_quantity": 8}],
            "ticket_transfers": [{"id": LISTING, "reservation_id": SOLD, "status": "completed", "total_price": 110,
                                  "payment_id": "p6"}],
            "artist_memberships": [{"id": MEMBER, "status": "active", "points": 200, "payment_id": "p5"}],
            "payment_ledger": [paid("p1", "reservation", SOLD, 100, "applied"),
                               paid("p2", "reservation", REFUNDED, 50, "refunded"),
                               paid("p3", "reservation", FLOOR, 20, "applied"),
                               paid("p4", "reservation", OPEN, 49, "refunded", "then"),
                               paid("p5", "membership", MEMBER, 30, "applied"),
                               paid("p6", "transfer", LISTING, 110, "applied")],
        }
        self.facts.allowed = {SOLD: {"confirmed"}, REFUNDED: {"refunded"}, CANCELLED: {"cancelled"}}

    def figures(self):
        hall = {"reservations_created": 4, "reservations_confirmed": 2, "total_revenue": 150, "refunded_revenue": 50,
                "cancelled_refunded": 1, "cancelled_user": 1}
        field = {"reservations_created": 1, "reservations_confirmed": 1, "total_revenue": 20}
        sums = {name: hall.get(name, 0) + field.get(name, 0) for name in hall}
        money = {"payments_confirmed": 6, "payment_revenue": 359, "payments_refunded": 2, "refund_amount": 99}
        self.facts.stats = {
            "daily": {**sums, **money, "transfer_payments": 1, "transfer_amount": 110, "membership_payments": 1,
                      "membership_amount": 30, "transfers_completed": 1, "transfers_completed_amount": 110,
                      "memberships_activated": 1},
            "hourly": {**money, "reservations_created": 5, "reservations_confirmed": 3, "total_revenue": 170,
                       "reservations_cancelled": 2},
            "events": {EVENT: hall, FIELD: field},
        }

    def books(self):
        self.facts.ends = dict(self.ends)
        for group in (TICKET, STATS):
            self.facts.offsets[group] = dict(self.ends)
            self.facts.processed[group] = set()
        for record in self.facts.records:
            if record.key == b"poison-1":
                continue
            event = checker.decode(record)
            if record.topic == PAYMENTS:
                for group in (TICKET, STATS):
                    self.facts.processed[group].add(f"{event.type}:{event.id}")
            elif record.topic != COMMANDS:
                self.facts.processed[STATS].add(f"{event.type}:{event.id}:{event.at}")


@pytest.fixture
def world():
    return copy.deepcopy(Right().facts)


def kinds(facts):
    return {complaint.kind for complaint in checker.check(facts)}


def row(facts, table, **match):
    return next(r for r in facts.ticket[table] if all(r[name] == value for name, value in match.items()))


def drop_record(facts, word, nth=0):
    found = [r for r in facts.records if r.topic != PAYMENTS and word in (r.value or b"")]
    facts.records.remove(found[nth])


def place(facts, word):
    """Index of the first follow-up that speaks of `word`."""
    return next(n for n, r in enumerate(facts.records) if r.topic != PAYMENTS and word in (r.value or b""))


def test_the_right_world_is_right(world):
    assert checker.check(world) == []


def test_a_repeated_record_is_no_fault(world):
    record = world.records[place(world, b"RESERVATION_CONFIRMED")]
    world.records.append(record._replace(offset=world.ends[record.topic, 0]))
    judge = checker.Judge(world)
    assert [c for c in judge.judge() if c.kind != "lost"] == []  # lost: the offsets do not know of it
    assert judge.repeats == 1


def test_finds_a_published_record_that_is_gone(world):
    world.records = [r for r in world.records if b"p5" not in (r.value or b"") or r.topic != PAYMENTS]
    assert "lost" in kinds(world)


def test_finds_a_payment_without_a_ledger_row(world):
    world.ticket["payment_ledger"].remove(row(world, "payment_ledger", payment_id="p3"))
    assert "lost" in kinds(world)


def test_finds_an_effect_without_its_event(world):
    drop_record(world, b"TRANSFER_COMPLETED")
    assert "lost" in kinds(world)


def test_finds_an_effect_whose_event_was_never_written(world):
    drop_record(world, b"RESERVATION_CONFIRMED")
    world.written["ticket"] = [w for w in world.written["ticket"] if w.id != 10]
    assert "lost" in kinds(world)


def test_finds_a_confirmation_that_had_no_effect(world):
    row(world, "reservations", id=FLOOR).update(status="pending", payment_id=None)
    world.allowed[FLOOR] = {"confirmed"}
    assert "lost" in kinds(world)


def test_finds_a_message_that_never_left(world):
    world.stuck = {"ticket": {"outbox": 0, "outbox_failed": 1}}
    assert "lost" in kinds(world)


def test_finds_a_refund_never_answered(world):
    row(world, "payment_ledger", payment_id="p4")["state"] = "refund_requested"
    assert {"lost", "ledger"} <= kinds(world)


def test_finds_a_message_caused_twice(world):
    world.written["ticket"].append(world.written["ticket"][7]._replace(id=200))
    assert kinds(world) == {"doubled"}


def test_finds_a_confirmation_told_twice(world):
    n = place(world, b"RESERVATION_CONFIRMED")
    again = world.records[n]._replace(offset=90, value=world.records[n].value.replace(at(1).encode(), at(6).encode()))
    world.records.append(again)
    world.written["ticket"].append(Outgoing(200, again.topic, again.key, again.value, ()))
    assert "doubled" in kinds(world)


def test_finds_a_second_refund_request(world):
    n = place(world, b"PAYMENT_REFUND_REQUESTED")
    again = world.records[n]._replace(offset=90, value=world.records[n].value.replace(at(1).encode(), at(6).encode()))
    world.records.append(again)
    world.written["ticket"].append(Outgoing(200, again.topic, again.key, again.value, ()))
    assert kinds(world) == {"doubled"}


def test_finds_a_refund_request_nobody_decided(world):
    row(world, "payment_ledger", payment_id="p4")["refund_requested_at"] = None
    assert kinds(world) == {"made up"}


def test_finds_a_request_for_another_amount(world):
    row(world, "payment_ledger", payment_id="p4")["amount"] = 48
    assert "ledger" in kinds(world)


def test_finds_an_event_without_a_cause(world):
    world.written["ticket"] = [w for w in world.written["ticket"] if w.id != 13]
    assert kinds(world) == {"made up"}


def test_finds_an_event_without_its_effect(world):
    row(world, "reservations", id=SOLD)["status"] = "pending"
    assert "made up" in kinds(world)


def test_finds_a_cancellation_before_the_confirmation(world):
    first, second = (next(n for n, r in enumerate(world.records) if r.topic == "reservation-events"
                          and word in r.value and REFUNDED.encode() in r.value)
                     for word in (b"CONFIRMED", b"CANCELLED"))
    records = world.records
    one, two = records[first], records[second]
    records[first], records[second] = two._replace(offset=one.offset), one._replace(offset=two.offset)
    assert kinds(world) == {"reordered"}


def test_finds_a_key_in_two_partitions(world):
    n = place(world, b"CANCELLED")
    world.records[n] = world.records[n]._replace(partition=1)
    assert "reordered" in kinds(world)


def test_finds_a_seat_sold_without_an_item(world):
    world.ticket["seats"][1]["status"] = "sold"
    assert kinds(world) == {"seats"}


def test_finds_a_seat_freed_under_its_owner(world):
    world.ticket["seats"][0]["status"] = "available"
    assert kinds(world) == {"seats"}


def test_finds_a_seat_with_two_owners(world):
    row(world, "reservation_items", reservation_id=OPEN)["seat_id"] = "seat1"
    assert "doubled" in kinds(world)


def test_finds_a_live_item_of_a_refunded_reservation(world):
    row(world, "reservation_items", reservation_id=REFUNDED)["live"] = True
    assert "seats" in kinds(world)


def test_finds_standing_places_that_do_not_add_up(world):
    world.ticket["ticket_types"][0]["available_quantity"] = 7
    assert kinds(world) == {"standing"}


def test_finds_a_wrong_amount_in_the_ledger(world):
    row(world, "payment_ledger", payment_id="p3")["amount"] = 21
    assert kinds(world) == {"ledger"}


def test_finds_a_payment_applied_to_nothing(world):
    row(world, "artist_memberships", id=MEMBER)["payment_id"] = "p9"
    assert "ledger" in kinds(world)


def test_finds_a_ledger_row_nobody_paid_for(world):
    world.ticket["payment_ledger"].append({**row(world, "payment_ledger", payment_id="p2"), "payment_id": "p77"})
    assert kinds(world) == {"made up"}


def test_finds_joining_points_given_twice(world):
    row(world, "artist_memberships", id=MEMBER)["points"] = 400
    assert kinds(world) == {"doubled"}


@pytest.mark.parametrize("column", ["payments_confirmed", "payment_revenue", "refund_amount", "transfer_amount",
                                    "reservations_created", "reservations_confirmed", "total_revenue",
                                    "cancelled_user", "cancelled_refunded", "memberships_activated",
                                    "transfers_completed"])
def test_finds_a_figure_counted_twice(world, column):
    world.stats["daily"][column] *= 2
    assert kinds(world) == {"stats"}


def test_finds_an_event_s_figures_wrong(world):
    world.stats["events"][FIELD]["total_revenue"] = 0
    assert kinds(world) == {"stats"}


def test_finds_an_hour_s_figures_wrong(world):
    world.stats["hourly"]["reservations_cancelled"] = 3
    assert kinds(world) == {"stats"}


def test_finds_poison_that_one_group_dropped(world):
    letter = next(r for r in world.records if r.topic.endswith(".dlq") and STATS.encode() in dict(r.headers).values())
    world.records.remove(letter)
    world.written["stats"] = []
    assert kinds(world) == {"lost"}


def test_finds_a_good_event_among_the_dead(world):
    offset = next(r.offset for r in world.records if r.topic == PAYMENTS and b"p3" in r.value)
    headers = (("urr-reason", b"database_refused"), ("urr-group", TICKET.encode()), ("urr-partition", b"0"),
               ("urr-offset", str(offset).encode()))
    world.records.append(Record(PAYMENTS + ".dlq", 0, 9, b"order-p3", b"{}", headers))
    world.written["ticket"].append(Outgoing(300, PAYMENTS + ".dlq", b"order-p3", b"{}", headers))
    assert kinds(world) == {"dead letters"}


def test_finds_a_wrong_reason(world):
    world.poison[b"poison-1"] = ("empty_value", (TICKET, STATS))
    assert kinds(world) == {"dead letters"}


def test_finds_an_event_not_marked_as_processed(world):
    world.processed[STATS].remove("PAYMENT_CONFIRMED:p1")
    assert kinds(world) == {"lost"}


def test_finds_a_mark_without_an_event(world):
    world.processed[TICKET].add("PAYMENT_CONFIRMED:p99")
    assert kinds(world) == {"made up"}


def test_finds_a_group_that_stands_still(world):
    world.offsets[TICKET][PAYMENTS, 0] -= 1
    assert kinds(world) == {"lost"}

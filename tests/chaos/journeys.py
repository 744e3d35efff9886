"""What happens to one thing that is sold: a seeded script of steps, from the reservation to the last event.

A journey is a generator. It yields steps and is resumed when the step is done (load.py does them):
    Create(row)            into ticket_db, with RESERVATION_CREATED in the outbox where it is a reservation
    Publish(key, value)    to payment-events
    Cancel(id, by, user)   ticket_cancel()
    Lose(id)               a later holder has one of the reservation's seats
    Await(table, id, status)   until the row has that status; resumed with False after a while
    Sleep(seconds)
The script also says what must become of it (Script.allowed, poison, refused): the checker compares.
Identities and choices depend on the seed alone; what overtakes what depends on the run."""
import collections
import datetime
import json
import random
import uuid

from checker import STATS, TICKET

Create = collections.namedtuple("Create", "row")
Publish = collections.namedtuple("Publish", "key value")
Cancel = collections.namedtuple("Cancel", "id by user")
Lose = collections.namedtuple("Lose", "id")
Await = collections.namedtuple("Await", "table id status")
Sleep = collections.namedtuple("Sleep", "seconds")

Reservation = collections.namedtuple("Reservation", "id user saga seats standing quantity amount expires_at")
Membership = collections.namedtuple("Membership", "id user saga")
Listing = collections.namedtuple("Listing", "id reservation seller price")

SEAT_PRICE, STANDING_PRICE, MEMBERSHIP_PRICE = 50000, 10000, 30000
STANDING_TYPES = 3
PAID = frozenset({"confirmed"})
UNPAID = frozenset({"pending", "expired"})


class Script:
    """Hands out journeys; remembers what was sent and what ought to become of it."""

    def __init__(self, seed):
        self.seed = seed
        self.sent, self.poison, self.refused, self.allowed = set(), {}, {}, {}
        self.kinds = collections.Counter()

    def journey(self, number):
        choice = random.Random(f"{self.seed}:{number}")
        kinds, weights = zip(*KINDS.items())
        kind = choice.choices(kinds, weights)[0]
        self.kinds[kind.__name__] += 1
        return kind(Traveller(self, number, choice))


class Traveller:
    """One journey's identities, and its words."""

    def __init__(self, script, number, choice):
        self.script, self.number, self.random = script, number, choice
        self.user = f"user{number}@example.com"
        self.saga = f"saga-{number}" if choice.random() < 0.7 else None
        self.payments = 0

    def uuid(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def chance(self, share):
        return self.random.random() < share

    def moment(self, most=2.0):
        return Sleep(self.random.random() * most)

    def reservation(self, expires_in=300.0, seated=False):
        seats, standing, quantity = 0, None, 0
        if seated or self.chance(0.65):
            seats = self.random.randint(1, 4)
        else:
            standing, quantity = self.random.randrange(STANDING_TYPES), self.random.randint(1, 10)
        amount = seats * SEAT_PRICE + quantity * STANDING_PRICE
        return Reservation(self.uuid(), self.user, self.saga, seats, standing, quantity, amount,
                           _now() + datetime.timedelta(seconds=expires_in))

    def payment(self):
        self.payments += 1
        return f"pay-{self.number}-{self.payments}", f"order-{self.number}-{self.payments}"

    def ends(self, subject, states):
        self.script.allowed[subject] = set(states)

    def confirmed(self, names, subject, amount, kind="reservation", user=None, at=None):
        payment, order = names
        own = kind == "reservation"
        event = {"type": "PAYMENT_CONFIRMED", "paymentId": payment, "orderId": order, "userId": user or self.user,
                 "reservationId": subject if own else None, "referenceId": None if own else subject,
                 "paymentType": kind, "amount": amount, "paymentMethod": self.random.choice(["card", "toss", None]),
                 "timestamp": self.time(at)}
        if self.saga:
            event["sagaId"] = self.saga
        if self.chance(0.1):  # as the oldest publishers do
            del event["type"]
            if own:
                del event["paymentType"]
        return Publish(order.encode(), _encode(event))

    def refunded(self, names, amount, keyed=True):
        """As today's publisher sends it: paymentId alone says what it is. Without the order's key it may
        overtake the confirmation."""
        payment, order = names
        event = {"type": "PAYMENT_REFUNDED", "paymentId": payment, "orderId": None, "userId": self.user,
                 "reservationId": None, "referenceId": None, "paymentType": "reservation", "amount": amount,
                 "reason": "asked by phone", "timestamp": self.time()}
        if self.chance(0.1):
            del event["type"]
        return Publish(order.encode() if keyed else payment.encode(), _encode(event))

    def again(self, publish, share=0.15):
        """The same bytes once more, perhaps twice."""
        while self.chance(share):
            yield self.moment(4)
            yield publish

    def time(self, at=None):
        at = at or _now()
        if self.chance(0.2):
            return int(at.timestamp() * 1000)
        return at.isoformat(timespec="milliseconds")


def _now():
    return datetime.datetime.now(datetime.timezone.utc)


def _encode(event):
    return json.dumps(event, ensure_ascii=False).encode()


# --- the kinds ------------------------------------------------------------------------------------------

def bought(t):
    """Reserved and paid for."""
    row = t.reservation()
    yield Create(row)
    yield t.moment()
    t.ends(row.id, PAID)
    paid = t.confirmed(t.payment(), row.id, row.amount)
    yield paid
    yield from t.again(paid)


def bought_and_cancelled(t):
    """The owner cancels: asked back, refunded by the payment service. Early enough, it was never paid."""
    row = t.reservation()
    yield Create(row)
    yield t.moment()
    t.ends(row.id, {"refunded", "cancelled"})
    paid = t.confirmed(t.payment(), row.id, row.amount)
    yield paid
    yield t.moment(4)
    yield Cancel(row.id, "user", t.user)
    yield from t.again(paid)


def bought_and_refunded(t):
    """The payment service gives the money back unasked, in the order of the log."""
    row = t.reservation()
    yield Create(row)
    t.ends(row.id, {"refunded"})
    names = t.payment()
    yield t.confirmed(names, row.id, row.amount)
    yield t.moment()
    back = t.refunded(names, row.amount)
    yield back
    yield from t.again(back, 0.3)


def refunded_by_another_way(t):
    """Confirmation and refund race through two partitions: bought and refunded, or never bought."""
    row = t.reservation()
    yield Create(row)
    t.ends(row.id, {"refunded"} | UNPAID)
    names = t.payment()
    yield t.confirmed(names, row.id, row.amount)
    yield t.refunded(names, row.amount, keyed=False)


def refunded_first(t):
    """A confirmation after its refund has no effect."""
    row = t.reservation()
    yield Create(row)
    t.ends(row.id, UNPAID)
    names = t.payment()
    yield t.refunded(names, row.amount)
    yield t.moment()
    paid = t.confirmed(names, row.id, row.amount)
    yield paid
    yield from t.again(paid)


def partly_refunded(t):
    """Less goes back than was paid: a person decides."""
    row = t.reservation()
    yield Create(row)
    t.ends(row.id, PAID)
    names = t.payment()
    yield t.confirmed(names, row.id, row.amount)
    t.script.refused["PAYMENT_REFUNDED", names[0]] = "partial_refund"
    yield t.refunded(names, row.amount - 1000)


def paid_wrongly(t):
    """Another amount goes back; the right one after it still buys."""
    row = t.reservation()
    yield Create(row)
    yield t.confirmed(t.payment(), row.id, row.amount + t.random.choice([-1000, 1000]))
    mended = t.chance(0.5)
    t.ends(row.id, PAID if mended else UNPAID)
    yield t.moment()
    if mended:
        yield t.confirmed(t.payment(), row.id, row.amount)


def paid_twice(t):
    """Two payments for one reservation: one buys, the other goes back."""
    row = t.reservation()
    yield Create(row)
    t.ends(row.id, PAID)
    first, second = (t.confirmed(t.payment(), row.id, row.amount) for _ in range(2))
    yield first
    if t.chance(0.5):
        yield t.moment()
    yield second
    yield from t.again(t.random.choice([first, second]))


def given_up(t):
    """Cancelled before it was paid; the payment that comes all the same goes back."""
    row = t.reservation()
    yield Create(row)
    t.ends(row.id, {"cancelled", "refunded"})
    yield Cancel(row.id, "user", t.user)
    if t.chance(0.5):
        yield t.confirmed(t.payment(), row.id, row.amount)


def seat_taken(t):
    """Another holder has one of the seats when the payment comes: cancelled, and the payment goes back."""
    row = t.reservation(seated=True)
    yield Create(row)
    yield t.moment()
    yield Lose(row.id)
    t.ends(row.id, {"cancelled"})
    paid = t.confirmed(t.payment(), row.id, row.amount)
    yield paid
    yield from t.again(paid)


def overdue(t):
    """The hold ends while it is paid: a payment made in time buys, unless its seats are gone by then."""
    row = t.reservation(expires_in=-t.random.uniform(40, 65))
    yield Create(row)
    t.ends(row.id, {"expired", "pending"})
    if t.chance(0.7):
        at = row.expires_at + datetime.timedelta(seconds=t.random.choice([-5, -5, 5]))
        t.ends(row.id, {"confirmed", "expired"})
        yield t.moment(20)
        yield t.confirmed(t.payment(), row.id, row.amount, at=at)


def joined(t):
    """A membership, sometimes given back."""
    row = Membership(t.uuid(), t.user, t.saga)
    yield Create(row)
    yield t.moment()
    names = t.payment()
    if t.chance(0.1):
        t.ends(row.id, {"pending"})
        yield t.confirmed(names, row.id, MEMBERSHIP_PRICE - 1000, "membership")
        return
    t.ends(row.id, {"active"})
    paid = t.confirmed(names, row.id, MEMBERSHIP_PRICE, "membership")
    yield paid
    yield from t.again(paid)
    if t.chance(0.2):
        t.ends(row.id, {"cancelled"})
        yield t.refunded(names, MEMBERSHIP_PRICE)


def passed_on(t):
    """Bought, listed, and bought by one of one or two others; then perhaps cancelled for its new owner."""
    row = t.reservation()
    yield Create(row)
    t.ends(row.id, PAID)
    names = t.payment()
    yield t.confirmed(names, row.id, row.amount)
    if not (yield Await("reservations", row.id, "confirmed")):
        return
    listing = Listing(t.uuid(), row.id, t.user, row.amount + 5000)
    yield Create(listing)
    buyers = t.random.choice([0, 1, 1, 2])
    if buyers == 0:
        t.ends(row.id, {"refunded"})
        t.ends(listing.id, {"cancelled"})
        yield Cancel(row.id, "admin", None)
        return
    t.ends(listing.id, {"completed"})
    for number in range(buyers):
        yield t.confirmed(t.payment(), listing.id, listing.price, "transfer", user=f"buyer{number}-{t.user}")
    if t.chance(0.3) and (yield Await("ticket_transfers", listing.id, "completed")):
        if t.chance(0.5):
            t.ends(row.id, {"refunded"})
            yield Cancel(row.id, "admin", None)
        else:
            t.script.refused["PAYMENT_REFUNDED", names[0]] = "transfer_refund"
            yield t.refunded(names, row.amount)


def nothing_there(t):
    """A payment for what never was goes back."""
    yield t.confirmed(t.payment(), t.uuid(), 77000)


def poison(t):
    """What no consumer can take."""
    key = f"poison-{t.number}".encode()
    good = {"type": "PAYMENT_CONFIRMED", "paymentId": f"poison-{t.number}", "orderId": key.decode(), "userId": "eve",
            "reservationId": t.uuid(), "referenceId": None, "paymentType": "reservation", "amount": 1000,
            "paymentMethod": "card", "timestamp": t.time()}
    both = (TICKET, STATS)
    reason, groups, value = t.random.choice([
        ("bad_json", both, b"{\"type\":\"PAYMENT_CONFIRMED\","),
        ("bad_json", both, b"\x00\xff\xfe not even text"),
        ("bad_json", both, _encode({**good, "userId": "nul\x00inside"})),
        ("empty_value", both, None),
        ("not_object", both, b"[1,2,3]"),
        ("too_large", both, _encode({**good, "padding": "x" * 200_000})),
        ("unknown_type", both, _encode({**good, "type": "PAYMENT_DREAMT_OF"})),
        ("unknown_payment_type", both, _encode({**good, "paymentType": "lottery"})),
        ("missing_field", both, _encode({k: v for k, v in good.items() if k != "amount"})),
        ("bad_amount", both, _encode({**good, "amount": 12.5})),
        ("bad_id", both, _encode({**good, "paymentId": "p" * 200})),
        ("bad_timestamp", both, _encode({**good, "timestamp": "yesterday"})),
        ("timestamp_range", both, _encode({**good, "timestamp": "1999-01-01T00:00:00Z"})),
        ("bad_subject_id", (TICKET,), _encode({**good, "reservationId": "no-uuid-at-all"})),
    ])
    t.script.poison[key] = (reason, groups)
    yield Publish(key, value)


KINDS = {bought: 45, bought_and_cancelled: 7, bought_and_refunded: 4, refunded_by_another_way: 3,
         refunded_first: 3, partly_refunded: 1, paid_wrongly: 3, paid_twice: 5, given_up: 4, overdue: 4,
         seat_taken: 2, joined: 10, passed_on: 8, nothing_there: 1, poison: 2}

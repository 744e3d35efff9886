"""The saga when things come twice, early, late, at once, or by another door."""
import random
import threading

import pytest
from sql_world import Brake, World, compact, iso, new_id


@pytest.fixture
def w(emptied_ticket_db):
    world = World(emptied_ticket_db)
    yield world
    world.check()
    world.close()


def types(w):
    return [value.split('"')[3] for _, _, value in w.told()]


def outcomes(results):
    return [outcome for outcome, _ in results]


both_ways = pytest.mark.parametrize("batched", [True, False], ids=["one_batch", "two_batches"])


def play(w, batched, *events):
    return w.apply(*events) if batched else [w.apply(event)[0] for event in events]


@both_ways
def test_a_refund_before_its_confirmation_leaves_the_reservation_pending(w, batched):
    rid = w.reservation()
    assert outcomes(play(w, batched, w.refunded(), w.confirmed(rid))) == ["ledger_only", "noop"]
    assert w.reservation_row(rid)[0] == "pending" and w.told() == []


@both_ways
def test_a_refund_with_nothing_but_its_payment_follows_its_confirmation(w, batched):
    rid = w.reservation()
    assert outcomes(play(w, batched, w.confirmed(rid), w.refunded())) == ["applied", "applied"]
    assert w.reservation_row(rid)[:2] == ("refunded", "refunded")
    assert types(w) == ["RESERVATION_CONFIRMED", "RESERVATION_CANCELLED"]


@both_ways
def test_a_membership_and_its_refund_cancel_out(w, batched):
    mid = w.membership()
    events = (w.confirmed(mid, type="membership", amount=30000), w.refunded(amount=30000), w.refunded(amount=30000))
    assert outcomes(play(w, batched, *events)) == ["applied", "applied", "noop"]
    assert w.rows("SELECT status, points FROM artist_memberships") == [("cancelled", 0)]
    assert w.rows("SELECT points FROM membership_point_logs ORDER BY points") == [(-200,), (200,)]


@both_ways
def test_of_two_payments_the_first_counts(w, batched):
    rid = w.reservation()
    results = play(w, batched, w.confirmed(rid, "p1"), w.confirmed(rid, "p2"))
    assert results == [("applied", None), ("refund_requested", "already_paid")]
    assert w.reservation_row(rid)[2] == "p1" and (w.ledger("p1"), w.ledger("p2")) == ("applied", "refund_requested")


@both_ways
def test_a_wrong_amount_goes_back_and_the_right_one_after_it_counts(w, batched):
    rid = w.reservation()
    results = play(w, batched, w.confirmed(rid, "p1", amount=1), w.confirmed(rid, "p2"))
    assert results == [("refund_requested", "amount_mismatch"), ("applied", None)]


@both_ways
def test_a_ticket_bought_twice_goes_to_the_first(w, batched):
    rid = w.reservation("confirmed", payment_id="p0")
    tid = w.listing(rid)
    results = play(w, batched, w.confirmed(tid, "p1", 70000, "transfer", "bob"),
                   w.confirmed(tid, "p2", 70000, "transfer", "eve"))
    assert results == [("applied", None), ("refund_requested", "transfer_completed")]
    assert w.reservation_row(rid)[2:] == ("p1", "bob")


@both_ways
def test_a_refund_before_the_sale_ends_the_listing_and_pays_the_buyer_back(w, batched):
    rid = w.reservation("confirmed", payment_id="p0")
    tid = w.listing(rid)
    results = play(w, batched, w.refunded("p0"), w.confirmed(tid, "p1", 70000, "transfer", "bob"))
    assert results == [("applied", None), ("refund_requested", "transfer_cancelled")]
    assert types(w) == ["RESERVATION_CANCELLED", "TRANSFER_CANCELLED", "PAYMENT_REFUND_REQUESTED"]


@both_ways
def test_a_refund_after_the_sale_is_for_a_person(w, batched):
    rid = w.reservation("confirmed", payment_id="p0")
    tid = w.listing(rid)
    results = play(w, batched, w.confirmed(tid, "p1", 70000, "transfer", "bob"), w.refunded("p0"))
    assert results == [("applied", None), ("dead", "transfer_refund")]


@both_ways
def test_only_the_first_revival_gets_the_seat(w, batched):
    seat = w.seat()
    first, second = (w.reservation("expired", user=user, seat_ids=[seat], expires_in=-100, token=token)
                     for user, token in (("ann", 3), ("bob", 5)))
    results = play(w, batched, w.confirmed(second, "p2", 50000, user="bob", age=101),
                   w.confirmed(first, "p1", 50000, age=101))
    assert results == [("applied", None), ("refund_requested", "reservation_expired")]
    assert w.rows("SELECT locked_by, fencing_token FROM seats") == [("bob", 6)]


@both_ways
@pytest.mark.parametrize("freed_first", [True, False])
def test_a_revival_sees_a_refund_only_if_it_came_before(w, batched, freed_first):
    seat = w.seat()
    late = w.reservation("expired", seat_ids=[seat], expires_in=-100, token=3)
    w.reservation("confirmed", user="bob", seat_ids=[seat], token=5, payment_id="p-bob")
    events = [w.refunded("p-bob", amount=50000), w.confirmed(late, "p1", 50000, age=101)]
    results = play(w, batched, *(events if freed_first else reversed(events)))
    assert outcomes(results) == (["applied", "applied"] if freed_first else ["refund_requested", "applied"])


@both_ways
def test_a_standing_revival_takes_what_a_refund_gave_back(w, batched):
    floor = w.standing(4)
    w.reservation("confirmed", user="bob", standing=floor, quantity=4, payment_id="p-bob")
    first, second = (w.reservation("expired", standing=floor, quantity=2, expires_in=-100) for _ in range(2))
    third = w.reservation("expired", standing=floor, quantity=1, expires_in=-100)
    results = play(w, batched, w.confirmed(first, "p1", 20000, age=101), w.refunded("p-bob", amount=40000),
                   w.confirmed(second, "p2", 20000, age=101), w.confirmed(third, "p3", 10000, age=101))
    assert outcomes(results) == ["refund_requested", "applied", "applied", "applied"]
    assert w.left(floor) == 1


def test_many_refunds_of_one_ticket_type_share_a_wave(w):
    floor = w.standing(100)
    events = []
    for i in range(20):
        w.reservation("confirmed", user=f"u{i}", standing=floor, quantity=2, payment_id=f"x{i}")
        events.append(w.refunded(f"x{i}", amount=20000))
    assert w.rows("SELECT * FROM ticket_lock_batch(%s, %s, %s, %s::text[], %s, %s::uuid[])", list(range(20)),
                  ["refunded"] * 20, [e["payment"] for e in events], [None] * 20, ["reservation"] * 20,
                  [None] * 20) == []
    assert set(outcomes(w.apply(*events))) == {"applied"}
    assert w.left(floor) == 100


# --- internal calls ----------------------------------------------------------------------------------

def internal(w, call, *arguments):
    return w.rows(f"SELECT * FROM ticket_internal_{call}({', '.join(['%s'] * len(arguments))})", *arguments)[0]


def test_the_internal_call_confirms_and_the_event_finds_it_done(w):
    rid = w.reservation(saga="s1")
    assert internal(w, "confirm", rid, "p1", 100000, "card") == ("applied", None)
    assert types(w) == ["RESERVATION_CONFIRMED"]
    assert w.apply(w.confirmed(rid)) == [("noop", None)]
    assert types(w) == ["RESERVATION_CONFIRMED"]
    assert w.one("SELECT order_id FROM payment_ledger") == "o-p1", "a refund request will need the order"


def test_the_event_confirms_and_the_internal_call_succeeds_too(w):
    rid = w.reservation()
    w.apply(w.confirmed(rid))
    assert internal(w, "confirm", rid, "p1", 100000, "card") == ("noop", None)


def test_the_internal_calls_complete_and_activate(w):
    rid = w.reservation("confirmed", payment_id="p0")
    tid, mid = w.listing(rid), w.membership()
    assert internal(w, "complete", tid, "bob", "p1", 70000, "card") == ("applied", None)
    assert internal(w, "activate", mid, "p2", 30000, "card") == ("applied", None)
    assert types(w) == ["TRANSFER_COMPLETED", "MEMBERSHIP_ACTIVATED"]


def lose_a_seat(w):
    rid = w.reservation()
    w.run("UPDATE seats SET fencing_token = 9, locked_by = 'bob' WHERE id = %s", w.seats_of(rid)[0])
    return "confirm", rid, "p1", 100000, "card"


REFUSED = {
    "amount_mismatch": lambda w: ("confirm", w.reservation(), "p1", 1, "card"),
    "reservation_missing": lambda w: ("confirm", new_id(), "p1", 100000, "card"),
    "reservation_cancelled": lambda w: ("confirm", w.reservation("cancelled"), "p1", 100000, "card"),
    "reservation_expired": lambda w: ("confirm", w.reservation("expired", expires_in=-1), "p1", 100000, "card"),
    "already_paid": lambda w: ("confirm", w.reservation("confirmed", payment_id="p0"), "p1", 100000, "card"),
    "payment_refunded": lambda w: (w.apply(w.refunded()), "confirm", w.reservation(), "p1", 100000, "card")[1:],
    "payment_applied": lambda w: (w.reservation("confirmed", payment_id="p1"), "confirm", w.reservation(), "p1",
                                  100000, "card")[1:],
    "transfer_missing": lambda w: ("complete", new_id(), "bob", "p1", 70000, "card"),
    "buyer_is_seller": lambda w: ("complete", w.listing(w.reservation("confirmed", payment_id="p0")), "ann", "p1",
                                  70000, "card"),
    "membership_active": lambda w: ("activate", w.membership("active"), "p1", 30000, "card"),
    "seat_lost": lose_a_seat,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refused_internal_call_changes_nothing_and_asks_for_nothing(emptied_ticket_db, reason):
    w = World(emptied_ticket_db)
    call = REFUSED[reason](w)
    before = w.state()
    assert internal(w, *call) == ("refused", reason)
    assert w.state() == before
    w.close()


def test_an_internal_call_without_a_payment_is_an_error(w):
    with pytest.raises(Exception, match="needs a paymentId"):
        internal(w, "confirm", w.reservation(), None, 100000, "card")


# --- cancels -----------------------------------------------------------------------------------------

def cancel(w, rid, by="user", user="ann"):
    return w.rows("SELECT outcome FROM ticket_cancel(%s::uuid[], %s, %s)", [rid], by,
                  user if by == "user" else None)[0][0]


@pytest.mark.parametrize("by,reason", [("user", "user"), ("admin", "user"), ("event_cancelled", "event_cancelled")])
def test_cancelling_a_pending_reservation_frees_it(w, by, reason):
    rid = w.reservation(saga="s1")
    assert cancel(w, rid, by) == "cancelled"
    assert w.reservation_row(rid)[0] == "cancelled" and w.seat_states(rid) == ["available", "available"]
    (topic, key, value), = w.told()
    assert (topic, key) == ("reservation-events", rid) and f'"reason":"{reason}"' in value
    assert w.one("SELECT cardinality(seat_ids) FROM redis_cleanup WHERE cause = 'cancelled'") == 2
    assert cancel(w, rid, by) == "noop" and len(w.told()) == 1


def test_cancelling_standing_places_gives_them_back(w):
    floor = w.standing()
    assert cancel(w, w.reservation(standing=floor, quantity=3)) == "cancelled" and w.left(floor) == 100


def test_cancelling_a_paid_reservation_asks_for_the_ledgers_amount_and_ends_the_listing(w):
    rid = w.reservation("confirmed", payment_id="p0", saga="s1")
    tid = w.listing(rid)
    w.apply(w.confirmed(tid, "p1", 70000, "transfer", "bob"))
    again = w.listing(rid, seller="bob", price=90000)
    w.forget_told()
    assert cancel(w, rid, user="bob") == "refund_requested"
    assert w.reservation_row(rid)[:2] == ("confirmed", "refund_requested")
    assert w.seat_states(rid) == ["sold", "sold"], "seats stay until the money is back"
    now = w.one("SELECT refund_requested_at FROM payment_ledger WHERE payment_id = 'p1'")
    assert sorted(w.told()) == sorted([
        ("payment-commands", "o-p1", compact(
            type="PAYMENT_REFUND_REQUESTED", sagaId="s1", paymentId="p1", orderId="o-p1", userId="bob", amount=70000,
            reason="user", timestamp=iso(now))),
        ("transfer-events", again, compact(
            type="TRANSFER_CANCELLED", sagaId="s1", transferId=again, reservationId=rid, sellerId="bob",
            reason="reservation_cancelled", timestamp=iso(now)))])
    assert cancel(w, rid, user="bob") == "noop" and len(w.told()) == 2


@pytest.mark.parametrize("arrange,outcome", [
    (lambda w: new_id(), "not_found"),
    (lambda w: w.reservation(user="bob"), "forbidden"),
    (lambda w: w.reservation("expired"), "closed"),
    (lambda w: w.reservation("refunded", payment_id="p1", ledger="refunded"), "closed"),
    (lambda w: w.reservation("confirmed"), "unpaid"),
    (lambda w: (w.run("UPDATE events SET cancel_until = now() - interval '1 s'"), w.reservation())[1], "too_late"),
])
def test_what_cannot_be_cancelled_stays_as_it_is(w, arrange, outcome):
    rid = arrange(w)
    before = w.state()
    assert cancel(w, rid) == outcome
    assert w.state() == before


def test_an_admin_is_not_bound_by_the_last_day_to_cancel(w):
    w.run("UPDATE events SET cancel_until = now() - interval '1 s'")
    assert cancel(w, w.reservation(), "admin") == "cancelled"


def test_a_whole_event_is_cancelled_step_by_step(w):
    for i in range(3):
        w.reservation(user=f"u{i}")
        w.reservation("confirmed", user=f"v{i}", payment_id=f"x{i}")
    left_alone = w.reservation("confirmed", user="old")
    steps = []
    while step := w.rows("SELECT outcome FROM ticket_cancel_event(%s, 4)", w.event):
        steps.append(len(step))
    assert steps == [4, 2]
    assert sorted(types(w)) == ["PAYMENT_REFUND_REQUESTED"] * 3 + ["RESERVATION_CANCELLED"] * 3
    assert w.reservation_row(left_alone)[:2] == ("confirmed", "completed")


# --- the sweeper -------------------------------------------------------------------------------------

def caught_up(w, *seconds_ago):
    w.run("DELETE FROM consumer_offsets")
    for partition, ago in enumerate(seconds_ago):
        w.run("INSERT INTO consumer_offsets (consumer_group, topic, partition, next_offset, caught_up_at)"
              " VALUES ('ticket-service-group', 'payment-events', %s, 0, now() - %s * interval '1 s')", partition, ago)


def sweep(w, limit=100, partitions=3):
    return w.rows("SELECT looked_at, expired FROM ticket_expire_due(%s, %s)", limit, partitions)[0]


def test_a_hold_ends_a_minute_after_all_payments_are_known(w):
    rid = w.reservation(expires_in=-61, saga="s1")
    caught_up(w, 0, 0, 0)
    ends = w.one("SELECT expires_at FROM reservations")
    assert sweep(w) == (1, 1)
    assert w.reservation_row(rid)[0] == "expired" and w.seat_states(rid) == ["available", "available"]
    assert w.told() == [("reservation-events", rid, compact(
        type="RESERVATION_CANCELLED", sagaId="s1", reservationId=rid, userId="ann", eventId=w.event,
        totalAmount=100000, reason="expired", timestamp=iso(ends)))]
    assert w.one("SELECT cause FROM redis_cleanup") == "expired"
    assert sweep(w) == (0, 0)


@pytest.mark.parametrize("expires_in,caught", [
    (-59, (0, 0, 0)),          # not a minute yet
    (-3600, (0, 0, 3600)),     # one partition has not been read since
    (-3600, (0, 0, None)),     # one was never caught up
    (-3600, (0, 0)),           # one has no row
    (-3600, ()),
])
def test_no_hold_ends_while_its_payment_may_be_unread(w, expires_in, caught):
    rid = w.reservation(expires_in=expires_in)
    caught_up(w, *caught)
    assert sweep(w)[1] == 0
    assert w.reservation_row(rid)[0] == "pending"


def test_a_paid_reservation_is_looked_at_once_and_left_alone(w):
    rid = w.reservation(expires_in=-3600)
    w.apply(w.confirmed(rid))
    caught_up(w, 0, 0, 0)
    assert (sweep(w), sweep(w)) == ((1, 0), (0, 0))
    assert w.reservation_row(rid)[0] == "confirmed"


def test_an_extended_hold_is_looked_at_again_at_its_new_end(w):
    w.reservation(expires_in=-3600)
    caught_up(w, 0, 0, 0)
    w.run("UPDATE reservations SET expires_at = now() + interval '100 s'")
    assert sweep(w) == (1, 0)
    assert w.one("SELECT look_at = expires_at FROM reservation_deadlines JOIN reservations ON id = reservation_id")


def test_the_sweeper_gives_standing_places_back_and_frees_only_seats_that_carry_its_token(w):
    floor = w.standing()
    w.reservation(standing=floor, quantity=3, expires_in=-100)
    rid = w.reservation(expires_in=-100)
    w.run("UPDATE seats SET fencing_token = 9, status = 'locked', locked_by = 'bob', locked_until = now()"
          " WHERE id = %s", w.seats_of(rid)[0])
    caught_up(w, 0, 0, 0)
    assert sweep(w) == (2, 2)
    assert w.left(floor) == 100 and w.seat_states(rid) == ["available", "locked"]


def test_a_reservation_in_other_hands_waits_for_the_next_sweep(w, emptied_ticket_db):
    rid = w.reservation(expires_in=-100)
    caught_up(w, 0, 0, 0)
    other = World(emptied_ticket_db)
    other.db.autocommit = False
    other.run("SELECT 1 FROM reservations WHERE id = %s FOR NO KEY UPDATE", rid)
    assert sweep(w) == (1, 0)
    other.db.rollback()
    other.close()
    assert sweep(w) == (1, 1)


def test_expired_and_paid_in_time_comes_back(w):
    rid = w.reservation(expires_in=-100)
    caught_up(w, 0, 0, 0)
    sweep(w)
    assert w.apply(w.confirmed(rid, age=101)) == [("applied", None)]
    assert types(w) == ["RESERVATION_CANCELLED", "RESERVATION_CONFIRMED"]


# --- the brake ---------------------------------------------------------------------------------------

def wrong(w, count, start=0):
    return [w.confirmed(new_id(), payment=f"bad{start + i}") for i in range(count)]


def right(w, count, start=0):
    seat_of = [w.reservation(user=f"u{start + i}", seats=1) for i in range(count)]
    return [w.confirmed(rid, payment=f"good{start + i}", amount=50000, user=f"u{start + i}")
            for i, rid in enumerate(seat_of)]


def test_twenty_requests_pass_and_the_twenty_first_does_not_leave(w):
    w.apply(*wrong(w, 20))
    with pytest.raises(Brake):
        w.apply(*wrong(w, 1, 20))
    assert len(w.told()) == 20 and w.ledger("bad20") is None
    assert outcomes(w.apply(*right(w, 3))) == ["applied"] * 3, "batches without requests go on"


def test_twenty_one_requests_in_one_batch_are_stopped(w):
    with pytest.raises(Brake):
        w.apply(*wrong(w, 21))
    assert w.told() == []


@pytest.mark.parametrize("good,stopped", [(399, False), (398, True)])
def test_five_percent_is_the_limit(w, good, stopped):
    w.run("INSERT INTO refund_brake (confirmations) VALUES (%s)", good)
    if stopped:
        with pytest.raises(Brake):
            w.apply(*wrong(w, 21))
    else:
        w.apply(*wrong(w, 21))


def test_requests_older_than_a_minute_do_not_count(w):
    w.apply(*wrong(w, 20))
    w.run("UPDATE payment_ledger SET refund_requested_at = refund_requested_at - interval '61 s'")
    w.apply(*wrong(w, 20, 20))


def test_what_users_ask_for_does_not_count(w):
    for i in range(30):
        cancel(w, w.reservation("confirmed", user=f"u{i}", payment_id=f"x{i}"), "admin")
    w.apply(*wrong(w, 20))


def test_an_operator_can_release_the_brake(w):
    w.run("INSERT INTO consumer_control (consumer_group, changed_by, brake_released_until)"
          " VALUES ('ticket-service-group', 'op', now() + interval '1 min')")
    w.apply(*wrong(w, 40))
    w.run("UPDATE consumer_control SET brake_released_until = now() - interval '1 s'")
    with pytest.raises(Brake):
        w.apply(*wrong(w, 1, 40))


def test_an_empty_database_under_an_old_topic_asks_for_nothing(w):
    results = w.apply(*[w.confirmed(new_id(), payment=f"x{i}", age=7200) for i in range(100)])
    assert set(results) == {("dead", "subject_missing")} and w.told() == []


# --- at once -----------------------------------------------------------------------------------------

def test_two_doors_at_the_same_moment_confirm_once(w, emptied_ticket_db):
    for round_ in range(10):
        rid = w.reservation()
        answers = []

        def knock(payment):
            mine = World(emptied_ticket_db)
            answers.append(internal(mine, "confirm", rid, payment, 100000, "card"))
            mine.close()
        doors = [threading.Thread(target=knock, args=(f"{round_}-{i}",)) for i in range(3)]
        for door in doors:
            door.start()
        for door in doors:
            door.join()
        assert sorted(answers, key=str) == [("applied", None)] + [("refused", "already_paid")] * 2


def random_events(w, rng):
    floor = w.standing(6)
    seats = [w.seat() for _ in range(6)]
    subjects = []
    for i in range(14):
        status = rng.choice(["pending", "expired", "expired", "confirmed", "cancelled"])
        free = [s for s in seats if not w.rows("SELECT 1 FROM reservation_items WHERE seat_id = %s AND live", s)]
        chosen = rng.sample(seats if status in ("expired", "cancelled") else free, k=min(1, len(free)))
        paid = f"old{i}" if status == "confirmed" and rng.random() < .7 else None
        if rng.random() < .5 and (status in ("expired", "cancelled") or w.left(floor) >= 2):
            rid = w.reservation(status, standing=floor, quantity=2, expires_in=-50, amount=50000, payment_id=paid)
        else:
            rid = w.reservation(status, seat_ids=chosen, expires_in=-50, amount=50000, token=i + 1, payment_id=paid)
        subjects.append((rid, "reservation", 50000))
        if status == "confirmed" and rng.random() < .7:
            subjects.append((w.listing(rid, price=70000), "transfer", 70000))
    for i in range(3):
        subjects.append((w.membership(user=f"m{i}"), "membership", 30000))
    payments, events = {}, []
    for _ in range(60):
        name = f"p{rng.randrange(25)}"
        subject, type_, amount = payments.setdefault(name, rng.choice(subjects))
        if rng.random() < .65:
            amount = amount if rng.random() < .9 else 1
            events.append(w.confirmed(subject, name, amount, type_, rng.choice(["bob", "eve"]),
                                      age=rng.choice([10, 100])))
        else:
            target = name if rng.random() < .8 else f"old{rng.randrange(14)}"
            events.append(w.refunded(target, amount=rng.choice([None, amount, amount, 1])))
    return events


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_does_what_its_events_do_one_by_one(w, seed):
    w.run("INSERT INTO refund_brake (confirmations) VALUES (1000000)")
    events = random_events(w, random.Random(seed))
    w.check()
    w.db.autocommit = False
    single = [w._apply([event])[0] for event in events]
    one_by_one = w.state()
    w.db.rollback()
    batch = w._apply(events)
    assert batch == single
    together = w.state()
    w.db.commit()
    w.db.autocommit = True
    assert together == one_by_one

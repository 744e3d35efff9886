"""Every row of the saga table, on a real PostgreSQL, through the functions the consumer calls.

A row arranges a world and one event, and says what must come of it. It is played alone, twice in one
batch, twice in two batches and amid a batch of other payments; each time the rules of sql_world.check()
must hold afterwards."""
import pytest
from sql_world import World, compact, iso, new_id

DAY = 86400


@pytest.fixture
def w(emptied_ticket_db):
    world = World(emptied_ticket_db)
    yield world
    world.close()


def reservation_event(w, kind, rid, saga, at, user="ann", amount=100000, **last):
    return ("reservation-events", rid, compact(
        type=f"RESERVATION_{kind}", sagaId=saga or rid, reservationId=rid, userId=user, eventId=w.event,
        totalAmount=amount, **last, timestamp=iso(at)))


def refund_request(saga, reason, at, payment="p1", order="o-p1", user="ann", amount=100000):
    return ("payment-commands", order or payment, compact(
        type="PAYMENT_REFUND_REQUESTED", sagaId=saga, paymentId=payment, orderId=order, userId=user,
        amount=amount, reason=reason, timestamp=iso(at)))


def transfer_event(kind, tid, rid, saga, at, seller="ann", **last):
    return ("transfer-events", tid, compact(
        type=f"TRANSFER_{kind}", sagaId=saga or tid, transferId=tid, reservationId=rid, sellerId=seller,
        **last, timestamp=iso(at)))


# --- the table: name -> function(w) returning (event, outcome, reason, follow-ups, claims) -----------

ROWS = {}


def row(function):
    ROWS[function.__name__] = function
    return function


@row
def a_pending_reservation_is_confirmed(w):
    rid = w.reservation(saga="s1")
    event = w.confirmed(rid)
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, "s1", event["at"], paymentMethod="card")],
            lambda: (w.reservation_row(rid) == ("confirmed", "completed", "p1", "ann")
                     and w.seat_states(rid) == ["sold", "sold"] and w.ledger() == "applied"
                     and w.one("SELECT cause FROM redis_cleanup") == "sold"))


@row
def a_confirmation_days_late_still_confirms(w):
    rid = w.reservation(expires_in=-3 * DAY)
    event = w.confirmed(rid, age=DAY)
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, None, event["at"], paymentMethod="card")],
            lambda: w.reservation_row(rid)[0] == "confirmed")


@row
def the_events_own_saga_comes_first_and_odd_names_survive(w):
    rid = w.reservation(saga="s1", user='한 "글"')
    event = w.confirmed(rid, saga="s-event", user='한 "글"', method=None)
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, "s-event", event["at"], user='한 "글"', paymentMethod=None)],
            lambda: True)


@row
def standing_places_stay_taken(w):
    floor = w.standing()
    rid = w.reservation(standing=floor, quantity=3)
    event = w.confirmed(rid, amount=30000)
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, None, event["at"], amount=30000, paymentMethod="card")],
            lambda: w.left(floor) == 97 and w.reservation_row(rid)[0] == "confirmed")


@row
def a_free_reservation_is_confirmed_by_a_payment_of_nothing(w):
    rid = w.reservation(amount=0)
    event = w.confirmed(rid, amount=0)
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, None, event["at"], amount=0, paymentMethod="card")],
            lambda: w.reservation_row(rid)[0] == "confirmed")


@row
def an_expired_reservation_paid_in_time_is_revived(w):
    rid = w.reservation("expired", expires_in=-100, saga="s1")
    event = w.confirmed(rid, age=101)
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, "s1", event["at"], paymentMethod="card")],
            lambda: (w.reservation_row(rid) == ("confirmed", "completed", "p1", "ann")
                     and w.seat_states(rid) == ["sold", "sold"]
                     and w.rows("SELECT DISTINCT fencing_token, locked_by FROM seats") == [(8, "ann")]))


@row
def a_revival_takes_a_seat_whose_lock_ran_out(w):
    rid = w.reservation("expired", expires_in=-100, seats=1)
    seat, = w.seats_of(rid)
    w.run("UPDATE seats SET status = 'locked', locked_by = 'bob', fencing_token = 9,"
          " locked_until = now() - interval '1 s' WHERE id = %s", seat)
    event = w.confirmed(rid, age=101, amount=50000)
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, None, event["at"], amount=50000, paymentMethod="card")],
            lambda: w.rows("SELECT status, fencing_token, locked_by FROM seats") == [("sold", 10, "ann")])


@row
def a_standing_reservation_is_revived_while_the_quantity_lasts(w):
    floor = w.standing(3)
    rid = w.reservation("expired", standing=floor, quantity=3, expires_in=-100)
    event = w.confirmed(rid, age=101, amount=30000)
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, None, event["at"], amount=30000, paymentMethod="card")],
            lambda: w.left(floor) == 0)


@row
def a_standing_reservation_is_not_revived_beyond_the_quantity(w):
    floor = w.standing(2)
    rid = w.reservation("expired", standing=floor, quantity=3, expires_in=-100)
    event = w.confirmed(rid, age=101, amount=30000)
    return (event, "refund_requested", "reservation_expired",
            [refund_request(rid, "reservation_expired", event["at"], amount=30000)],
            lambda: w.left(floor) == 2 and w.reservation_row(rid)[0] == "expired")


@row
def an_expired_reservation_whose_seat_was_sold_gives_the_money_back(w):
    rid = w.reservation("expired", expires_in=-100)
    w.reservation("confirmed", user="bob", seat_ids=w.seats_of(rid)[:1], token=9, payment_id="p-bob")
    event = w.confirmed(rid, age=101)
    return (event, "refund_requested", "reservation_expired",
            [refund_request(rid, "reservation_expired", event["at"])],
            lambda: w.reservation_row(rid)[:2] == ("expired", "pending") and w.ledger() == "refund_requested")


@row
def an_expired_reservation_whose_seat_another_holds_gives_the_money_back(w):
    rid = w.reservation("expired", expires_in=-100)
    w.run("UPDATE seats SET status = 'locked', locked_by = 'bob', fencing_token = 9,"
          " locked_until = now() + interval '60 s' WHERE id = %s", w.seats_of(rid)[0])
    event = w.confirmed(rid, age=101)
    return (event, "refund_requested", "reservation_expired",
            [refund_request(rid, "reservation_expired", event["at"])],
            lambda: w.seat_states(rid) == ["available", "locked"])


@row
def an_expired_reservation_paid_too_late_gives_the_money_back(w):
    rid = w.reservation("expired", expires_in=-100)
    event = w.confirmed(rid, age=99)
    return (event, "refund_requested", "reservation_expired",
            [refund_request(rid, "reservation_expired", event["at"])],
            lambda: w.seat_states(rid) == ["available", "available"])


@row
def an_expired_reservation_paid_the_wrong_amount_gives_the_money_back(w):
    rid = w.reservation("expired", expires_in=-100)
    event = w.confirmed(rid, age=101, amount=1)
    return (event, "refund_requested", "amount_mismatch",
            [refund_request(rid, "amount_mismatch", event["at"], amount=1)],
            lambda: w.reservation_row(rid)[0] == "expired")


@row
def an_old_confirmed_row_adopts_its_payment(w):
    rid = w.reservation("confirmed")
    return (w.confirmed(rid), "applied", None, [],
            lambda: w.reservation_row(rid) == ("confirmed", "completed", "p1", "ann") and w.ledger() == "applied")


@row
def an_old_confirmed_row_does_not_adopt_another_amount(w):
    rid = w.reservation("confirmed")
    return (w.confirmed(rid, amount=1), "dead", "amount_mismatch", [],
            lambda: w.reservation_row(rid)[2] is None and w.ledger() is None)


@row
def a_confirmed_row_older_than_the_ledger_knows_its_payment_again(w):
    rid = w.reservation("confirmed", payment_id="p1", ledger=None)
    return w.confirmed(rid), "applied", None, [], lambda: w.ledger() == "applied"


@row
def a_refunded_row_older_than_the_ledger_asks_for_nothing(w):
    rid = w.reservation("refunded", payment_id="p1", ledger=None)
    return w.confirmed(rid), "noop", None, [], lambda: w.ledger() == "refunded"


@row
def the_same_payment_again_does_nothing(w):
    rid = w.reservation("confirmed", payment_id="p1")
    return w.confirmed(rid), "noop", None, [], lambda: w.reservation_row(rid)[2] == "p1"


@row
def another_amount_goes_back_and_the_reservation_waits_on(w):
    rid = w.reservation(saga="s1")
    event = w.confirmed(rid, amount=99999)
    return (event, "refund_requested", "amount_mismatch",
            [refund_request("s1", "amount_mismatch", event["at"], amount=99999)],
            lambda: (w.reservation_row(rid) == ("pending", "pending", None, "ann")
                     and w.seat_states(rid) == ["reserved", "reserved"]))


@row
def a_seat_lost_to_another_holder_cancels_and_pays_back(w):
    rid = w.reservation(saga="s1")
    w.run("UPDATE seats SET status = 'locked', locked_by = 'bob', fencing_token = 8,"
          " locked_until = now() + interval '9 s' WHERE id = %s", w.seats_of(rid)[0])
    event = w.confirmed(rid)
    return (event, "refund_requested", "seat_lost",
            [reservation_event(w, "CANCELLED", rid, "s1", event["at"], reason="seat_lost"),
             refund_request("s1", "seat_lost", event["at"])],
            lambda: (w.reservation_row(rid)[0] == "cancelled" and w.seat_states(rid) == ["available", "locked"]
                     and w.one("SELECT cause FROM redis_cleanup") == "cancelled"))


@row
def a_seat_with_the_same_holder_but_another_token_is_lost(w):
    rid = w.reservation(seats=1)
    w.run("UPDATE seats SET fencing_token = 8, status = 'locked', locked_until = now()")
    event = w.confirmed(rid, amount=50000)
    return (event, "refund_requested", "seat_lost",
            [reservation_event(w, "CANCELLED", rid, None, event["at"], amount=50000, reason="seat_lost"),
             refund_request(rid, "seat_lost", event["at"], amount=50000)],
            lambda: w.seat_states(rid) == ["locked"])


@row
def a_missing_reservation_gives_the_money_back(w):
    rid = new_id()
    event = w.confirmed(rid, order=None)
    return (event, "refund_requested", "reservation_missing",
            [refund_request(rid, "reservation_missing", event["at"], order=None)],
            lambda: w.ledger() == "refund_requested")


@row
def a_reservation_missing_for_an_old_event_is_for_a_person(w):
    return w.confirmed(new_id(), age=3601), "dead", "subject_missing", [], lambda: w.ledger() is None


@row
def a_cancelled_reservation_gives_the_money_back(w):
    rid = w.reservation("cancelled")
    event = w.confirmed(rid)
    return (event, "refund_requested", "reservation_cancelled",
            [refund_request(rid, "reservation_cancelled", event["at"])],
            lambda: w.seat_states(rid) == ["available", "available"])


@row
def a_refunded_reservation_gives_the_money_back(w):
    rid = w.reservation("refunded", payment_id="p0", ledger="refunded")
    event = w.confirmed(rid)
    return (event, "refund_requested", "reservation_refunded",
            [refund_request(rid, "reservation_refunded", event["at"])],
            lambda: w.ledger("p0") == "refunded")


@row
def a_second_payment_goes_back(w):
    rid = w.reservation("confirmed", payment_id="p0")
    event = w.confirmed(rid)
    return (event, "refund_requested", "already_paid",
            [refund_request(rid, "already_paid", event["at"])],
            lambda: w.reservation_row(rid)[2] == "p0" and w.ledger("p0") == "applied")


@row
def a_payment_that_cannot_be_named_is_not_asked_back(w):
    return (w.confirmed(new_id(), payment=None, order=None, saga="s1"), "dead", "payment_id_missing", [],
            lambda: w.one("SELECT count(*) FROM payment_ledger") == 0)


@row
def a_payment_without_an_id_goes_by_its_saga(w):
    rid = w.reservation(saga="s1")
    event = w.confirmed(rid, payment=None, order=None, saga="s1")
    return (event, "applied", None,
            [reservation_event(w, "CONFIRMED", rid, "s1", event["at"], paymentMethod="card")],
            lambda: w.ledger("saga:s1") == "applied")


# transfers

def sale(w, payment_id="p0", **changes):
    rid = w.reservation("confirmed", payment_id=payment_id, saga="s-res", key="k1")
    return rid, w.listing(rid, **changes)


def bought(w, tid, **changes):
    return w.confirmed(tid, **{"type": "transfer", "user": "bob", "amount": 70000, **changes})


@row
def a_listed_ticket_changes_hands(w):
    rid, tid = sale(w, saga="s-tr")
    w.reservation("confirmed", user="bob", key="k1", payment_id="p-bob")  # the new owner used that key too
    event = bought(w, tid)
    return (event, "applied", None,
            [transfer_event("COMPLETED", tid, rid, "s-tr", event["at"], buyerId="bob", totalPrice=70000)],
            lambda: (w.reservation_row(rid) == ("confirmed", "completed", "p1", "bob")
                     and w.rows("SELECT status, buyer_id, payment_id FROM ticket_transfers") ==
                     [("completed", "bob", "p1")]
                     and w.seat_states(rid) == ["sold", "sold"]))


def transfer_goes_back(name, arrange, reason, **changes):
    def each(w):
        rid, tid = arrange(w)
        event = bought(w, tid, **changes)
        return (event, "refund_requested", reason,
                [refund_request(tid, reason, event["at"], user=event["user"], amount=event["amount"])],
                lambda: rid is None or w.reservation_row(rid)[3] == "ann")
    each.__name__ = name
    row(each)


def sale_with(sql=None, **changes):
    def arrange(w):
        rid, tid = sale(w, **changes)
        if sql:
            w.run(sql)
        return rid, tid
    return arrange


transfer_goes_back("a_transfer_at_another_price_goes_back", sale_with(), "amount_mismatch", amount=1)
transfer_goes_back("a_seller_cannot_buy_their_own_ticket", sale_with(), "buyer_is_seller", user="ann")
transfer_goes_back("a_cancelled_listing_gives_the_money_back", sale_with(status="cancelled"), "transfer_cancelled")
transfer_goes_back("a_missing_listing_gives_the_money_back", lambda w: (None, new_id()), "transfer_missing")
transfer_goes_back("a_reservation_on_its_way_back_cannot_be_bought", sale_with(
    "UPDATE reservations SET payment_status = 'refund_requested';"
    "UPDATE payment_ledger SET state = 'refund_requested', refund_decided_by = 'user', refund_reason = 'user',"
    " refund_requested_at = now()"), "reservation_not_transferable")
transfer_goes_back("a_listing_of_somebody_elses_reservation_cannot_be_bought", sale_with(seller="eve"),
                   "reservation_not_transferable")


@row
def a_listing_missing_for_an_old_event_is_for_a_person(w):
    return bought(w, new_id(), age=3601), "dead", "subject_missing", [], lambda: w.ledger() is None


# memberships

def joined(w, mid, **changes):
    return w.confirmed(mid, **{"type": "membership", "amount": 30000, **changes})


@row
def a_pending_membership_becomes_active_with_points(w):
    mid = w.membership(saga="s-m")
    event = joined(w, mid)
    return (event, "applied", None,
            [("membership-events", mid, compact(type="MEMBERSHIP_ACTIVATED", sagaId="s-m", membershipId=mid,
                                                userId="ann", artistId=w.artist, timestamp=iso(event["at"])))],
            lambda: w.rows("SELECT status, points, payment_id, expires_at = joined_at + interval '1 year'"
                           " FROM artist_memberships") == [("active", 200, "p1", True)])


@row
def a_membership_without_a_price_of_its_own_costs_the_artists(w):
    mid = w.membership(price=None)
    event = joined(w, mid)
    return (event, "applied", None,
            [("membership-events", mid, compact(type="MEMBERSHIP_ACTIVATED", sagaId=mid, membershipId=mid,
                                                userId="ann", artistId=w.artist, timestamp=iso(event["at"])))],
            lambda: True)


def membership_goes_back(name, arrange, reason, **changes):
    def each(w):
        mid = arrange(w)
        event = joined(w, mid, **changes)
        return (event, "refund_requested", reason,
                [refund_request(mid, reason, event["at"], amount=event["amount"])],
                lambda: w.one("SELECT count(*) FROM membership_point_logs") == 0)
    each.__name__ = name
    row(each)


membership_goes_back("a_membership_at_another_price_goes_back", lambda w: w.membership(), "amount_mismatch", amount=1)
membership_goes_back("an_active_membership_is_not_paid_twice", lambda w: w.membership("active"), "membership_active")
membership_goes_back("a_cancelled_membership_gives_the_money_back", lambda w: w.membership("cancelled"),
                     "membership_cancelled")
membership_goes_back("a_missing_membership_gives_the_money_back", lambda w: new_id(), "membership_missing")
membership_goes_back("a_member_cannot_join_again", lambda w: (w.membership("active"), w.membership())[1],
                     "already_member")


@row
def a_membership_missing_for_an_old_event_is_for_a_person(w):
    return joined(w, new_id(), age=3601), "dead", "subject_missing", [], lambda: w.ledger() is None


# refunds

def cancelled_by_user(w, rid, user="ann"):
    assert w.rows("SELECT outcome FROM ticket_cancel(%s::uuid[], 'user', %s)", [rid], user) == [("refund_requested",)]
    w.forget_told()


@row
def a_refund_asked_for_ends_the_reservation(w):
    rid = w.reservation("confirmed", payment_id="p1", saga="s1")
    cancelled_by_user(w, rid)
    event = w.refunded()
    return (event, "applied", None, [reservation_event(w, "CANCELLED", rid, "s1", event["at"], reason="refunded")],
            lambda: (w.reservation_row(rid)[:2] == ("refunded", "refunded") and w.ledger() == "refunded"
                     and w.rows("SELECT DISTINCT status, version, fencing_token FROM seats") ==
                     [("available", 1, 7)]))


@row
def a_refund_asked_for_ends_it_after_a_transfer_too(w):
    rid, tid = sale(w)
    assert w.apply(bought(w, tid)) == [("applied", None)]
    cancelled_by_user(w, rid, "bob")
    event = w.refunded(amount=70000)
    return (event, "applied", None,
            [reservation_event(w, "CANCELLED", rid, "s-res", event["at"], user="bob", reason="refunded")],
            lambda: w.reservation_row(rid)[:2] == ("refunded", "refunded"))


@row
def a_refund_nobody_asked_for_ends_the_reservation_and_its_listing(w):
    rid = w.reservation("confirmed", payment_id="p1", saga="s1")
    tid = w.listing(rid)
    event = w.refunded()
    return (event, "applied", None,
            [reservation_event(w, "CANCELLED", rid, "s1", event["at"], reason="refunded"),
             transfer_event("CANCELLED", tid, rid, "s1", event["at"], reason="refunded")],
            lambda: (w.seat_states(rid) == ["available", "available"]
                     and w.one("SELECT status FROM ticket_transfers") == "cancelled"))


@row
def a_refund_gives_standing_places_back(w):
    floor = w.standing()
    rid = w.reservation("confirmed", standing=floor, quantity=4, payment_id="p1")
    event = w.refunded(amount=40000)
    return (event, "applied", None,
            [reservation_event(w, "CANCELLED", rid, None, event["at"], amount=40000, reason="refunded")],
            lambda: w.left(floor) == 100)


@row
def a_refund_leaves_a_seat_alone_that_carries_another_token(w):
    rid = w.reservation("confirmed", payment_id="p1", seats=1)
    w.run("UPDATE seats SET fencing_token = 9, status = 'locked', locked_until = now() + interval '9 s'")
    event = w.refunded(amount=50000)
    return (event, "applied", None,
            [reservation_event(w, "CANCELLED", rid, None, event["at"], amount=50000, reason="refunded")],
            lambda: w.seat_states(rid) == ["locked"])


@row
def a_refund_of_a_payment_older_than_the_ledger_finds_its_reservation(w):
    rid = w.reservation("confirmed", payment_id="p1", ledger=None)
    event = w.refunded(subject=rid)
    return (event, "applied", None, [reservation_event(w, "CANCELLED", rid, None, event["at"], reason="refunded")],
            lambda: w.ledger() == "refunded")


@row
def a_refund_without_an_amount_is_whole(w):
    rid = w.reservation("confirmed", payment_id="p1")
    event = w.refunded(amount=None)
    return (event, "applied", None, [reservation_event(w, "CANCELLED", rid, None, event["at"], reason="refunded")],
            lambda: True)


@row
def an_unasked_refund_of_a_transfer_is_for_a_person(w):
    rid, tid = sale(w)
    w.apply(bought(w, tid))
    w.forget_told()
    return (w.refunded(amount=70000), "dead", "transfer_refund", [],
            lambda: w.reservation_row(rid)[:2] == ("confirmed", "completed") and w.ledger() == "applied")


@row
def a_refund_of_the_first_payment_after_a_transfer_is_for_a_person(w):
    rid, tid = sale(w)
    w.apply(bought(w, tid))
    w.forget_told()
    return (w.refunded("p0"), "dead", "transfer_refund", [],
            lambda: w.reservation_row(rid)[0] == "confirmed" and w.ledger("p0") == "applied")


@row
def a_refund_of_the_first_payment_is_for_a_person_even_when_the_buyer_cancels(w):
    rid, tid = sale(w)
    w.apply(bought(w, tid))
    cancelled_by_user(w, rid, "bob")
    return (w.refunded("p0"), "dead", "transfer_refund", [],
            lambda: w.reservation_row(rid)[1] == "refund_requested")


@row
def a_refunded_membership_is_cancelled_and_loses_its_points(w):
    mid = w.membership()
    w.apply(joined(w, mid))
    w.forget_told()
    return (w.refunded(amount=30000), "applied", None, [],
            lambda: (w.rows("SELECT status, points FROM artist_memberships") == [("cancelled", 0)]
                     and w.one("SELECT count(*) FROM membership_point_logs") == 2))


@row
def a_refund_of_a_payment_that_went_back_is_only_noted(w):
    rid = w.reservation("confirmed", payment_id="p0")
    w.apply(w.confirmed(rid))
    w.forget_told()
    return (w.refunded(), "ledger_only", None, [],
            lambda: w.ledger() == "refunded" and w.reservation_row(rid)[0] == "confirmed")


@row
def a_refund_of_an_unknown_payment_is_only_noted(w):
    return w.refunded(), "ledger_only", None, [], lambda: w.ledger() == "refunded"


@row
def a_refund_does_not_touch_a_reservation_paid_otherwise(w):
    rid = w.reservation("confirmed", payment_id="p0")
    return (w.refunded(subject=rid), "ledger_only", None, [],
            lambda: w.reservation_row(rid)[:3] == ("confirmed", "completed", "p0"))


@row
def part_of_the_money_is_for_a_person(w):
    rid = w.reservation("confirmed", payment_id="p1")
    return (w.refunded(amount=99999), "dead", "partial_refund", [],
            lambda: w.reservation_row(rid)[0] == "confirmed" and w.ledger() == "applied")


@row
def part_of_the_money_asked_back_is_for_a_person(w):
    rid = w.reservation("confirmed", payment_id="p1")
    cancelled_by_user(w, rid)
    return (w.refunded(amount=99999), "dead", "partial_refund", [],
            lambda: w.reservation_row(rid)[1] == "refund_requested")


@row
def part_of_a_membership_is_for_a_person(w):
    w.apply(joined(w, w.membership()))
    w.forget_told()
    return (w.refunded(amount=1), "dead", "partial_refund", [],
            lambda: w.one("SELECT status FROM artist_memberships") == "active")


@row
def a_confirmation_after_its_refund_has_no_effect(w):
    rid = w.reservation()
    assert w.apply(w.refunded()) == [("ledger_only", None)]
    return (w.confirmed(rid), "noop", None, [],
            lambda: w.reservation_row(rid)[0] == "pending" and w.ledger() == "refunded")


@row
def a_confirmation_after_a_refund_of_unknown_amount_has_no_effect(w):
    rid = w.reservation()
    w.apply(w.refunded(amount=None))
    return w.confirmed(rid), "noop", None, [], lambda: w.reservation_row(rid)[0] == "pending"


@row
def a_confirmation_after_part_of_it_went_back_is_for_a_person(w):
    rid = w.reservation()
    w.apply(w.refunded(amount=1))
    return w.confirmed(rid), "dead", "partial_refund", [], lambda: w.reservation_row(rid)[0] == "pending"


# --- each row, four ways -----------------------------------------------------------------------------

def again(outcome):
    """What the same event comes to when it has had its effect."""
    return "dead" if outcome == "dead" else "noop"


@pytest.mark.parametrize("name", ROWS)
def test_once(w, name):
    event, outcome, reason, followups, claim = ROWS[name](w)
    before = w.state()
    assert w.apply(event) == [(outcome, reason)]
    assert w.told() == followups
    assert claim()
    w.check()
    if outcome == "dead":
        assert w.state() == before, "a dead letter leaves no trace"


@pytest.mark.parametrize("name", ROWS)
def test_twice_in_one_batch(w, name):
    event, outcome, reason, followups, claim = ROWS[name](w)
    first, second = w.apply(event, event)
    assert first == (outcome, reason) and second[0] == again(outcome)
    assert w.told() == followups
    assert claim()
    w.check()


@pytest.mark.parametrize("name", ROWS)
def test_twice_in_two_batches(w, name):
    event, outcome, reason, followups, claim = ROWS[name](w)
    w.apply(event)
    after = w.state()
    assert w.apply(event)[0][0] == again(outcome)
    assert w.state() == after
    assert claim()
    w.check()


@pytest.mark.parametrize("name", ROWS)
def test_amid_others(w, name):
    event, outcome, reason, followups, claim = ROWS[name](w)
    others = [w.confirmed(w.reservation(user=f"u{i}", seats=1), payment=f"x{i}", amount=50000, user=f"u{i}")
              for i in range(20)]
    results = w.apply(*others[:10], event, *others[10:])
    assert results.pop(10) == (outcome, reason)
    assert set(results) == {("applied", None)}
    assert [message for message in w.told() if '"userId":"u' not in message[2]] == followups
    w.check()


def test_the_saga_is_kept_for_the_events_to_come(w):
    rid = w.reservation()
    w.apply(w.confirmed(rid, saga="s-late"))
    w.apply(w.refunded())
    assert ['"sagaId":"s-late"' in value for _, _, value in w.told()] == [True, True]


def test_an_event_of_almost_an_hour_is_still_paid_back(w):
    assert w.apply(w.confirmed(new_id(), age=3500)) == [("refund_requested", "reservation_missing")]

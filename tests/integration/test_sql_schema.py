"""The tables refuse what must not be, and say what they are for."""
import psycopg2
import pytest
from sql_world import World

KINDS = ("ticket", "payment", "stats")
TABLES = {
    "ticket": "seat_layouts events artists ticket_types seats reservations reservation_items ticket_transfers"
              " artist_memberships membership_point_logs admin_audit_logs payment_ledger processed_events"
              " consumer_offsets consumer_gaps consumer_control redis_cleanup outbox outbox_failed",
    "payment": "payments payment_logs outbox outbox_failed",
    "stats": "daily_stats event_daily_stats event_stats daily_stats_gen event_daily_stats_gen hourly_stats_gen"
             " stats_generations processed_events consumer_offsets consumer_gaps consumer_control outbox"
             " outbox_failed",
}


@pytest.fixture
def connect(fresh_database):
    made = []

    def to(kind):
        made.append(psycopg2.connect(fresh_database(kind)))
        made[-1].autocommit = True
        return made[-1].cursor()
    yield to
    for connection in made:
        connection.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_exists_and_has_a_comment(connect, kind):
    db = connect(kind)
    db.execute("SELECT relname, obj_description(oid, 'pg_class') FROM pg_class"
               " WHERE relkind IN ('r', 'v') AND relnamespace = 'public'::regnamespace"
               " AND relname NOT LIKE 'schema_%%'", ())
    comments = dict(db.fetchall())
    assert set(TABLES[kind].split()) <= set(comments)
    assert [name for name, comment in comments.items() if not comment] == []


def test_the_outbox_draws_its_ids_one_by_one(connect):
    for kind in KINDS:
        db = connect(kind)
        db.execute("SELECT cache_size FROM pg_sequences WHERE sequencename = 'outbox_id_seq'")
        assert db.fetchall() == [(1,)]


@pytest.mark.parametrize("kind", KINDS)
def test_money_and_counters_are_bigint(connect, kind):
    db = connect(kind)
    db.execute("SELECT table_name, column_name, data_type FROM information_schema.columns"
               " WHERE table_schema = 'public' AND column_name ~ '(amount|price|revenue|points|refunds)$'"
               " AND data_type <> 'bigint'")
    assert db.fetchall() == []


def test_a_confirmation_changes_no_indexed_column(connect):
    """Else reservations and seats would lose their HOT updates, and the consumer half its speed."""
    db = connect("ticket")
    db.execute("SELECT pg_get_indexdef(indexrelid) FROM pg_index"
               " WHERE indrelid IN ('reservations'::regclass, 'seats'::regclass)")
    changed = ("status", "payment_id", "payment_status", "payment_method", "saga_id", "updated_at", "version")
    assert [d for d, in db.fetchall() if any(word in d.replace("(", " ").replace(")", " ").replace(",", " ").split()
                                             for word in changed)] == []


@pytest.fixture
def w(emptied_ticket_db):
    world = World(emptied_ticket_db)
    yield world
    world.close()


REFUSED = {
    "a seat status nobody knows": "UPDATE seats SET status = 'gone'",
    "a lock without a holder": "UPDATE seats SET status = 'locked', locked_by = NULL, locked_until = now()",
    "a lock without an end": "UPDATE seats SET status = 'locked', locked_by = 'bob'",
    "a free seat with a holder": "UPDATE seats SET status = 'available'",
    "a reserved seat with an end": "UPDATE seats SET locked_until = now()",
    "a negative price": "UPDATE seats SET price = -1",
    "a negative total": "UPDATE reservations SET total_amount = -1",
    "a reservation status nobody knows": "UPDATE reservations SET status = 'paid'",
    "a refund asked for without a payment": "UPDATE reservations SET payment_status = 'refund_requested'",
    "refunded in one column only": "UPDATE reservations SET status = 'refunded'",
    "two live items for one seat":
        "INSERT INTO reservation_items (reservation_id, seat_id, price, fencing_token)"
        " SELECT reservation_id, seat_id, price, fencing_token FROM reservation_items LIMIT 1",
    "an item of nothing": "INSERT INTO reservation_items (reservation_id, price) SELECT id, 1 FROM reservations",
    "a seat without a token": "UPDATE reservation_items SET fencing_token = NULL",
    "more standing places than there are": "UPDATE ticket_types SET available_quantity = total_quantity + 1",
    "fewer than none": "UPDATE ticket_types SET available_quantity = -1",
    "the same key twice for one user":
        "INSERT INTO reservations (reservation_number, user_id, event_id, total_amount, expires_at, idempotency_key)"
        " SELECT 'again', user_id, event_id, 1, now(), idempotency_key FROM reservations",
    "two open listings":
        "INSERT INTO ticket_transfers (reservation_id, seller_id, original_price, total_price)"
        " SELECT id, user_id, 1, 1 FROM reservations, generate_series(1, 2)",
    "a seller who buys":
        "INSERT INTO ticket_transfers (reservation_id, seller_id, buyer_id, original_price, total_price, status)"
        " SELECT id, user_id, user_id, 1, 1, 'completed' FROM reservations",
    "a ledger state nobody knows":
        "INSERT INTO payment_ledger (payment_id, payment_type, amount, state, event_time)"
        " VALUES ('p', 'reservation', 1, 'lost', now())",
    "an unexplained refund request":
        "INSERT INTO payment_ledger (payment_id, payment_type, amount, state, event_time)"
        " VALUES ('p', 'reservation', 1, 'refund_requested', now())",
    "joining points twice":
        "WITH m AS (INSERT INTO artist_memberships (user_id, artist_id) SELECT 'ann', id FROM artists RETURNING id)"
        " INSERT INTO membership_point_logs (membership_id, action_type, points)"
        " SELECT id, 'joining', 200 FROM m, generate_series(1, 2)",
    "headers that do not pair up": "INSERT INTO outbox (topic, header_names) VALUES ('t', '{a}')",
    "a pause without a reason":
        "INSERT INTO consumer_control (consumer_group, paused, changed_by) VALUES ('g', true, 'op')",
    "an empty gap":
        "INSERT INTO consumer_gaps (consumer_group, topic, partition, from_offset, to_offset)"
        " VALUES ('g', 't', 0, 5, 5)",
}


@pytest.mark.parametrize("what", REFUSED)
def test_refuses(w, what):
    w.standing()
    w.reservation(key="k1", seats=1)
    with pytest.raises(psycopg2.IntegrityError):
        w.run(REFUSED[what])


def test_a_failed_message_may_have_a_key_longer_than_an_index_entry(w):
    w.run("INSERT INTO outbox_failed (outbox_id, topic, key, created_at, reason)"
          " SELECT 1, 't', decode(string_agg(md5(n::text), ''), 'hex'), now(), 'too large'"
          " FROM generate_series(1, 1000) n")


def test_there_is_one_live_generation_of_figures_and_unfed_columns_are_null(connect):
    db = connect("stats")
    with pytest.raises(psycopg2.IntegrityError):
        db.execute("INSERT INTO stats_generations (generation, state) VALUES (2, 'live')")
    db.execute("INSERT INTO stats_generations (generation, state) VALUES (2, 'building')")
    db.execute("INSERT INTO daily_stats_gen (generation, date, cancelled_user, cancelled_expired, refund_amount)"
               " VALUES (1, '2026-01-01', 2, 3, 700), (2, '2026-01-01', 9, 9, 9)")
    db.execute("SELECT cancelled_reservations, refunds, new_users, active_users, new_events, active_events"
               " FROM daily_stats")
    assert db.fetchall() == [(5, 700, None, None, None, None)]
    db.execute("INSERT INTO event_daily_stats_gen (generation, date, event_id, reservations_confirmed, total_revenue)"
               " VALUES (1, '2026-01-01', 'e', 2, 100), (1, '2026-01-02', 'e', 1, 50), (2, '2026-01-02', 'e', 7, 7)")
    db.execute("SELECT event_id, confirmed_reservations, total_revenue, total_seats, average_ticket_price, view_count"
               " FROM event_stats")
    assert db.fetchall() == [("e", 3, 150, None, None, None)]

-- A demo artist with two events: 200 seats in two sections, and a standing event. Fixed ids, so that
-- a second run changes nothing and the tour in the README can name them.
BEGIN;

INSERT INTO artists (id, name, description, membership_price) VALUES
    ('00000000-0000-4000-8000-0000000000a1', 'The Stampede', 'Demo artist', 30000)
ON CONFLICT (id) DO NOTHING;

INSERT INTO seat_layouts (id, name, description, total_seats, layout_config) VALUES
    ('00000000-0000-4000-8000-0000000000b1', 'Small hall', 'Demo layout', 200,
     '{"sections": [{"name": "VIP", "rows": 5, "seatsPerRow": 10, "price": 150000},
                    {"name": "A", "rows": 10, "seatsPerRow": 15, "price": 99000}]}')
ON CONFLICT (id) DO NOTHING;

INSERT INTO events (id, title, description, venue, event_date, status, sales_open_at, sales_close_at,
                    cancel_until, seat_layout_id, artist_id, artist_name) VALUES
    ('00000000-0000-4000-8000-0000000000e1', 'Demo: The Stampede, seated', 'Seeded by compose/up',
     'Small hall', now() + interval '60 days', 'on_sale', now() - interval '1 hour',
     now() + interval '59 days', now() + interval '53 days', '00000000-0000-4000-8000-0000000000b1',
     '00000000-0000-4000-8000-0000000000a1', 'The Stampede'),
    ('00000000-0000-4000-8000-0000000000e2', 'Demo: The Stampede, standing', 'Seeded by compose/up',
     'Big field', now() + interval '90 days', 'on_sale', now() - interval '1 hour',
     now() + interval '89 days', now() + interval '83 days', NULL,
     '00000000-0000-4000-8000-0000000000a1', 'The Stampede')
ON CONFLICT (id) DO NOTHING;

INSERT INTO seats (event_id, section, row_number, seat_number, seat_label, price)
SELECT e.id, section.name, r, n, format('%s-%s-%s', section.name, r, n), section.price
FROM events e
JOIN seat_layouts l ON l.id = e.seat_layout_id
CROSS JOIN LATERAL jsonb_to_recordset(l.layout_config -> 'sections')
    AS section (name text, rows integer, "seatsPerRow" integer, price bigint)
CROSS JOIN generate_series(1, section.rows) AS r
CROSS JOIN generate_series(1, section."seatsPerRow") AS n
WHERE e.id = '00000000-0000-4000-8000-0000000000e1'
ON CONFLICT (event_id, section, row_number, seat_number) DO NOTHING;

INSERT INTO ticket_types (id, event_id, name, price, total_quantity, available_quantity) VALUES
    ('00000000-0000-4000-8000-0000000000c1', '00000000-0000-4000-8000-0000000000e2', 'Standing', 77000,
     5000, 5000)
ON CONFLICT (id) DO NOTHING;

-- An order that waits for its payment, for the tour: two seats of section A, held for a year.
WITH held AS (
    UPDATE seats SET status = 'reserved', fencing_token = 1, locked_by = 'demo@example.com', version = version + 1
     WHERE event_id = '00000000-0000-4000-8000-0000000000e1' AND seat_label IN ('A-1-1', 'A-1-2')
       AND status = 'available'
       AND NOT EXISTS (SELECT 1 FROM reservations WHERE id = '00000000-0000-4000-8000-0000000000d1')
    RETURNING id, price
), ordered AS (
    INSERT INTO reservations (id, reservation_number, user_id, event_id, total_amount, saga_id, expires_at)
    SELECT '00000000-0000-4000-8000-0000000000d1', 'DEMO-1', 'demo@example.com',
           '00000000-0000-4000-8000-0000000000e1', sum(price), 'demo-saga', now() + interval '1 year'
      FROM held HAVING count(*) = 2
    RETURNING id, total_amount
), told AS (
    INSERT INTO outbox (topic, key, value)
    SELECT 'reservation-events', convert_to(id::text, 'UTF8'), convert_to(json_build_object(
               'type', 'RESERVATION_CREATED', 'sagaId', 'demo-saga', 'reservationId', id,
               'userId', 'demo@example.com', 'eventId', '00000000-0000-4000-8000-0000000000e1',
               'totalAmount', total_amount,
               'timestamp', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, 'UTF8')
      FROM ordered
)
INSERT INTO reservation_items (reservation_id, seat_id, price, fencing_token)
SELECT ordered.id, held.id, held.price, 1 FROM ordered, held;

COMMIT;

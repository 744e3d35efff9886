-- The naive consumer, for pgbench: look, begin, effect, mark, follow-up, commit; each a round trip.
\set n random(1, :rows)
SELECT 1 FROM processed_events WHERE consumer_group = 'naive' AND event_key = 'PAYMENT_CONFIRMED-' || :n::int;
BEGIN;
UPDATE reservations SET status = 'confirmed', payment_status = 'completed', payment_id = 'n' || :n::int, updated_at = now() WHERE reservation_number = 'R' || :n::int;
INSERT INTO processed_events (event_key, consumer_group) VALUES ('PAYMENT_CONFIRMED-' || :n::int || random(), 'naive');
INSERT INTO outbox (topic, key, value) VALUES ('naive', convert_to('R' || :n::int, 'UTF8'), convert_to(repeat('x', 300), 'UTF8'));
COMMIT;

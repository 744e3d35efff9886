-- The keys that nobody of the group has seen. They come sorted, so that two instances lock them in one order.
INSERT INTO processed_events (consumer_group, event_key)
SELECT $1, k FROM unnest($2::text[]) AS k
ON CONFLICT DO NOTHING
RETURNING event_key::text

-- Test builds only: the same rows, in a transaction that does not wait for the effect.
INSERT INTO outbox (topic, key, value)
SELECT m.topic, m.key, m.value
FROM unnest($1::text[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS m (topic, key, value, position)
ORDER BY m.position

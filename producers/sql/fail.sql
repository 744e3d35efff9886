-- A row the broker refuses for good leaves the line with every later row of its key. $1 id, $2 reason.
WITH bad AS (
    SELECT topic, key FROM outbox WHERE id = $1
), moved AS (
    DELETE FROM outbox o USING bad
     WHERE o.id = $1 OR (o.id > $1 AND o.topic = bad.topic AND o.key = bad.key)
    RETURNING o.*
)
INSERT INTO outbox_failed (outbox_id, topic, key, value, header_names, header_values, timestamp_ms,
                           created_at, reason)
SELECT id, topic, key, value, header_names, header_values, timestamp_ms, created_at,
       CASE WHEN id = $1 THEN $2::text ELSE 'follows outbox row ' || $1::bigint END
  FROM moved
 ORDER BY id

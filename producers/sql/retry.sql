-- Keys whose oldest failed row an operator wants retried go back as a whole, under their old ids, so
-- that their order is what it was. Rows without a key go back one by one.
WITH oldest AS (
    SELECT DISTINCT ON (topic, sha256(key)) topic, key, retry_requested
      FROM outbox_failed
     WHERE key IS NOT NULL
     ORDER BY topic, sha256(key), outbox_id
), back AS (
    DELETE FROM outbox_failed f
     WHERE (f.key IS NULL AND f.retry_requested)
        OR EXISTS (SELECT FROM oldest o
                    WHERE o.retry_requested AND o.topic = f.topic AND o.key = f.key)
    RETURNING f.*
)
INSERT INTO outbox (id, topic, key, value, header_names, header_values, timestamp_ms, created_at)
SELECT outbox_id, topic, key, value, header_names, header_values, timestamp_ms, created_at
  FROM back
 ORDER BY outbox_id

-- Rows whose key already waits in outbox_failed join it. $1 ids.
WITH moved AS (
    DELETE FROM outbox WHERE id = ANY ($1::bigint[]) RETURNING *
)
INSERT INTO outbox_failed (outbox_id, topic, key, value, header_names, header_values, timestamp_ms,
                           created_at, reason)
SELECT id, topic, key, value, header_names, header_values, timestamp_ms, created_at,
       'its key waits in outbox_failed'
  FROM moved
 ORDER BY id

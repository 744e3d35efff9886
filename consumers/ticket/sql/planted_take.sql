-- Test builds only: what the open transaction wrote to the outbox, taken out of it again.
WITH taken AS (DELETE FROM outbox WHERE xmin = pg_current_xact_id()::xid RETURNING id, topic, key, value)
SELECT topic::text, key, value FROM taken ORDER BY id

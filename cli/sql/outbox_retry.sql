-- The relay sends them again. A key goes as a whole, so the mark stands on all its rows. $1 null: everything.
WITH keys AS (
    SELECT topic, key, outbox_id FROM outbox_failed WHERE $1::bigint IS NULL OR outbox_id = $1
), done AS (
    UPDATE outbox_failed f SET retry_requested = true
     WHERE NOT f.retry_requested
       AND EXISTS (SELECT FROM keys k WHERE k.outbox_id = f.outbox_id
                                         OR (k.topic = f.topic AND sha256(k.key) = sha256(f.key)))
    RETURNING f.*
)
SELECT 'outbox ' || outbox_id || ' to ' || topic AS target,
       jsonb_build_object('reason', reason, 'retry_requested', false)::text AS before,
       jsonb_build_object('retry_requested', true)::text AS after
  FROM done ORDER BY outbox_id

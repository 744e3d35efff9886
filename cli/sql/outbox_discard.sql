-- Given up for good; the audit keeps the message.
WITH done AS (DELETE FROM outbox_failed WHERE outbox_id = $1 RETURNING *)
SELECT 'outbox ' || outbox_id || ' to ' || topic AS target,
       jsonb_build_object('topic', topic, 'key', encode(key, 'escape'), 'value_base64', encode(value, 'base64'),
                          'header_names', header_names, 'timestamp_ms', timestamp_ms, 'created_at', created_at,
                          'reason', reason)::text AS before,
       NULL::text AS after
  FROM done

-- What payment_db tells about these ids ($1): (time, place, what, detail), texts.
WITH ids AS (SELECT unnest($1::text[]) AS id),
found AS (
    SELECT p.* FROM payments p
     WHERE p.id::text IN (SELECT id FROM ids) OR p.order_id IN (SELECT id FROM ids) OR p.payment_key IN (SELECT id FROM ids)
        OR p.reservation_id IN (SELECT id FROM ids) OR p.reference_id IN (SELECT id FROM ids)
),
steps (at, place, what, detail) AS (
    SELECT created_at, 'payments', 'payment prepared', id || ', order ' || order_id || ', amount ' || amount FROM found
    UNION ALL
    SELECT l.created_at, 'payment_logs', l.action, l.payment_id::text FROM payment_logs l JOIN found f ON f.id = l.payment_id
    UNION ALL
    SELECT coalesce(refunded_at, updated_at), 'payments', 'payment is ' || status, id || coalesce(', refunded ' || refund_amount, '')
      FROM found WHERE status <> 'pending'
    UNION ALL
    SELECT o.created_at, 'outbox', 'waits for the relay', 'outbox ' || o.id || ' to ' || o.topic
      FROM outbox o JOIN ids ON o.key = convert_to(ids.id, 'UTF8')
    UNION ALL
    SELECT o.failed_at, 'outbox_failed', 'Kafka refused it', 'outbox ' || o.outbox_id || ' to ' || o.topic || ': ' || o.reason
      FROM outbox_failed o JOIN ids ON o.key = convert_to(ids.id, 'UTF8')
)
SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time, 'payment_db.' || place, what, detail
  FROM steps
 ORDER BY at

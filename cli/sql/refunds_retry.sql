-- Sends the same request once more, under the lock of the payment's row.
WITH old AS (
    SELECT * FROM payment_ledger WHERE payment_id = $1 AND state = 'refund_requested' FOR NO KEY UPDATE
), sent AS (
    INSERT INTO outbox (topic, key, value)
    SELECT 'payment-commands', message_command_key(o.order_id, o.payment_id),
           message_refund_requested(
               message_saga(o.saga_id, coalesce(r.saga_id, t.saga_id, m.saga_id), o.subject_id, o.payment_id),
               o.payment_id, o.order_id, o.user_id, o.amount, o.refund_reason,
               CASE o.refund_decided_by WHEN 'consumer' THEN o.event_time ELSE o.refund_requested_at END)
      FROM old o
      LEFT JOIN reservations r ON o.payment_type = 'reservation' AND r.id = o.subject_id
      LEFT JOIN ticket_transfers t ON o.payment_type = 'transfer' AND t.id = o.subject_id
      LEFT JOIN artist_memberships m ON o.payment_type = 'membership' AND m.id = o.subject_id
    RETURNING convert_from(value, 'UTF8') AS value
)
SELECT 'payment ' || o.payment_id AS target,
       jsonb_build_object('state', o.state, 'requested_at', o.refund_requested_at)::text AS before,
       jsonb_build_object('state', o.state, 'sent_again', s.value::jsonb)::text AS after
  FROM old o, sent s

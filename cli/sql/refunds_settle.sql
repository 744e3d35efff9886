-- Settled by hand: no answer is awaited any more. Only of payments that never took effect: the seats of the
-- others wait for PAYMENT_REFUNDED.
WITH old AS (
    SELECT * FROM payment_ledger
     WHERE payment_id = $1 AND state = 'refund_requested' AND refund_decided_by = 'consumer'
       FOR NO KEY UPDATE
), done AS (
    UPDATE payment_ledger l SET state = 'rejected', updated_at = now()
      FROM old WHERE l.payment_id = old.payment_id
    RETURNING l.*
)
SELECT 'payment ' || d.payment_id AS target,
       jsonb_build_object('state', o.state, 'amount', o.amount, 'reason', o.refund_reason)::text AS before,
       jsonb_build_object('state', d.state, 'note', $2::text)::text AS after
  FROM done d JOIN old o USING (payment_id)

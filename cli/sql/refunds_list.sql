-- Payments whose money was asked back and that no PAYMENT_REFUNDED has answered, asked before $1.
SELECT payment_id::text, payment_type::text, subject_id::text, user_id::text, amount, refund_reason::text,
       refund_decided_by::text, refund_requested_at, extract(epoch FROM now() - refund_requested_at)::bigint AS age_s
FROM payment_ledger
WHERE state = 'refund_requested' AND refund_requested_at <= $1
ORDER BY refund_requested_at, payment_id
LIMIT $2

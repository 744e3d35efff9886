-- PAYMENT_CONFIRMED of transfers (SPEC 3). Contract and outcomes: confirm_reservation.sql.
--
-- The buyer becomes the owner of the reservation and with it of its items, and the buyer's payment
-- the one that counts. The idempotency key was the first buyer's: it goes, or it could collide with
-- one of the new owner's. The seats keep locked_by (see its comment).
CREATE OR REPLACE FUNCTION ticket_apply_confirmed_transfer(
    p_ord integer[], p_payment_id text[], p_order_id text[], p_saga_id text[], p_user_id text[],
    p_transfer_id uuid[], p_amount bigint[], p_payment_method text[], p_time_ms bigint[],
    p_internal boolean DEFAULT false)
RETURNS TABLE (ord integer, outcome text, reason text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    WITH seen AS MATERIALIZED (
        SELECT e.*, message_instant(e.time_ms) AS at,
               l.state AS ledger_state, l.amount AS ledger_amount, l.subject_id AS ledger_subject,
               t.id AS found, t.status, t.seller_id, t.total_price, t.reservation_id,
               t.saga_id AS own_saga, r.status AS r_status, r.payment_status AS r_payment_status,
               r.user_id AS owner
          FROM (SELECT u.*, u.payment IS NOT NULL OR u.order_id IS NOT NULL AS refundable,
                       ticket_payment_ref(u.payment, u.saga_id, 'transfer', u.transfer_id) AS payment_id
                  FROM unnest(p_ord, p_payment_id, p_order_id, p_saga_id, p_user_id, p_transfer_id,
                              p_amount, p_payment_method, p_time_ms)
                       AS u (ord, payment, order_id, saga_id, user_id, transfer_id, amount, method,
                             time_ms)) e
          LEFT JOIN payment_ledger l ON l.payment_id = e.payment_id
          LEFT JOIN ticket_transfers t ON t.id = e.transfer_id
          LEFT JOIN reservations r ON r.id = t.reservation_id
    ), decided AS MATERIALIZED (
        SELECT v.*, message_saga(v.saga_id, v.own_saga, v.transfer_id, v.payment_id) AS saga,
               a.action, a.outcome, a.reason
          FROM (SELECT x.*,
                       CASE
                       WHEN x.ledger_state = 'refunded' AND x.ledger_amount < x.amount THEN 'dead partial_refund'
                       WHEN p_internal AND (x.ledger_state <> 'applied' OR x.ledger_subject <> x.transfer_id)
                           THEN 'refused payment_' || x.ledger_state
                       WHEN x.ledger_state IS NOT NULL THEN 'noop'
                       WHEN x.found IS NULL AND x.at < now() - interval '1 hour' THEN 'dead subject_missing'
                       WHEN x.found IS NULL THEN 'back transfer_missing'
                       WHEN x.status <> 'listed' THEN 'back transfer_' || x.status
                       WHEN x.amount <> x.total_price THEN 'back amount_mismatch'
                       WHEN x.user_id IS NULL OR x.user_id = x.seller_id THEN 'back buyer_is_seller'
                       WHEN x.r_status = 'confirmed' AND x.r_payment_status = 'completed'
                            AND x.owner = x.seller_id THEN 'complete'
                       ELSE 'back reservation_not_transferable'
                       END AS verdict
                  FROM seen x) v
         CROSS JOIN LATERAL ticket_verdict(v.verdict, v.refundable, p_internal) a
    ), ledger_new AS (
        INSERT INTO payment_ledger (payment_id, order_id, saga_id, payment_type, subject_id, user_id, amount,
                                    state, refund_decided_by, refund_reason, refund_requested_at, event_time)
        SELECT d.payment_id, d.order_id, d.saga, 'transfer', d.transfer_id, d.user_id, d.amount, d.outcome,
               CASE d.action WHEN 'back' THEN 'consumer' END,
               CASE d.action WHEN 'back' THEN d.reason END,
               CASE d.action WHEN 'back' THEN now() END,
               d.at
          FROM decided d
         WHERE d.action IN ('complete', 'back')
         ORDER BY d.payment_id COLLATE "C"
    ), ledger_filled AS (
        UPDATE payment_ledger l SET order_id = d.order_id, updated_at = now()
          FROM decided d
         WHERE d.action = 'noop' AND l.payment_id = d.payment_id
           AND l.order_id IS NULL AND d.order_id IS NOT NULL
    ), transfer_done AS (
        UPDATE ticket_transfers t
           SET status = 'completed', buyer_id = d.user_id, payment_id = d.payment_id,
               payment_method = d.method, saga_id = coalesce(t.saga_id, d.saga),
               completed_at = now(), updated_at = now()
          FROM decided d
         WHERE d.action = 'complete' AND t.id = d.found
    ), reservation_done AS (
        UPDATE reservations r
           SET user_id = d.user_id, payment_id = d.payment_id,
               payment_method = coalesce(d.method, r.payment_method),
               idempotency_key = NULL, transferred_at = now(), updated_at = now()
          FROM decided d
         WHERE d.action = 'complete' AND r.id = d.reservation_id
    ), told AS (
        INSERT INTO outbox (topic, key, value)
        SELECT m.topic, m.key, m.value
          FROM (SELECT d.ord, 'transfer-events' AS topic, message_key(d.found) AS key,
                       message_transfer_completed(d.saga, d.found, d.reservation_id, d.seller_id, d.user_id,
                                                  d.total_price, d.at) AS value
                  FROM decided d WHERE d.action = 'complete'
                UNION ALL
                SELECT d.ord, 'payment-commands', message_command_key(d.order_id, d.payment_id),
                       message_refund_requested(d.saga, d.payment_id, d.order_id, d.user_id, d.amount,
                                                d.reason, d.at)
                  FROM decided d WHERE d.action = 'back') m
         ORDER BY m.ord
    )
    SELECT d.ord, d.outcome, d.reason FROM decided d;
END $$;

COMMENT ON FUNCTION ticket_apply_confirmed_transfer IS
    'PAYMENT_CONFIRMED for transfers; outcome applied, noop, refund_requested, dead or refused.';

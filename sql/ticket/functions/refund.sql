-- PAYMENT_REFUNDED (SPEC 3), whatever was paid for. Call ticket_lock_batch() first; each event once,
-- no two with a common conflict key.
--
-- outcome: applied      a reservation or a membership ended
--          ledger_only  the payment had no effect that must be undone
--          noop         known to be refunded already
--          dead         nothing was changed: transfer_refund, partial_refund
--
-- What the payment was for is the ledger's to say; the event's own type and subject count only where
-- the ledger never heard of it. An amount below what was paid is for a person in every case but one:
-- a transfer's, which is for a person anyway. An event without an amount gives all of it back.
CREATE OR REPLACE FUNCTION ticket_apply_refunded(
    p_ord integer[], p_payment_id text[], p_order_id text[], p_saga_id text[], p_user_id text[],
    p_payment_type text[], p_subject_id uuid[], p_amount bigint[], p_time_ms bigint[])
RETURNS TABLE (ord integer, outcome text, reason text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    WITH seen AS MATERIALIZED (
        SELECT e.ord, e.payment_id, e.order_id, e.saga_id, e.user_id, e.amount, e.at, k.type, k.subject,
               l.payment_id AS known, l.state AS ledger_state, l.saga_id AS ledger_saga,
               coalesce(l.amount, CASE WHEN r.payment_id = e.payment_id THEN r.total_amount END) AS paid,
               r.id AS reservation_id, r.status, r.payment_status, r.user_id AS owner, r.event_id,
               r.total_amount, r.saga_id AS own_saga, r.transferred_at IS NOT NULL AS transferred,
               coalesce(r.payment_id = e.payment_id, false) AS counts,
               m.id AS membership_id, m.status AS m_status,
               coalesce(m.payment_id = e.payment_id, false) AS m_counts
          FROM (SELECT u.ord, u.order_id, u.saga_id, u.user_id, u.type, u.subject, u.amount,
                       message_instant(u.time_ms) AS at,
                       ticket_payment_ref(u.payment, u.saga_id, u.type, u.subject) AS payment_id
                  FROM unnest(p_ord, p_payment_id, p_order_id, p_saga_id, p_user_id, p_payment_type,
                              p_subject_id, p_amount, p_time_ms)
                       AS u (ord, payment, order_id, saga_id, user_id, type, subject, amount, time_ms)) e
          LEFT JOIN payment_ledger l ON l.payment_id = e.payment_id
         CROSS JOIN LATERAL (SELECT coalesce(l.payment_type, e.type) AS type,
                                    coalesce(l.subject_id, e.subject) AS subject) k
          LEFT JOIN ticket_transfers t ON t.id = k.subject AND k.type = 'transfer'
          LEFT JOIN reservations r
                 ON r.id = CASE k.type WHEN 'reservation' THEN k.subject ELSE t.reservation_id END
          LEFT JOIN artist_memberships m ON m.id = k.subject AND k.type = 'membership'
    ), decided AS MATERIALIZED (
        SELECT v.*, a.action, a.outcome, a.reason,
               message_saga(v.saga_id, coalesce(v.own_saga, v.ledger_saga), v.reservation_id,
                            v.payment_id) AS saga
          FROM (SELECT x.*,
                       CASE
                       WHEN x.ledger_state = 'refunded' THEN 'noop'
                       -- Asked for, and the payment that counts: ends the reservation, whatever its type.
                       WHEN x.counts AND x.payment_status = 'refund_requested'
                           THEN CASE WHEN x.amount < x.paid THEN 'dead partial_refund' ELSE 'end' END
                       -- Nobody asked, and the ticket has changed hands: who keeps it?
                       WHEN x.type = 'transfer' AND (x.counts OR x.ledger_state = 'applied')
                            OR x.type = 'reservation' AND x.ledger_state = 'applied' AND NOT x.counts
                            OR x.known IS NULL AND x.counts AND x.transferred
                           THEN 'dead transfer_refund'
                       WHEN x.amount < x.paid THEN 'dead partial_refund'
                       WHEN x.counts AND x.status = 'confirmed' THEN 'end'
                       WHEN x.m_counts AND x.m_status IN ('active', 'expired') THEN 'leave'
                       ELSE 'ledger_only'
                       END AS verdict
                  FROM seen x) v
         CROSS JOIN LATERAL ticket_verdict(v.verdict, true, false) a
    ), ledger_new AS (
        INSERT INTO payment_ledger (payment_id, order_id, saga_id, payment_type, subject_id, user_id, amount,
                                    state, event_time)
        SELECT d.payment_id, d.order_id, d.saga, d.type, d.subject, coalesce(d.user_id, d.owner),
               coalesce(d.paid, d.amount), 'refunded', d.at
          FROM decided d
         WHERE d.known IS NULL AND d.action IN ('end', 'leave', 'ledger_only')
         ORDER BY d.payment_id COLLATE "C"
    ), ledger_done AS (
        UPDATE payment_ledger l SET state = 'refunded', updated_at = now()
          FROM decided d
         WHERE d.action IN ('end', 'leave', 'ledger_only') AND l.payment_id = d.known
    ), transfer_done AS (
        UPDATE ticket_transfers t SET status = 'cancelled', cancel_reason = 'refunded', updated_at = now()
          FROM decided d
         WHERE d.action = 'end' AND t.reservation_id = d.reservation_id AND t.status = 'listed'
        RETURNING d.ord, t.id, t.reservation_id, t.seller_id, t.saga_id, d.saga, d.at
    ), reservation_done AS (
        UPDATE reservations r
           SET status = 'refunded', payment_status = 'refunded', cancel_reason = 'refunded', updated_at = now()
          FROM decided d
         WHERE d.action = 'end' AND r.id = d.reservation_id
    ), item_done AS (
        UPDATE reservation_items i SET live = false
          FROM decided d
         WHERE d.action = 'end' AND i.reservation_id = d.reservation_id AND i.live
        RETURNING i.seat_id, i.fencing_token, i.ticket_type_id, i.quantity
    ), seat_done AS (
        UPDATE seats s
           SET status = 'available', version = s.version + 1, locked_by = NULL, locked_until = NULL,
               updated_at = now()
          FROM item_done i
         WHERE s.id = i.seat_id AND s.fencing_token = i.fencing_token AND s.status IN ('sold', 'reserved')
    ), quantity_done AS (
        UPDATE ticket_types t SET available_quantity = t.available_quantity + x.back, updated_at = now()
          FROM (SELECT i.ticket_type_id, sum(i.quantity) AS back FROM item_done i
                 WHERE i.ticket_type_id IS NOT NULL GROUP BY i.ticket_type_id) x
         WHERE t.id = x.ticket_type_id
    ), points_logged AS (
        INSERT INTO membership_point_logs (membership_id, action_type, points, description, reference_id)
        SELECT p.membership_id, 'joining_taken_back', -p.points, 'payment refunded', d.payment_id
          FROM decided d
          JOIN membership_point_logs p ON p.membership_id = d.membership_id AND p.action_type = 'joining'
         WHERE d.action = 'leave'
           AND NOT EXISTS (SELECT 1 FROM membership_point_logs b
                            WHERE b.membership_id = d.membership_id AND b.action_type = 'joining_taken_back')
        RETURNING membership_point_logs.membership_id, membership_point_logs.points
    ), membership_done AS (
        UPDATE artist_memberships m
           SET status = 'cancelled', updated_at = now(),
               points = m.points + coalesce((SELECT sum(p.points) FROM points_logged p
                                              WHERE p.membership_id = m.id), 0)
          FROM decided d
         WHERE d.action = 'leave' AND m.id = d.membership_id
    ), told AS (
        INSERT INTO outbox (topic, key, value)
        SELECT m.topic, m.key, m.value
          FROM (SELECT d.ord, 1 AS step, 'reservation-events' AS topic, message_key(d.reservation_id) AS key,
                       message_reservation_cancelled(d.saga, d.reservation_id, d.owner, d.event_id,
                                                     d.total_amount, 'refunded', d.at) AS value
                  FROM decided d WHERE d.action = 'end'
                UNION ALL
                SELECT t.ord, 2, 'transfer-events', message_key(t.id),
                       message_transfer_cancelled(coalesce(t.saga_id, t.saga), t.id, t.reservation_id,
                                                  t.seller_id, 'refunded', t.at)
                  FROM transfer_done t) m
         ORDER BY m.ord, m.step
    )
    SELECT d.ord, d.outcome, d.reason FROM decided d;
END $$;

COMMENT ON FUNCTION ticket_apply_refunded IS
    'PAYMENT_REFUNDED for all kinds of payments; outcome applied, ledger_only, noop or dead.';

-- PAYMENT_CONFIRMED of reservations (SPEC 3), for the consumer and for the internal call.
--
-- Call ticket_lock_batch() for these events first, in the same transaction: what is decided below is
-- decided on rows nobody else can change. Each event appears once, and no two share a conflict key.
--
-- outcome: applied           confirmed, revived, or adopted by an older row that had no payment
--          noop              this payment was dealt with before
--          refund_requested  the payment goes back; reason says why
--          dead              nothing was changed; reason is the dead letter's
--          refused           only with p_internal, in place of the last two and without any change
--
-- Seats of a pending or confirmed reservation change only through it, so the lock on the reservation
-- covers them. The UPDATE asks again all the same; if a seat should have moved in between, the whole
-- batch is rolled back and tried again.
CREATE OR REPLACE FUNCTION ticket_apply_confirmed_reservation(
    p_ord integer[], p_payment_id text[], p_order_id text[], p_saga_id text[], p_user_id text[],
    p_reservation_id uuid[], p_amount bigint[], p_payment_method text[], p_time_ms bigint[],
    p_internal boolean DEFAULT false)
RETURNS TABLE (ord integer, outcome text, reason text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_ord integer[];
    v_outcome text[];
    v_reason text[];
    v_seats bigint;
    v_taken bigint;
BEGIN
    WITH seen AS MATERIALIZED (
        SELECT e.ord, e.payment_id, e.refundable, e.order_id, e.user_id, e.reservation_id, e.amount, e.method,
               message_instant(e.time_ms) AS at, e.saga_id,
               l.state AS ledger_state, l.amount AS ledger_amount, l.subject_id AS ledger_subject,
               r.id AS found, r.status, r.user_id AS owner, r.event_id, r.total_amount,
               r.payment_id AS paid_by, r.saga_id AS own_saga, r.expires_at,
               h.seat_ids, h.tokens, coalesce(h.held, true) AS held, coalesce(f.free, true) AS free
          FROM (SELECT u.*, u.payment IS NOT NULL OR u.order_id IS NOT NULL AS refundable,
                       ticket_payment_ref(u.payment, u.saga_id, 'reservation', u.reservation_id) AS payment_id
                  FROM unnest(p_ord, p_payment_id, p_order_id, p_saga_id, p_user_id, p_reservation_id,
                              p_amount, p_payment_method, p_time_ms)
                       AS u (ord, payment, order_id, saga_id, user_id, reservation_id, amount, method,
                             time_ms)) e
          LEFT JOIN payment_ledger l ON l.payment_id = e.payment_id
          LEFT JOIN reservations r ON r.id = e.reservation_id
          -- The seats, and whether all of them still carry the token and the user.
          LEFT JOIN LATERAL (
               SELECT array_agg(i.seat_id) AS seat_ids, array_agg(i.fencing_token) AS tokens,
                      bool_and(i.live AND s.status = 'reserved' AND s.fencing_token = i.fencing_token
                               AND s.locked_by = r.user_id) AS held
                 FROM reservation_items i
                 JOIN seats s ON s.id = i.seat_id
                WHERE i.reservation_id = r.id AND r.status IN ('pending', 'expired')) h ON true
          -- Only for expired ones: whether every seat, or the quantity, can still be had.
          LEFT JOIN LATERAL (
               SELECT bool_and(CASE WHEN i.seat_id IS NULL THEN i.quantity <= t.available_quantity
                                    ELSE s.status = 'available'
                                         OR (s.status = 'locked' AND s.locked_until < now()) END) AS free
                 FROM (SELECT x.seat_id, x.ticket_type_id, sum(x.quantity) AS quantity
                         FROM reservation_items x
                        WHERE x.reservation_id = r.id
                        GROUP BY x.seat_id, x.ticket_type_id) i
                 LEFT JOIN seats s ON s.id = i.seat_id
                 LEFT JOIN ticket_types t ON t.id = i.ticket_type_id
                WHERE r.status = 'expired') f ON true
    ), decided AS MATERIALIZED (
        SELECT v.*, message_saga(v.saga_id, v.own_saga, v.reservation_id, v.payment_id) AS saga,
               a.action, a.outcome, a.reason
          FROM (SELECT x.*,
                       CASE
                       WHEN x.ledger_state = 'refunded' AND x.ledger_amount < x.amount THEN 'dead partial_refund'
                       WHEN p_internal AND (x.ledger_state <> 'applied' OR x.ledger_subject <> x.reservation_id)
                           THEN 'refused payment_' || x.ledger_state
                       WHEN x.ledger_state IS NOT NULL THEN 'noop'
                       WHEN x.found IS NULL AND x.at < now() - interval '1 hour' THEN 'dead subject_missing'
                       WHEN x.found IS NULL THEN 'back reservation_missing'
                       WHEN x.status = 'refunded' AND x.paid_by = x.payment_id THEN 'settle'
                       WHEN x.status = 'confirmed' AND x.paid_by = x.payment_id THEN 'adopt'
                       WHEN x.status = 'confirmed' AND x.paid_by IS NOT NULL THEN 'back already_paid'
                       WHEN x.status = 'confirmed' AND x.amount = x.total_amount THEN 'adopt'
                       WHEN x.status = 'confirmed' THEN 'dead amount_mismatch'
                       WHEN x.status IN ('cancelled', 'refunded') THEN 'back reservation_' || x.status
                       WHEN x.amount <> x.total_amount THEN 'back amount_mismatch'
                       WHEN x.status = 'pending' AND x.held THEN 'confirm'
                       WHEN x.status = 'pending' THEN 'lost seat_lost'
                       WHEN x.at <= x.expires_at AND x.free THEN 'revive'
                       ELSE 'back reservation_expired'
                       END AS verdict
                  FROM seen x OFFSET 0) v            -- OFFSET 0: judge once, not per use
         CROSS JOIN LATERAL ticket_verdict(v.verdict, v.refundable, p_internal) a
    ), ledger_new AS (
        INSERT INTO payment_ledger (payment_id, order_id, saga_id, payment_type, subject_id, user_id, amount,
                                    state, refund_decided_by, refund_reason, refund_requested_at, event_time)
        SELECT d.payment_id, d.order_id, d.saga, 'reservation', d.reservation_id, coalesce(d.user_id, d.owner),
               d.amount,
               CASE d.action WHEN 'settle' THEN 'refunded' ELSE d.outcome END,
               CASE WHEN d.outcome = 'refund_requested' THEN 'consumer' END,
               CASE WHEN d.outcome = 'refund_requested' THEN d.reason END,
               CASE WHEN d.outcome = 'refund_requested' THEN now() END,
               d.at
          FROM decided d
         WHERE d.action IN ('confirm', 'revive', 'adopt', 'settle', 'back', 'lost')
         ORDER BY d.payment_id COLLATE "C"
    ), ledger_filled AS (
        -- The internal call came first and knew no order; a later refund request needs its key.
        UPDATE payment_ledger l SET order_id = d.order_id, updated_at = now()
          FROM decided d
         WHERE d.action = 'noop' AND l.payment_id = d.payment_id
           AND l.order_id IS NULL AND d.order_id IS NOT NULL
    ), reservation_done AS (
        UPDATE reservations r
           SET status = CASE d.action WHEN 'lost' THEN 'cancelled' ELSE 'confirmed' END,
               payment_status = CASE WHEN d.action IN ('confirm', 'revive') THEN 'completed'
                                     ELSE r.payment_status END,
               payment_id = CASE d.action WHEN 'lost' THEN r.payment_id ELSE d.payment_id END,
               payment_method = CASE d.action WHEN 'lost' THEN r.payment_method
                                              ELSE coalesce(d.method, r.payment_method) END,
               cancel_reason = CASE d.action WHEN 'lost' THEN 'seat_lost' END,
               saga_id = coalesce(r.saga_id, d.saga),
               updated_at = now()
          FROM decided d
         WHERE d.action IN ('confirm', 'revive', 'adopt', 'lost') AND r.id = d.found
    ), seat_done AS (
        UPDATE seats s
           SET status = CASE x.action WHEN 'lost' THEN 'available' ELSE 'sold' END,
               version = s.version + 1,
               fencing_token = s.fencing_token + CASE x.action WHEN 'revive' THEN 1 ELSE 0 END,
               locked_by = CASE x.action WHEN 'lost' THEN NULL ELSE x.owner END,
               locked_until = NULL,
               updated_at = now()
          FROM (SELECT d.action, d.owner, u.seat_id, u.token
                  FROM decided d CROSS JOIN LATERAL unnest(d.seat_ids, d.tokens) AS u (seat_id, token)
                 WHERE d.action IN ('confirm', 'revive', 'lost')) x
         WHERE s.id = x.seat_id
           AND CASE x.action
               WHEN 'revive' THEN s.status = 'available'
                                  OR (s.status = 'locked' AND s.locked_until < now())
               ELSE s.status = 'reserved' AND s.fencing_token = x.token AND s.locked_by = x.owner END
        RETURNING s.id, s.fencing_token, x.action
    ), item_done AS (
        UPDATE reservation_items i
           SET live = d.action = 'revive',
               fencing_token = coalesce((SELECT t.fencing_token FROM seat_done t
                                          WHERE t.id = i.seat_id AND t.action = 'revive'), i.fencing_token)
          FROM decided d
         WHERE d.action IN ('revive', 'lost') AND i.reservation_id = d.found
    ), quantity_done AS (
        UPDATE ticket_types t SET available_quantity = t.available_quantity + x.back, updated_at = now()
          FROM (SELECT i.ticket_type_id,
                       sum(CASE d.action WHEN 'lost' THEN i.quantity ELSE -i.quantity END) AS back
                  FROM decided d JOIN reservation_items i ON i.reservation_id = d.found
                 WHERE d.action IN ('revive', 'lost') AND i.ticket_type_id IS NOT NULL
                 GROUP BY i.ticket_type_id) x
         WHERE t.id = x.ticket_type_id
    ), cleanup AS (
        INSERT INTO redis_cleanup (cause, event_id, user_id, reservation_id, seat_ids, fencing_tokens)
        SELECT CASE d.action WHEN 'lost' THEN 'cancelled' ELSE 'sold' END, d.event_id, d.owner, d.found,
               coalesce(d.seat_ids, '{}'), coalesce(d.tokens, '{}')
          FROM decided d WHERE d.action IN ('confirm', 'revive', 'lost')
    ), told AS (
        INSERT INTO outbox (topic, key, value)
        SELECT m.topic, m.key, m.value
          FROM (SELECT d.ord, 1 AS step, 'reservation-events' AS topic, message_key(d.found) AS key,
                       CASE d.action
                       WHEN 'lost' THEN message_reservation_cancelled(
                            d.saga, d.found, d.owner, d.event_id, d.total_amount, 'seat_lost', d.at)
                       ELSE message_reservation_confirmed(
                            d.saga, d.found, d.owner, d.event_id, d.total_amount, d.method, d.at) END AS value
                  FROM decided d WHERE d.action IN ('confirm', 'revive', 'lost')
                UNION ALL
                SELECT d.ord, 2, 'payment-commands', message_command_key(d.order_id, d.payment_id),
                       message_refund_requested(d.saga, d.payment_id, d.order_id, coalesce(d.user_id, d.owner),
                                                d.amount, d.reason, d.at)
                  FROM decided d WHERE d.outcome = 'refund_requested') m
         ORDER BY m.ord, m.step
    )
    SELECT array_agg(d.ord), array_agg(d.outcome), array_agg(d.reason),
           coalesce(sum(cardinality(d.seat_ids)) FILTER (WHERE d.action IN ('confirm', 'revive')), 0),
           (SELECT count(*) FROM seat_done t WHERE t.action <> 'lost')
      INTO v_ord, v_outcome, v_reason, v_seats, v_taken
      FROM decided d;

    IF v_seats <> v_taken THEN
        RAISE EXCEPTION 'a seat changed while its reservation was being confirmed'
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN QUERY SELECT * FROM unnest(v_ord, v_outcome, v_reason);
END $$;

COMMENT ON FUNCTION ticket_apply_confirmed_reservation IS
    'PAYMENT_CONFIRMED for reservations; outcome applied, noop, refund_requested, dead or refused.';

-- Cancelling reservations: by their owner, by an administrator, or because the event will not happen.
--
-- p_by: user (p_user_id must own it, and the event's cancel_until must not have passed), admin,
-- event_cancelled. Works alone: takes its locks itself, in the global order. RESERVATION_CANCELLED
-- has no reason of its own for an administrator's cancel: it says user. Who asked stands in the refund
-- request's reason, in the ledger's refund_decided_by, and in admin_audit_logs (the caller writes it).
--
-- outcome: cancelled         was pending; seats and quantities are free, RESERVATION_CANCELLED left
--          refund_requested  was confirmed; the payment is asked back, an open listing has ended; the
--                            seats stay until PAYMENT_REFUNDED
--          noop              cancelled before, or its refund is on the way
--          not_found, forbidden (not the owner's), too_late (cancel_until), closed (expired, refunded),
--          unpaid (confirmed, but no payment is known that could be asked back): nothing was changed
CREATE OR REPLACE FUNCTION ticket_cancel(p_reservation_id uuid[], p_by text, p_user_id text DEFAULT NULL)
RETURNS TABLE (reservation_id uuid, outcome text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_reason text := CASE p_by WHEN 'event_cancelled' THEN 'event_cancelled' ELSE 'user' END;
    v_reservation uuid[];
    v_payment text[];
BEGIN
    IF p_by NOT IN ('user', 'admin', 'event_cancelled') OR (p_by = 'user') <> (p_user_id IS NOT NULL) THEN
        RAISE EXCEPTION 'ticket_cancel: who cancels is not said' USING ERRCODE = 'invalid_parameter_value';
    END IF;

    SELECT array_agg(r.id), array_agg(r.payment_id) INTO v_reservation, v_payment
      FROM reservations r WHERE r.id = ANY (p_reservation_id);
    PERFORM 1 FROM payment_ledger l
      WHERE l.payment_id = ANY (v_payment) ORDER BY l.payment_id FOR NO KEY UPDATE;
    PERFORM 1 FROM ticket_transfers t
      WHERE t.reservation_id = ANY (v_reservation) AND t.status = 'listed' ORDER BY t.id FOR NO KEY UPDATE;
    PERFORM 1 FROM reservations r WHERE r.id = ANY (v_reservation) ORDER BY r.id FOR NO KEY UPDATE;
    IF EXISTS (SELECT 1 FROM unnest(v_reservation, v_payment) AS u (id, payment_id)
                 JOIN reservations r ON r.id = u.id
                WHERE r.payment_id IS DISTINCT FROM u.payment_id) THEN
        RAISE EXCEPTION 'the reservation was paid or transferred meanwhile'
            USING ERRCODE = 'serialization_failure';
    END IF;
    PERFORM 1 FROM ticket_types q
      WHERE q.id IN (SELECT i.ticket_type_id FROM reservation_items i
                      WHERE i.reservation_id = ANY (v_reservation))
      ORDER BY q.id FOR NO KEY UPDATE;

    RETURN QUERY
    WITH decided AS MATERIALIZED (
        SELECT a.id, r.user_id AS owner, r.event_id, r.total_amount, r.payment_id,
               l.payment_id AS known, l.order_id, coalesce(l.amount, r.total_amount) AS amount,
               coalesce(l.user_id, r.user_id) AS payer,
               message_saga(r.saga_id, l.saga_id, r.id, NULL) AS saga,
               CASE
               WHEN r.id IS NULL THEN 'not_found'
               WHEN r.user_id <> p_user_id THEN 'forbidden'
               WHEN r.status = 'cancelled' OR r.payment_status = 'refund_requested' THEN 'noop'
               WHEN r.status IN ('expired', 'refunded') THEN 'closed'
               WHEN p_by = 'user' AND e.cancel_until < now() THEN 'too_late'
               WHEN r.status = 'pending' THEN 'cancelled'
               WHEN r.payment_id IS NULL THEN 'unpaid'
               WHEN l.state <> 'applied' THEN 'closed'
               ELSE 'refund_requested'
               END AS outcome
          FROM (SELECT DISTINCT u.id FROM unnest(p_reservation_id) AS u (id)) a
          LEFT JOIN reservations r ON r.id = a.id
          LEFT JOIN events e ON e.id = r.event_id
          LEFT JOIN payment_ledger l ON l.payment_id = r.payment_id
    ), ledger_new AS (
        -- Paid before there was a ledger.
        INSERT INTO payment_ledger (payment_id, saga_id, payment_type, subject_id, user_id, amount, state,
                                    refund_decided_by, refund_reason, refund_requested_at, event_time)
        SELECT d.payment_id, d.saga, 'reservation', d.id, d.owner, d.amount, 'refund_requested',
               p_by, p_by, now(), now()
          FROM decided d WHERE d.outcome = 'refund_requested' AND d.known IS NULL
    ), ledger_done AS (
        UPDATE payment_ledger l
           SET state = 'refund_requested', refund_decided_by = p_by, refund_reason = p_by,
               refund_requested_at = now(), updated_at = now()
          FROM decided d WHERE d.outcome = 'refund_requested' AND l.payment_id = d.known
    ), transfer_done AS (
        UPDATE ticket_transfers t
           SET status = 'cancelled', cancel_reason = 'reservation_cancelled', updated_at = now()
          FROM decided d
         WHERE d.outcome = 'refund_requested' AND t.reservation_id = d.id AND t.status = 'listed'
        RETURNING t.id, t.reservation_id, t.seller_id, coalesce(t.saga_id, d.saga) AS saga
    ), reservation_done AS (
        UPDATE reservations r
           SET status = CASE d.outcome WHEN 'cancelled' THEN 'cancelled' ELSE r.status END,
               payment_status = CASE d.outcome WHEN 'cancelled' THEN r.payment_status
                                               ELSE 'refund_requested' END,
               cancel_reason = v_reason, updated_at = now()
          FROM decided d
         WHERE d.outcome IN ('cancelled', 'refund_requested') AND r.id = d.id
    ), item_done AS (
        UPDATE reservation_items i SET live = false
          FROM decided d WHERE d.outcome = 'cancelled' AND i.reservation_id = d.id AND i.live
        RETURNING i.reservation_id, i.seat_id, i.fencing_token, i.ticket_type_id, i.quantity, d.owner
    ), seat_done AS (
        UPDATE seats s
           SET status = 'available', version = s.version + 1, locked_by = NULL, locked_until = NULL,
               updated_at = now()
          FROM item_done i
         WHERE s.id = i.seat_id AND s.fencing_token = i.fencing_token
           AND s.status = 'reserved' AND s.locked_by = i.owner
    ), quantity_done AS (
        UPDATE ticket_types t SET available_quantity = t.available_quantity + x.back, updated_at = now()
          FROM (SELECT i.ticket_type_id, sum(i.quantity) AS back FROM item_done i
                 WHERE i.ticket_type_id IS NOT NULL GROUP BY i.ticket_type_id) x
         WHERE t.id = x.ticket_type_id
    ), cleanup AS (
        INSERT INTO redis_cleanup (cause, event_id, user_id, reservation_id, seat_ids, fencing_tokens)
        SELECT 'cancelled', d.event_id, d.owner, d.id,
               coalesce(array_agg(i.seat_id) FILTER (WHERE i.seat_id IS NOT NULL), '{}'),
               coalesce(array_agg(i.fencing_token) FILTER (WHERE i.seat_id IS NOT NULL), '{}')
          FROM decided d LEFT JOIN item_done i ON i.reservation_id = d.id
         WHERE d.outcome = 'cancelled'
         GROUP BY d.event_id, d.owner, d.id
    ), told AS (
        INSERT INTO outbox (topic, key, value)
        SELECT 'reservation-events', message_key(d.id),
               message_reservation_cancelled(d.saga, d.id, d.owner, d.event_id, d.total_amount, v_reason, now())
          FROM decided d WHERE d.outcome = 'cancelled'
        UNION ALL
        SELECT 'payment-commands', message_command_key(d.order_id, d.payment_id),
               message_refund_requested(d.saga, d.payment_id, d.order_id, d.payer, d.amount, p_by, now())
          FROM decided d WHERE d.outcome = 'refund_requested'
        UNION ALL
        SELECT 'transfer-events', message_key(t.id),
               message_transfer_cancelled(t.saga, t.id, t.reservation_id, t.seller_id,
                                          'reservation_cancelled', now())
          FROM transfer_done t
    )
    SELECT d.id, d.outcome FROM decided d;
END $$;

-- The next p_limit reservations of an event that will not happen. Call again, each time in its own
-- transaction, until it returns no row. Confirmed ones without a known payment are left alone.
CREATE OR REPLACE FUNCTION ticket_cancel_event(p_event_id uuid, p_limit integer)
RETURNS TABLE (reservation_id uuid, outcome text) LANGUAGE sql AS $$
    SELECT c.reservation_id, c.outcome
      FROM (SELECT array_agg(x.id) AS ids
              FROM (SELECT r.id FROM reservations r
                      LEFT JOIN payment_ledger l ON l.payment_id = r.payment_id
                     WHERE r.event_id = p_event_id
                       AND (r.status = 'pending'
                            OR (r.status = 'confirmed' AND r.payment_status = 'completed'
                                AND r.payment_id IS NOT NULL AND coalesce(l.state, 'applied') = 'applied'))
                     ORDER BY r.created_at LIMIT p_limit) x) n
     CROSS JOIN LATERAL ticket_cancel(n.ids, 'event_cancelled') c
     WHERE n.ids IS NOT NULL
$$;

COMMENT ON FUNCTION ticket_cancel IS 'Cancels reservations for a user, an administrator or a cancelled event.';
COMMENT ON FUNCTION ticket_cancel_event IS 'Cancels the next reservations of an event; repeat until empty.';

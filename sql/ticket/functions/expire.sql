-- The sweeper's step: ends pending reservations whose hold is over.
--
-- The clock alone never ends one. Every payment-events partition must have been read up to a moment
-- (caught_up_at) at least 60 s after the hold's end: a payment made in time has been heard by then.
-- p_partitions is the topic's number of partitions; one without a value blocks the sweep.
--
-- Several instances may sweep at once: each takes deadlines and reservations nobody else holds; what
-- it could not have stays for the next round. Call again while `looked_at` equals p_limit.
CREATE OR REPLACE FUNCTION ticket_expire_due(
    p_limit integer, p_partitions integer,
    p_group text DEFAULT 'ticket-service-group', p_topic text DEFAULT 'payment-events')
RETURNS TABLE (caught_up_at timestamptz, looked_at integer, expired integer)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_candidate uuid[];
    v_free uuid[];
BEGIN
    looked_at := 0; expired := 0;
    SELECT CASE WHEN count(o.caught_up_at) = p_partitions THEN min(o.caught_up_at) END
      INTO caught_up_at
      FROM consumer_offsets o
     WHERE o.consumer_group = p_group AND o.topic = p_topic AND o.partition < p_partitions;
    IF caught_up_at IS NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;

    SELECT array_agg(d.reservation_id) INTO v_candidate
      FROM (SELECT w.reservation_id FROM reservation_deadlines w
             WHERE w.look_at < caught_up_at - interval '60 s'
             ORDER BY w.look_at LIMIT p_limit FOR UPDATE SKIP LOCKED) d;
    IF v_candidate IS NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT array_agg(x.id) INTO v_free
      FROM (SELECT r.id FROM reservations r WHERE r.id = ANY (v_candidate)
             ORDER BY r.id FOR NO KEY UPDATE SKIP LOCKED) x;
    PERFORM 1 FROM ticket_types q
      WHERE q.id IN (SELECT i.ticket_type_id FROM reservation_items i JOIN reservations r ON r.id = i.reservation_id
                      WHERE r.id = ANY (v_free) AND r.status = 'pending')
      ORDER BY q.id FOR NO KEY UPDATE;
    looked_at := cardinality(v_candidate);

    WITH due AS MATERIALIZED (
        SELECT r.id, r.user_id, r.event_id, r.total_amount, r.expires_at,
               message_saga(NULL, r.saga_id, r.id, NULL) AS saga
          FROM reservations r
         WHERE r.id = ANY (v_free) AND r.status = 'pending'
           AND r.expires_at < ticket_expire_due.caught_up_at - interval '60 s'
    ), deadline_moved AS (                              -- the hold was extended
        UPDATE reservation_deadlines w SET look_at = r.expires_at
          FROM reservations r
         WHERE w.reservation_id = ANY (v_candidate) AND w.look_at < ticket_expire_due.caught_up_at - interval '60 s'
           AND r.id = w.reservation_id AND r.id = ANY (v_free) AND r.status = 'pending'
           AND r.expires_at >= ticket_expire_due.caught_up_at - interval '60 s'
    ), deadline_done AS (                               -- expired now, or long settled, or deleted
        DELETE FROM reservation_deadlines w
         WHERE w.reservation_id = ANY (v_candidate) AND w.look_at < ticket_expire_due.caught_up_at - interval '60 s'
           AND NOT EXISTS (SELECT 1 FROM reservations r
                            WHERE r.id = w.reservation_id
                              AND (r.id <> ALL (coalesce(v_free, '{}'))
                                   OR (r.status = 'pending'
                                       AND r.expires_at >= ticket_expire_due.caught_up_at - interval '60 s')))
    ), reservation_done AS (
        UPDATE reservations r SET status = 'expired', cancel_reason = 'expired', updated_at = now()
          FROM due d WHERE r.id = d.id
    ), item_done AS (
        UPDATE reservation_items i SET live = false
          FROM due d WHERE i.reservation_id = d.id AND i.live
        RETURNING i.reservation_id, i.seat_id, i.fencing_token, i.ticket_type_id, i.quantity, d.user_id
    ), seat_done AS (
        UPDATE seats s
           SET status = 'available', version = s.version + 1, locked_by = NULL, locked_until = NULL,
               updated_at = now()
          FROM item_done i
         WHERE s.id = i.seat_id AND s.fencing_token = i.fencing_token
           AND s.status = 'reserved' AND s.locked_by = i.user_id
    ), quantity_done AS (
        UPDATE ticket_types t SET available_quantity = t.available_quantity + x.back, updated_at = now()
          FROM (SELECT i.ticket_type_id, sum(i.quantity) AS back FROM item_done i
                 WHERE i.ticket_type_id IS NOT NULL GROUP BY i.ticket_type_id) x
         WHERE t.id = x.ticket_type_id
    ), cleanup AS (
        INSERT INTO redis_cleanup (cause, event_id, user_id, reservation_id, seat_ids, fencing_tokens)
        SELECT 'expired', d.event_id, d.user_id, d.id,
               coalesce(array_agg(i.seat_id) FILTER (WHERE i.seat_id IS NOT NULL), '{}'),
               coalesce(array_agg(i.fencing_token) FILTER (WHERE i.seat_id IS NOT NULL), '{}')
          FROM due d LEFT JOIN item_done i ON i.reservation_id = d.id
         GROUP BY d.event_id, d.user_id, d.id
    ), told AS (
        INSERT INTO outbox (topic, key, value)
        SELECT 'reservation-events', message_key(d.id),
               message_reservation_cancelled(d.saga, d.id, d.user_id, d.event_id, d.total_amount, 'expired',
                                             d.expires_at)
          FROM due d
    )
    SELECT count(*) INTO expired FROM due;
    RETURN NEXT;
END $$;

COMMENT ON FUNCTION ticket_expire_due IS
    'Expires pending reservations past their hold, as far as all payments are known; caught_up_at null: blocked.';

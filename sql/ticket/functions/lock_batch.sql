-- Locks everything a batch of payment events may touch, in the one order all of URR keeps:
-- payment_ledger, ticket_transfers, reservations, seats, ticket_types, artist_memberships; ids ascending.
--
-- A ledger row that is absent is not made here: the apply functions insert it in its final state while
-- they hold the subject's row, and its primary key judges. So a dead letter leaves no trace, and the
-- usual payment costs one insert instead of an insert and an update.
--
-- Returns (ord, conflict_key) for events that must not share a wave: those that name a common key write,
-- or decide on, a common row. Keys that only one event has are left out, so the usual answer is empty.
--
-- A refund may carry nothing but its paymentId. Its subject is then the ledger's, or that of a
-- confirmation in the same batch; its own paymentType is not to be trusted.
--
-- Seats are locked only where an expired reservation might take them again: those of pending and
-- confirmed ones change only through their reservation, whose row is locked.
CREATE OR REPLACE FUNCTION ticket_lock_batch(
    p_ord integer[], p_kind text[], p_payment_id text[], p_saga_id text[], p_payment_type text[],
    p_subject_id uuid[])
RETURNS TABLE (ord integer, conflict_key text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_any_refund boolean := 'refunded' = ANY (p_kind);
    v_payment text[] := p_payment_id;   -- as the ledger names them
    l_payment text[];
    l_type text[];
    l_subject uuid[];
    t_ord integer[];                    -- touched subjects, one row per event and subject
    t_type text[];
    t_subject uuid[];
    t_kind text[];
    r_ord integer[];                    -- touched reservations, directly or through a transfer
    r_id uuid[];
    r_kind text[];
    v_expired uuid[];
    v_moving uuid[];                    -- reservations that may give back or take a quantity
BEGIN
    IF array_position(p_payment_id, NULL) IS NOT NULL THEN
        SELECT array_agg(ticket_payment_ref(e.payment, e.saga, e.type, e.subject) ORDER BY e.n)
          INTO v_payment
          FROM unnest(p_payment_id, p_saga_id, p_payment_type, p_subject_id)
               WITH ORDINALITY AS e (payment, saga, type, subject, n);
    END IF;

    SELECT array_agg(l.payment_id), array_agg(l.payment_type), array_agg(l.subject_id)
      INTO l_payment, l_type, l_subject
      FROM (SELECT p.payment_id, p.payment_type, p.subject_id
              FROM payment_ledger p
             WHERE p.payment_id = ANY (v_payment)
             ORDER BY p.payment_id FOR NO KEY UPDATE) l;

    IF v_any_refund THEN
        WITH e AS MATERIALIZED (
            SELECT * FROM unnest(p_ord, p_kind, v_payment, p_payment_type, p_subject_id)
                          AS e (ord, kind, payment_id, type, subject))
        SELECT array_agg(t.ord), array_agg(t.type), array_agg(t.subject), array_agg(t.kind)
          INTO t_ord, t_type, t_subject, t_kind
          FROM (SELECT e.ord, e.type, e.subject, e.kind FROM e
                UNION
                SELECT e.ord, l.type, l.subject, e.kind
                  FROM e JOIN unnest(l_payment, l_type, l_subject) AS l (payment_id, type, subject)
                         ON l.payment_id = e.payment_id
                UNION
                SELECT e.ord, c.type, c.subject, e.kind
                  FROM e JOIN e c ON c.payment_id = e.payment_id AND c.kind = 'confirmed'
                 WHERE e.kind = 'refunded') t
         WHERE t.subject IS NOT NULL;
    ELSE
        t_ord := p_ord; t_type := p_payment_type; t_subject := p_subject_id; t_kind := p_kind;
    END IF;

    IF 'transfer' = ANY (t_type) THEN
        SELECT array_agg(x.ord), array_agg(x.id), array_agg(x.kind) INTO r_ord, r_id, r_kind
          FROM (SELECT t.ord, t.subject AS id, t.kind
                  FROM unnest(t_ord, t_type, t_subject, t_kind) AS t (ord, type, subject, kind)
                 WHERE t.type = 'reservation'
                UNION
                SELECT t.ord, f.reservation_id, t.kind
                  FROM unnest(t_ord, t_type, t_subject, t_kind) AS t (ord, type, subject, kind)
                  JOIN ticket_transfers f ON f.id = t.subject
                 WHERE t.type = 'transfer') x;
    ELSE
        SELECT array_agg(t.ord), array_agg(t.subject), array_agg(t.kind) INTO r_ord, r_id, r_kind
          FROM unnest(t_ord, t_type, t_subject, t_kind) AS t (ord, type, subject, kind)
         WHERE t.type = 'reservation';
    END IF;

    IF v_any_refund OR 'transfer' = ANY (t_type) THEN
        PERFORM 1
           FROM ticket_transfers f
          WHERE f.id IN (SELECT t.subject FROM unnest(t_type, t_subject) AS t (type, subject)
                          WHERE t.type = 'transfer'
                         UNION
                         SELECT o.id FROM unnest(r_id, r_kind) AS r (id, kind)
                           JOIN ticket_transfers o ON o.reservation_id = r.id AND o.status = 'listed'
                          WHERE r.kind = 'refunded')
          ORDER BY f.id FOR NO KEY UPDATE;
    END IF;

    SELECT array_agg(x.id) FILTER (WHERE x.status = 'expired') INTO v_expired
      FROM (SELECT r.id, r.status FROM reservations r
             WHERE r.id = ANY (r_id) ORDER BY r.id FOR NO KEY UPDATE) x;

    IF v_expired IS NOT NULL THEN
        PERFORM 1 FROM seats s
          WHERE s.id IN (SELECT i.seat_id FROM reservation_items i WHERE i.reservation_id = ANY (v_expired))
          ORDER BY s.id FOR NO KEY UPDATE;
    END IF;
    IF v_any_refund OR v_expired IS NOT NULL THEN
        SELECT array_agg(r.id) INTO v_moving
          FROM unnest(r_id, r_kind) AS r (id, kind)
         WHERE r.kind = 'refunded' OR r.id = ANY (v_expired);
        PERFORM 1 FROM ticket_types q
          WHERE q.id IN (SELECT i.ticket_type_id FROM reservation_items i
                          WHERE i.reservation_id = ANY (v_moving))
          ORDER BY q.id FOR NO KEY UPDATE;
    END IF;
    IF 'membership' = ANY (t_type) THEN
        PERFORM 1 FROM artist_memberships m
          WHERE m.id = ANY (t_subject) ORDER BY m.id FOR NO KEY UPDATE;
    END IF;

    RETURN QUERY
        SELECT unnest(array_agg(e.ord)), 'payment ' || e.payment_id
          FROM unnest(p_ord, v_payment) AS e (ord, payment_id)
         WHERE e.payment_id IS NOT NULL GROUP BY e.payment_id HAVING count(*) > 1;
    RETURN QUERY
        SELECT unnest(array_agg(t.ord)), 'subject ' || t.subject
          FROM (SELECT DISTINCT t.ord, t.subject FROM unnest(t_ord, t_subject) AS t (ord, subject)
                UNION
                SELECT r.ord, r.id FROM unnest(r_ord, r_id) AS r (ord, id)) t
         WHERE t.subject IS NOT NULL GROUP BY t.subject HAVING count(*) > 1;
    IF v_expired IS NOT NULL THEN
        -- Who comes first gets the seat or the quantity: every other event that could move it waits.
        RETURN QUERY
            SELECT unnest(array_agg(x.ord)), 'place ' || x.place
              FROM (SELECT DISTINCT r.ord, coalesce(i.seat_id, i.ticket_type_id) AS place
                      FROM unnest(r_ord, r_id, r_kind) AS r (ord, id, kind)
                      JOIN reservation_items i ON i.reservation_id = r.id
                     WHERE i.seat_id IS NOT NULL OR r.kind = 'refunded' OR r.id = ANY (v_expired)) x
             WHERE x.place IN (SELECT coalesce(i.seat_id, i.ticket_type_id) FROM reservation_items i
                                WHERE i.reservation_id = ANY (v_expired))
             GROUP BY x.place HAVING count(*) > 1;
    END IF;
END $$;

COMMENT ON FUNCTION ticket_lock_batch IS
    'Locks what a batch of payment events may touch in the global order; returns which events must not share a wave.';

-- What ticket_db tells about these ids ($1): (time, place, what, detail), texts.
WITH ids AS (SELECT unnest($1::text[]) AS id),
steps (at, place, what, detail) AS (
    SELECT r.created_at, 'reservations', 'reservation made',
           r.reservation_number || ', user ' || r.user_id || ', amount ' || r.total_amount || ', hold until '
           || to_char(r.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
      FROM reservations r JOIN ids ON r.id::text = ids.id
    UNION ALL
    SELECT i.created_at, 'reservation_items', 'holds ' || coalesce('seat ' || s.section || '-' || s.row_number || '-' || s.seat_number,
                                                   i.quantity || ' x ' || t.name),
           coalesce('token ' || i.fencing_token || ', seat now ' || s.status || ', ', '')
           || CASE WHEN i.live THEN 'still its own' ELSE 'given back' END
      FROM reservation_items i JOIN ids ON i.reservation_id::text = ids.id
      LEFT JOIN seats s ON s.id = i.seat_id
      LEFT JOIN ticket_types t ON t.id = i.ticket_type_id
    UNION ALL
    SELECT r.updated_at, 'reservations', 'reservation is ' || r.status || coalesce(' (' || r.cancel_reason || ')', ''),
           'payment ' || r.payment_status || coalesce(', ' || r.payment_id, '') || coalesce(', ' || r.payment_method, '')
      FROM reservations r JOIN ids ON r.id::text = ids.id
     WHERE r.status <> 'pending'
    UNION ALL
    SELECT l.event_time, 'payment_ledger', 'payment heard of', l.payment_id || ', ' || l.payment_type || ', amount ' || coalesce(l.amount::text, 'not said')
      FROM payment_ledger l JOIN ids ON l.payment_id = ids.id
    UNION ALL
    SELECT l.refund_requested_at, 'payment_ledger', 'refund requested',
           l.payment_id || ', ' || l.refund_reason || ', decided by ' || l.refund_decided_by
      FROM payment_ledger l JOIN ids ON l.payment_id = ids.id
     WHERE l.refund_requested_at IS NOT NULL
    UNION ALL
    SELECT l.updated_at, 'payment_ledger', 'payment is ' || l.state, l.payment_id
      FROM payment_ledger l JOIN ids ON l.payment_id = ids.id
    UNION ALL
    SELECT t.created_at, 'ticket_transfers', 'listed for transfer', t.id || ', by ' || t.seller_id || ', ' || t.total_price
      FROM ticket_transfers t JOIN ids ON t.id::text = ids.id
    UNION ALL
    SELECT coalesce(t.completed_at, t.updated_at), 'ticket_transfers', 'transfer is ' || t.status || coalesce(' (' || t.cancel_reason || ')', ''),
           t.id || coalesce(', to ' || t.buyer_id, '')
      FROM ticket_transfers t JOIN ids ON t.id::text = ids.id
     WHERE t.status <> 'listed'
    UNION ALL
    SELECT m.created_at, 'artist_memberships', 'membership asked for', m.id || ', user ' || m.user_id || coalesce(', price ' || m.price, '')
      FROM artist_memberships m JOIN ids ON m.id::text = ids.id
    UNION ALL
    SELECT m.updated_at, 'artist_memberships', 'membership is ' || m.status, m.id || ', ' || m.points || ' points'
      FROM artist_memberships m JOIN ids ON m.id::text = ids.id
     WHERE m.status <> 'pending'
    UNION ALL
    SELECT p.created_at, 'membership_point_logs', p.action_type, p.points || ' points'
      FROM membership_point_logs p JOIN ids ON p.membership_id::text = ids.id
    UNION ALL
    SELECT o.created_at, 'outbox', 'waits for the relay', 'outbox ' || o.id || ' to ' || o.topic
      FROM outbox o JOIN ids ON o.key = convert_to(ids.id, 'UTF8')
    UNION ALL
    SELECT o.failed_at, 'outbox_failed', 'Kafka refused it', 'outbox ' || o.outbox_id || ' to ' || o.topic || ': ' || o.reason
      FROM outbox_failed o JOIN ids ON o.key = convert_to(ids.id, 'UTF8')
    UNION ALL
    SELECT c.created_at, 'redis_cleanup', 'waits for urr-seats', c.cause
      FROM redis_cleanup c JOIN ids ON c.reservation_id::text = ids.id
    UNION ALL
    SELECT a.created_at, 'admin_audit_logs', a.action, 'by ' || a.admin_id
      FROM admin_audit_logs a JOIN ids ON a.target_id = ids.id
    UNION ALL
    SELECT a.at, 'operator_audit', a.command, 'by ' || a.who
      FROM operator_audit a JOIN ids ON a.target = ids.id
)
SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time, 'ticket_db.' || place, what, detail
  FROM steps
 ORDER BY at

-- ticket_db against itself: (check, subject, wanted, found, repair), texts; repair null: a person decides.
WITH wanted AS (
    SELECT s.id, s.status, s.fencing_token, i.id AS item_id, i.fencing_token AS item_token, r.status AS reservation,
           CASE r.status WHEN 'confirmed' THEN 'sold' WHEN 'pending' THEN 'reserved' END AS should
      FROM seats s
      LEFT JOIN reservation_items i ON i.seat_id = s.id AND i.live
      LEFT JOIN reservations r ON r.id = i.reservation_id
)
SELECT 'seats' AS "check", 'seat ' || id, coalesce(should, 'available'), status::text, 'by its items'
  FROM wanted
 WHERE should IS NOT NULL AND status <> should
    OR should IS NULL AND status IN ('sold', 'reserved')
UNION ALL
SELECT 'tokens', 'seat ' || id, 'token ' || item_token, 'token ' || fencing_token, NULL
  FROM wanted
 WHERE should IS NOT NULL AND status = should AND item_token <> fencing_token
UNION ALL
SELECT 'items', 'item ' || i.id || ' of reservation ' || i.reservation_id,
       CASE WHEN r.status IN ('pending', 'confirmed') THEN 'live' ELSE 'not live' END || ' (reservation ' || r.status || ')',
       CASE WHEN i.live THEN 'live' ELSE 'not live' END,
       CASE WHEN i.live THEN 'given back' END
  FROM reservation_items i
  JOIN reservations r ON r.id = i.reservation_id
 WHERE i.live <> (r.status IN ('pending', 'confirmed'))
UNION ALL
SELECT 'standing', 'ticket type ' || t.id, (t.total_quantity - coalesce(taken.n, 0)) || ' available',
       t.available_quantity || ' available',
       CASE WHEN coalesce(taken.n, 0) <= t.total_quantity THEN 'by its items' END
  FROM ticket_types t
  LEFT JOIN (SELECT ticket_type_id, sum(quantity) AS n FROM reservation_items WHERE live AND ticket_type_id IS NOT NULL
              GROUP BY ticket_type_id) taken ON taken.ticket_type_id = t.id
 WHERE t.available_quantity <> t.total_quantity - coalesce(taken.n, 0)
UNION ALL
SELECT 'ledger', 'reservation ' || r.id, CASE r.status WHEN 'confirmed' THEN 'its payment applied' ELSE 'its payment refunded' END,
       coalesce(l.state::text, 'no payment in the ledger'), NULL
  FROM reservations r
  LEFT JOIN payment_ledger l ON l.payment_id = r.payment_id
 WHERE r.payment_id IS NOT NULL
   AND (r.status = 'confirmed' AND l.state IS DISTINCT FROM 'applied'
                              AND NOT (r.payment_status = 'refund_requested' AND l.state = 'refund_requested')
        OR r.status = 'refunded' AND l.state IS DISTINCT FROM 'refunded')
ORDER BY 1, 2

-- Seats by their items. Those that differ are held by now: whoever sold one meanwhile is right.
UPDATE seats s
   SET status = coalesce(w.should, 'available'),
       version = s.version + 1,
       fencing_token = greatest(s.fencing_token, coalesce(w.token, 0)),
       locked_by = CASE WHEN w.should IS NULL THEN NULL ELSE w.user_id END,
       locked_until = NULL,
       updated_at = now()
  FROM (SELECT k.id, i.fencing_token AS token, r.user_id,
               CASE r.status WHEN 'confirmed' THEN 'sold' WHEN 'pending' THEN 'reserved' END AS should
          FROM seats k
          LEFT JOIN reservation_items i ON i.seat_id = k.id AND i.live
          LEFT JOIN reservations r ON r.id = i.reservation_id) w
 WHERE w.id = s.id
   AND (w.should IS NOT NULL AND s.status <> w.should OR w.should IS NULL AND s.status IN ('sold', 'reserved'))

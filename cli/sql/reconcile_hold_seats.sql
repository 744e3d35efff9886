-- Keeps the seats that differ still, so that the repair judges what is there then.
SELECT s.id
  FROM seats s
  LEFT JOIN reservation_items i ON i.seat_id = s.id AND i.live
  LEFT JOIN reservations r ON r.id = i.reservation_id
 WHERE s.status IS DISTINCT FROM CASE r.status WHEN 'confirmed' THEN 'sold' WHEN 'pending' THEN 'reserved' END
   AND (r.id IS NOT NULL OR s.status IN ('sold', 'reserved'))
 ORDER BY s.id
   FOR UPDATE OF s

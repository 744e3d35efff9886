-- Items of reservations that ended hold nothing.
UPDATE reservation_items i SET live = false
  FROM reservations r
 WHERE r.id = i.reservation_id AND i.live AND r.status NOT IN ('pending', 'confirmed')

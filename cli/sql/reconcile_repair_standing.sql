-- Standing places by their items.
UPDATE ticket_types t
   SET available_quantity = t.total_quantity - taken.n, updated_at = now()
  FROM (SELECT k.id, coalesce(sum(i.quantity) FILTER (WHERE i.live), 0) AS n
          FROM ticket_types k LEFT JOIN reservation_items i ON i.ticket_type_id = k.id
         GROUP BY k.id) taken
 WHERE taken.id = t.id AND taken.n <= t.total_quantity AND t.available_quantity <> t.total_quantity - taken.n

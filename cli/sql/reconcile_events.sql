-- What the figures of each event should say, by ticket_db. Expired ones are left out: a revived reservation's row no
-- longer says that it had expired.
SELECT event_id::text,
       count(*) AS reservations_created,
       count(*) FILTER (WHERE status IN ('confirmed', 'refunded')) AS reservations_confirmed,
       coalesce(sum(total_amount) FILTER (WHERE status IN ('confirmed', 'refunded')), 0)::bigint AS total_revenue,
       count(*) FILTER (WHERE status = 'refunded') AS cancelled_refunded,
       coalesce(sum(total_amount) FILTER (WHERE status = 'refunded'), 0)::bigint AS refunded_revenue,
       count(*) FILTER (WHERE status = 'cancelled' AND cancel_reason = 'user') AS cancelled_user,
       count(*) FILTER (WHERE status = 'cancelled' AND cancel_reason = 'seat_lost') AS cancelled_seat_lost,
       count(*) FILTER (WHERE status = 'cancelled' AND cancel_reason = 'event_cancelled') AS cancelled_event_cancelled
  FROM reservations
 GROUP BY event_id
 ORDER BY event_id::text COLLATE "C"

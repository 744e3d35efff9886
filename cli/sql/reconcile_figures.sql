-- What they say, summed over days, of the live generation.
SELECT d.event_id::text,
       sum(reservations_created)::bigint, sum(reservations_confirmed)::bigint, sum(total_revenue)::bigint,
       sum(cancelled_refunded)::bigint, sum(refunded_revenue)::bigint, sum(cancelled_user)::bigint,
       sum(cancelled_seat_lost)::bigint, sum(cancelled_event_cancelled)::bigint
  FROM event_daily_stats_gen d
  JOIN stats_generations g ON g.generation = d.generation AND g.state = 'live'
 GROUP BY d.event_id
 ORDER BY d.event_id COLLATE "C"

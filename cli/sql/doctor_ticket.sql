-- Troubles of the saga: (level, check, what, page), texts. $1: the database's name.
WITH troubles (level, "check", what, page) AS (
    SELECT 'bad', 'pending', n || ' reservations are pending ' || late || ' s past their hold and its grace', 'sweep-blocked'
      FROM (SELECT count(*) AS n, extract(epoch FROM now() - min(r.expires_at))::bigint AS late
              FROM reservation_deadlines d JOIN reservations r ON r.id = d.reservation_id
             WHERE d.look_at < now() - interval '3 min' AND r.status = 'pending' AND r.expires_at < now() - interval '3 min') p
     WHERE n > 0
    UNION ALL
    SELECT 'bad', 'refunds', n || ' refund requests are unanswered, the oldest for ' || age || ' min', 'refund-unanswered'
      FROM (SELECT count(*) AS n, (extract(epoch FROM now() - min(refund_requested_at)) / 60)::bigint AS age
              FROM payment_ledger WHERE state = 'refund_requested' AND refund_requested_at < now() - interval '1 h') u
     WHERE n > 0
    UNION ALL
    SELECT 'warn', 'redis_cleanup', n || ' clean-ups wait, the oldest for ' || age || ' s: is urr-seats running?', 'redis-cleanup'
      FROM (SELECT count(*) AS n, extract(epoch FROM now() - min(created_at))::bigint AS age FROM redis_cleanup) c
     WHERE age > 60
)
SELECT level, "check", $1 || '_db: ' || what, page FROM troubles

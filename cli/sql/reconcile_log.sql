-- The ledger against the payments of the log, which stand in the temporary table reconcile_log (kind, payment_id, amount,
-- place). $1: the log is whole; $2: when it was read.
WITH log AS (
    SELECT DISTINCT ON (kind, payment_id) kind, payment_id, amount, place FROM reconcile_log ORDER BY kind, payment_id, n
)
SELECT 'payments' AS "check", 'payment ' || g.payment_id || ' at ' || g.place,
       'in the ledger' || coalesce(' with ' || g.amount, ''),
       CASE WHEN l.payment_id IS NULL THEN 'not there: it was never applied' ELSE coalesce(l.amount::text, 'no amount') END,
       NULL::text
  FROM log g
  LEFT JOIN payment_ledger l USING (payment_id)
 WHERE g.kind = 'confirmed'
   AND (l.payment_id IS NULL OR l.amount IS DISTINCT FROM g.amount AND l.state <> 'refunded')
UNION ALL
SELECT 'payments', 'payment ' || g.payment_id || ' at ' || g.place, 'refunded', coalesce(l.state::text, 'not in the ledger'), NULL
  FROM log g
  LEFT JOIN payment_ledger l USING (payment_id)
 WHERE g.kind = 'refunded' AND l.state IS DISTINCT FROM 'refunded'
UNION ALL
SELECT 'payments', 'payment ' || l.payment_id, 'an event in the log', 'none', NULL
  FROM payment_ledger l
 WHERE $1 AND l.created_at < $2::timestamptz - interval '1 h'
   AND NOT EXISTS (SELECT FROM reconcile_log g WHERE g.payment_id = l.payment_id)
ORDER BY 1, 2

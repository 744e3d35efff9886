-- Messages that Kafka refused for good, and those that wait behind them.
SELECT outbox_id, topic::text, CASE WHEN key IS NULL THEN NULL ELSE encode(key, 'escape') END AS key,
       octet_length(value) AS bytes, failed_at, reason::text, retry_requested
FROM outbox_failed
ORDER BY outbox_id
LIMIT $1

-- Oldest first, a bounded number; rows that another instance is deleting are left to it.
DELETE FROM processed_events
WHERE ctid = ANY (ARRAY(SELECT ctid FROM processed_events
                        WHERE consumer_group = $1 AND processed_at < now() - make_interval(days => $2)
                        ORDER BY processed_at LIMIT $3 FOR UPDATE SKIP LOCKED))

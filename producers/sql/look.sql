-- Once a second: how old is the oldest row, what waits in outbox_failed, and which transactions are done.
-- $1: no row is left below it.
SELECT coalesce(extract(epoch FROM clock_timestamp() - (SELECT created_at FROM outbox WHERE id >= $1 ORDER BY id LIMIT 1)), 0)::float8
           AS oldest_seconds,
       (SELECT count(*) FROM outbox_failed) AS failed,
       (SELECT count(*) FROM outbox_failed WHERE retry_requested) AS retry,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xmin,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax

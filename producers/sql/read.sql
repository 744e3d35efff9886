-- The next rows to send, in id order, from one snapshot. $1 low-water id, $2 ids on their way to Kafka,
-- $3 topics held back, $4 are there failed rows, $5 limit. A row whose key waits in outbox_failed is
-- `blocked` (unless it came before them): it must not overtake.
SELECT o.id,
       o.topic,
       o.key,
       o.value,
       o.header_names,
       o.header_values,
       coalesce(o.timestamp_ms, 0) AS timestamp_ms,
       $4::boolean AND o.key IS NOT NULL AND EXISTS (
           SELECT FROM outbox_failed f
            WHERE f.topic = o.topic AND sha256(f.key) = sha256(o.key) AND f.outbox_id < o.id) AS blocked
  FROM outbox o
 WHERE o.id > $1
   AND o.id <> ALL ($2::bigint[])
   AND o.topic <> ALL ($3::text[])
 ORDER BY o.id
 LIMIT $5

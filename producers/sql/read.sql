-- The next rows to send, in id order, from one snapshot. $1, $2 gaps (first and last ids), $3 highest id seen,
-- $4 topics held back, $5 are there failed rows, $6 limit of rows, $7 limit of bytes (one row is always read).
-- A row whose key waits in outbox_failed is `blocked` (unless it came before them): it must not overtake.
SELECT o.id,
       o.topic,
       o.key,
       o.value,
       o.header_names,
       o.header_values,
       coalesce(o.timestamp_ms, 0) AS timestamp_ms,
       $5::boolean AND o.key IS NOT NULL AND EXISTS (
           SELECT FROM outbox_failed f
            WHERE f.topic = o.topic AND sha256(f.key) = sha256(o.key) AND f.outbox_id < o.id) AS blocked
  FROM (SELECT u.*, sum(coalesce(octet_length(u.value), 0)) OVER (ORDER BY u.id ROWS UNBOUNDED PRECEDING)
                    - coalesce(octet_length(u.value), 0) AS bytes_before
          FROM ((SELECT late.*
                   FROM unnest($1::bigint[], $2::bigint[]) AS gap (first, last)
                  CROSS JOIN LATERAL (SELECT * FROM outbox
                                       WHERE id BETWEEN gap.first AND gap.last AND topic <> ALL ($4::text[])
                                       ORDER BY id LIMIT $6) late
                  ORDER BY late.id LIMIT $6)
                UNION ALL
                (SELECT * FROM outbox WHERE id > $3 AND topic <> ALL ($4::text[]) ORDER BY id LIMIT $6)) u
         ORDER BY u.id
         LIMIT $6) o
 WHERE o.bytes_before < $7
 ORDER BY o.id

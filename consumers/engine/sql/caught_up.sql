-- At $2 the database's clock stood, before the ends were asked; all that was there then is applied.
-- Only whoever still owns the row may say so.
UPDATE consumer_offsets AS o
SET caught_up_at = $2
FROM unnest($3::text[], $4::int[], $5::bigint[], $6::bigint[]) AS b (topic, partition, next_offset, generation)
WHERE o.consumer_group = $1
  AND o.topic = b.topic
  AND o.partition = b.partition
  AND o.next_offset = b.next_offset
  AND o.generation = b.generation
  AND (o.caught_up_at IS NULL OR o.caught_up_at < $2)

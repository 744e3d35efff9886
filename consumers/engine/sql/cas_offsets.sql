-- Moves the batch's partitions on, or fewer rows than asked: somebody else, or an operator, was here.
UPDATE consumer_offsets AS o
SET next_offset = b.to_offset,
    last_offset = coalesce(b.last_offset, o.last_offset),
    last_timestamp = CASE WHEN b.last_offset IS NULL THEN o.last_timestamp ELSE b.last_timestamp END,
    last_key_hash = CASE WHEN b.last_offset IS NULL THEN o.last_key_hash ELSE b.last_key_hash END,
    updated_at = now()
FROM unnest($2::text[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
    AS b (topic, partition, from_offset, generation, to_offset, last_offset, last_timestamp, last_key_hash)
WHERE o.consumer_group = $1
  AND o.topic = b.topic
  AND o.partition = b.partition
  AND o.next_offset = b.from_offset
  AND o.generation = b.generation

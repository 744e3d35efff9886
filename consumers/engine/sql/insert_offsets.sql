-- The first row of a partition; another instance may have been quicker with the same one.
INSERT INTO consumer_offsets (consumer_group, topic, partition, next_offset)
SELECT $1, b.topic, b.partition, b.next_offset
FROM unnest($2::text[], $3::int[], $4::bigint[]) AS b (topic, partition, next_offset)
ON CONFLICT DO NOTHING

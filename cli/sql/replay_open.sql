-- The replay of a group and topic that is not finished; ranges with the place each has come to.
SELECT r.id, r.started_by::text, r.started_at, r.dead_letters, u.partition, u.from_offset, u.to_offset,
       coalesce(o.next_offset, u.from_offset) AS next_offset, coalesce(o.generation, -1) AS generation,
       r.read, r.applied, r.noop, r.duplicate, r.ignored, r.dead
FROM consumer_replays r
CROSS JOIN unnest(r.partitions, r.from_offsets, r.to_offsets) AS u (partition, from_offset, to_offset)
LEFT JOIN consumer_offsets o
       ON o.consumer_group = 'replay:' || r.id AND o.topic = r.topic AND o.partition = u.partition
WHERE r.consumer_group = $1 AND r.topic = $2 AND r.ended_at IS NULL
ORDER BY u.partition

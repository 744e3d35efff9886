-- A new replay and the rows of its places. Fails on consumer_replays_one_at_a_time where one is open.
WITH new AS (
    INSERT INTO consumer_replays (consumer_group, topic, partitions, from_offsets, to_offsets, dead_letters, started_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    RETURNING *
), places AS (
    INSERT INTO consumer_offsets (consumer_group, topic, partition, next_offset)
    SELECT 'replay:' || n.id, n.topic, u.partition, u.from_offset
      FROM new n CROSS JOIN unnest(n.partitions, n.from_offsets) AS u (partition, from_offset)
)
SELECT id FROM new

-- Where a group stands by the database's word.
SELECT topic::text, partition, next_offset, generation, last_timestamp, caught_up_at, updated_at, now() AS now
FROM consumer_offsets
WHERE consumer_group = $1
ORDER BY topic, partition

-- Where a group stands, and the time of the database that says so.
SELECT topic::text, partition, next_offset, generation, last_offset, last_timestamp, last_key_hash
FROM consumer_offsets
WHERE consumer_group = $1
ORDER BY topic, partition

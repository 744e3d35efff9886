-- Goes on behind a recorded gap; fenced like a batch.
UPDATE consumer_offsets
SET next_offset = $5, updated_at = now()
WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND next_offset = $4 AND generation = $6

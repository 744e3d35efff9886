-- Ends it, done or abandoned, and removes the rows of its places.
WITH places AS (
    DELETE FROM consumer_offsets WHERE consumer_group = 'replay:' || $1::bigint
)
UPDATE consumer_replays SET ended_at = now(), outcome = $2
WHERE id = $1 AND ended_at IS NULL
RETURNING read, applied, noop, duplicate, ignored, dead

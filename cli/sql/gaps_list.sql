-- Ranges that left the log unread; $1: of one group, null: all. $2: accepted ones too.
SELECT id, consumer_group::text, topic::text, partition, from_offset, to_offset, found_at,
       accepted_at, accepted_by::text, note::text
FROM consumer_gaps
WHERE ($1::text IS NULL OR consumer_group = $1) AND ($2::bool OR accepted_at IS NULL)
ORDER BY id

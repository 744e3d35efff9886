-- What was done about letters of one group.
SELECT topic::text, partition, source_offset, state::text, marked_by::text,
       to_char(marked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS marked_at
  FROM dead_letter_marks
 WHERE consumer_group = $1

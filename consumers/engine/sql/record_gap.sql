-- What left the log unread. Says whether an operator has accepted a loss that covers it.
WITH recorded AS (
    INSERT INTO consumer_gaps (consumer_group, topic, partition, from_offset, to_offset)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT DO NOTHING
    RETURNING id)
SELECT EXISTS (SELECT FROM consumer_gaps
               WHERE consumer_group = $1 AND topic = $2 AND partition = $3
                 AND from_offset <= $4 AND to_offset >= $5 AND accepted_at IS NOT NULL) AS accepted,
       EXISTS (SELECT FROM recorded) AS fresh

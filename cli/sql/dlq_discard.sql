-- Letters nobody will redrive; the record itself stays in Kafka.
WITH marked AS (
    INSERT INTO dead_letter_marks (consumer_group, topic, partition, source_offset, state, attempts, marked_by, note)
    SELECT $1, l.topic, l.partition, l.source_offset, 'discarded', l.attempts, $6, $7
      FROM unnest($2::text[], $3::int[], $4::bigint[], $5::int[]) AS l (topic, partition, source_offset, attempts)
     ORDER BY l.topic, l.partition, l.source_offset
        ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM marked

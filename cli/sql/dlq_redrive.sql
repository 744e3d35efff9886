-- Marks letters and puts those that nobody marked before into the outbox, in one step: a letter leaves once.
-- Headers come flat, numbered by letter. A letter without a message (sends = false) went with another group's.
WITH letters AS (
    SELECT *
      FROM unnest($2::int[], $3::text[], $4::int[], $5::bigint[], $6::boolean[], $7::bytea[], $8::bytea[], $9::bigint[],
                  $10::int[])
           AS l (number, topic, partition, source_offset, sends, key, value, timestamp_ms, attempts)
), marked AS (
    INSERT INTO dead_letter_marks AS m (consumer_group, topic, partition, source_offset, state, attempts, marked_by)
    SELECT $1, l.topic, l.partition, l.source_offset, 'redriven', l.attempts, $14
      FROM letters l
     ORDER BY l.topic, l.partition, l.source_offset
        ON CONFLICT (consumer_group, topic, partition, source_offset) DO UPDATE
       SET state = 'redriven', marked_by = excluded.marked_by, marked_at = now()
     WHERE m.state = 'discarded'
    RETURNING topic, partition, source_offset
), sent AS (
    INSERT INTO outbox (topic, key, value, timestamp_ms, header_names, header_values)
    SELECT l.topic, l.key, l.value, l.timestamp_ms, h.names, h.vals
      FROM letters l
      JOIN marked USING (topic, partition, source_offset)
      JOIN (SELECT number, array_agg(name ORDER BY position) AS names, array_agg(value ORDER BY position) AS vals
              FROM unnest($11::int[], $12::text[], $13::bytea[]) WITH ORDINALITY AS f (number, name, value, position)
             GROUP BY number) AS h USING (number)
     WHERE l.sends
     ORDER BY l.number
    RETURNING 1
)
SELECT (SELECT count(*) FROM marked) AS marked, (SELECT count(*) FROM sent) AS sent

-- Moves a group's places. A row must have the generation that was looked at (-1: there was none). What is
-- known of the last applied record goes: the new place may be in a topic made anew. Nothing counts as caught
-- up until it is read again.
WITH asked AS (
    SELECT * FROM unnest($2::text[], $3::int[], $4::bigint[], $5::bigint[])
        AS a (topic, partition, next_offset, generation)
), old AS (
    SELECT o.topic, o.partition, o.next_offset, o.generation
      FROM consumer_offsets o JOIN asked a USING (topic, partition)
     WHERE o.consumer_group = $1
     ORDER BY o.topic, o.partition
       FOR UPDATE OF o
), done AS (
    INSERT INTO consumer_offsets AS o (consumer_group, topic, partition, next_offset)
    SELECT $1, a.topic, a.partition, a.next_offset FROM asked a ORDER BY a.topic, a.partition
    ON CONFLICT (consumer_group, topic, partition) DO UPDATE
    SET next_offset = excluded.next_offset, generation = o.generation + 1, last_offset = NULL,
        last_timestamp = NULL, last_key_hash = NULL, caught_up_at = NULL, updated_at = now()
    WHERE o.generation = (SELECT a.generation FROM asked a
                           WHERE a.topic = o.topic AND a.partition = o.partition)
    RETURNING o.topic, o.partition, o.next_offset, o.generation
)
SELECT $1 || ' ' || d.topic || '[' || d.partition || ']' AS target,
       jsonb_build_object('next_offset', old.next_offset, 'generation', old.generation)::text AS before,
       jsonb_build_object('next_offset', d.next_offset, 'generation', d.generation)::text AS after
  FROM done d LEFT JOIN old USING (topic, partition)
 ORDER BY d.topic, d.partition

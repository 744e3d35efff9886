-- Dead letters leave through the outbox, in the order of the batch. Headers come flat, numbered by letter.
INSERT INTO outbox (topic, key, value, timestamp_ms, header_names, header_values)
SELECT d.topic, d.key, d.value, d.timestamp_ms, h.names, h.vals
FROM unnest($1::int[], $2::text[], $3::bytea[], $4::bytea[], $5::bigint[])
         AS d (number, topic, key, value, timestamp_ms)
JOIN (SELECT number, array_agg(name ORDER BY position) AS names, array_agg(value ORDER BY position) AS vals
      FROM unnest($6::int[], $7::text[], $8::bytea[]) WITH ORDINALITY AS f (number, name, value, position)
      GROUP BY number) AS h USING (number)
ORDER BY d.number

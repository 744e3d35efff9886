-- What Kafka has acknowledged. $1, $2 first and last ids of runs in which every id was delivered.
DELETE FROM outbox o
 USING unnest($1::bigint[], $2::bigint[]) AS run (first, last)
 WHERE o.id BETWEEN run.first AND run.last

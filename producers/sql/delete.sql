-- What Kafka has acknowledged. $1 ids.
DELETE FROM outbox WHERE id = ANY ($1::bigint[])

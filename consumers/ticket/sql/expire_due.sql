-- One step of the sweeper; the age is null while a partition was never caught up.
SELECT extract(epoch FROM now() - caught_up_at)::float8 AS age, looked_at, expired
FROM ticket_expire_due($1, $2, $3, $4)

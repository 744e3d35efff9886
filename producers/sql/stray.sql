-- Rows at or below $1, where none is expected any more. $2 limit.
SELECT id FROM outbox WHERE id <= $1 ORDER BY id LIMIT $2

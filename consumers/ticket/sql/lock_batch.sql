-- Locks what the batch may touch; answers which events must not share a call.
SELECT ord, conflict_key FROM ticket_lock_batch($1, $2, $3, $4, $5, $6)

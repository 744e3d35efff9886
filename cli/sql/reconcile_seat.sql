-- What PostgreSQL, the judge, says about a seat that Redis shows as locked.
SELECT status::text, coalesce(locked_by, '')::text, fencing_token, coalesce(locked_until < now(), false)
  FROM seats WHERE id::text = $1

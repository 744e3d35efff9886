-- What this transaction came to, counted in it.
UPDATE consumer_replays
SET read = read + $2, applied = applied + $3, noop = noop + $4, duplicate = duplicate + $5,
    ignored = ignored + $6, dead = dead + $7
WHERE id = $1

-- Says that the leader is still there.
SELECT 1

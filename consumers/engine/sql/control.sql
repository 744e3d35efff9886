-- The database's clock, and whether the group may run.
SELECT now() AS now, coalesce(c.paused, false) AS paused, c.reason::text, c.detail::text
FROM (SELECT) AS always
LEFT JOIN consumer_control AS c ON c.consumer_group = $1

-- Is the group paused, by whom and why?
SELECT paused, reason::text, detail::text, changed_by::text, changed_at, brake_released_until
FROM consumer_control
WHERE consumer_group = $1

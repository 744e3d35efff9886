-- Troubles of a database with consumers: (level, check, what, page), texts. $1: which database.
WITH troubles (level, "check", what, page) AS (
    SELECT 'bad', 'gaps', consumer_group || ' lost ' || topic || '[' || partition || '] ' || from_offset || ' to ' || to_offset
           || ' (found ' || to_char(found_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"') || ')', 'the-consumer-stopped-with-a-gap'
      FROM consumer_gaps WHERE accepted_at IS NULL
    UNION ALL
    SELECT 'bad', CASE reason WHEN 'refund_brake' THEN 'brake' ELSE 'paused' END,
           consumer_group || ' is paused: ' || reason || coalesce(': ' || detail, '') || ' (by ' || changed_by || ')',
           CASE reason WHEN 'refund_brake' THEN 'refund-brake' ELSE 'consumer-paused' END
      FROM consumer_control WHERE paused
    UNION ALL
    SELECT 'warn', 'brake', consumer_group || ': the refund brake is released until '
           || to_char(brake_released_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'refund-brake'
      FROM consumer_control WHERE brake_released_until > now()
    UNION ALL
    SELECT CASE WHEN age > interval '5 min' THEN 'bad' ELSE 'warn' END, 'caught up',
           consumer_group || ' last caught up ' || coalesce(extract(epoch FROM age)::bigint || ' s ago', 'never'), 'consumer-lag'
      FROM (SELECT consumer_group, CASE WHEN count(*) = count(caught_up_at) THEN now() - min(caught_up_at) END AS age
              FROM consumer_offsets WHERE consumer_group NOT LIKE 'replay:%' GROUP BY consumer_group) g
     WHERE age IS NULL OR age > interval '30 s'
)
SELECT level, "check", $1 || '_db: ' || what, page FROM troubles

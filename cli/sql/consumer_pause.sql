-- Pauses a group; no row where it is paused already.
WITH old AS (
    SELECT * FROM consumer_control WHERE consumer_group = $1 FOR UPDATE
), done AS (
    INSERT INTO consumer_control AS c (consumer_group, paused, reason, detail, changed_by)
    VALUES ($1, true, 'operator', $2, $3)
    ON CONFLICT (consumer_group) DO UPDATE
    SET paused = true, reason = 'operator', detail = excluded.detail, changed_by = excluded.changed_by, changed_at = now()
    WHERE NOT c.paused
    RETURNING c.*
)
SELECT d.consumer_group::text AS target,
       jsonb_build_object('paused', coalesce(o.paused, false))::text AS before,
       jsonb_build_object('paused', d.paused, 'reason', d.reason, 'detail', d.detail)::text AS after
  FROM done d LEFT JOIN old o USING (consumer_group)

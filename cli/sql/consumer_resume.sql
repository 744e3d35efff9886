-- Lets a paused group run again. $3: minutes for which its brake lets everything pass; null: it stays on.
WITH old AS (
    SELECT * FROM consumer_control WHERE consumer_group = $1 AND paused FOR UPDATE
), done AS (
    UPDATE consumer_control c
       SET paused = false, reason = NULL, detail = NULL, changed_by = $2, changed_at = now(),
           brake_released_until = coalesce(now() + $3 * interval '1 min', c.brake_released_until)
      FROM old
     WHERE c.consumer_group = old.consumer_group
    RETURNING c.*
)
SELECT d.consumer_group::text AS target,
       jsonb_build_object('paused', o.paused, 'reason', o.reason, 'detail', o.detail, 'by', o.changed_by)::text AS before,
       jsonb_strip_nulls(jsonb_build_object('paused', d.paused, 'brake_released_minutes', $3::int))::text AS after
  FROM done d JOIN old o USING (consumer_group)

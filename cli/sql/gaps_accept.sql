-- An operator accepts the loss: the group goes on behind it. $2: one gap; null: all of the group.
WITH done AS (
    UPDATE consumer_gaps
       SET accepted_at = now(), accepted_by = $3, note = $4
     WHERE consumer_group = $1 AND ($2::bigint IS NULL OR id = $2) AND accepted_at IS NULL
    RETURNING *
)
SELECT 'gap ' || id || ' of ' || consumer_group || ' ' || topic || '[' || partition || ']' AS target,
       jsonb_build_object('from_offset', from_offset, 'to_offset', to_offset, 'records', to_offset - from_offset,
                          'accepted', false)::text AS before,
       jsonb_build_object('accepted', true, 'note', note)::text AS after
  FROM done ORDER BY id

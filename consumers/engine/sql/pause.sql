-- The brake: every instance of the group obeys within a second.
INSERT INTO consumer_control (consumer_group, paused, reason, detail, changed_by, changed_at)
VALUES ($1, true, $2, $3, $4, now())
ON CONFLICT (consumer_group) DO UPDATE
SET paused = true, reason = excluded.reason, detail = excluded.detail,
    changed_by = excluded.changed_by, changed_at = now()
WHERE NOT consumer_control.paused

-- A dead-lettered event leaves no row, or its redrive would do nothing.
DELETE FROM processed_events WHERE consumer_group = $1 AND event_key = ANY ($2::text[])

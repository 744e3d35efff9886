SELECT date::text, event_id, figure, live, rebuilt FROM stats_rebuild_compare($1)

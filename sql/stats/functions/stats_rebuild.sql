-- Rebuilding the figures from the log (urrctl stats rebuild). The new generation has its own place in the
-- log and its own dedupe keys, both under the group replay:stats-gen-N; the live consumer knows nothing of it.

CREATE OR REPLACE FUNCTION stats_rebuild_group(p_generation integer)
RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'replay:stats-gen-' || p_generation $$;
COMMENT ON FUNCTION stats_rebuild_group IS 'The group under which a generation''s offsets and keys stand while it is built.';

-- Makes the next generation, or finds the one being built. p_cut_ms: the log is whole only after the day of this moment.
CREATE OR REPLACE FUNCTION stats_rebuild_begin(p_by text, p_time_zone text, p_cut_ms bigint, p_group text)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_generation integer;
BEGIN
    SELECT generation INTO v_generation FROM stats_generations WHERE state = 'building';
    IF FOUND THEN
        RETURN v_generation;
    END IF;
    INSERT INTO stats_generations (generation, state, note)
    SELECT max(generation) + 1, 'building', 'rebuilt by ' || p_by FROM stats_generations
    RETURNING generation INTO v_generation;
    INSERT INTO stats_rebuilds (generation, time_zone, copied_through, started_by)
    VALUES (v_generation, p_time_zone, (to_timestamp(p_cut_ms / 1000.0) AT TIME ZONE p_time_zone)::date, p_by);
    RETURN v_generation;
END $$;
COMMENT ON FUNCTION stats_rebuild_begin IS 'Starts or resumes a rebuild; returns its generation.';

-- One batch: moves the place, claims the keys, adds what is fresh. Days that are copied are not added.
CREATE OR REPLACE FUNCTION stats_rebuild_apply(
    p_generation integer, p_group text,
    p_topic text[], p_partition integer[], p_from bigint[], p_to bigint[],
    p_key text[], p_type text[], p_time_ms bigint[], p_event_id text[], p_amount bigint[], p_detail text[]
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_group text := stats_rebuild_group(p_generation);
    v_plan  stats_rebuilds;
    v_moved bigint;
    v_fresh bigint;
    v_prune bigint;
    a_type text[]; a_time bigint[]; a_event text[]; a_amount bigint[]; a_detail text[];
BEGIN
    INSERT INTO consumer_offsets AS o (consumer_group, topic, partition, next_offset)
    SELECT v_group, m.topic, m.partition, m.to_offset
      FROM unnest(p_topic, p_partition, p_from, p_to) AS m (topic, partition, from_offset, to_offset)
     ORDER BY 1, 2, 3
        ON CONFLICT (consumer_group, topic, partition) DO UPDATE
       SET next_offset = excluded.next_offset, updated_at = now()
     WHERE o.next_offset = (SELECT f.from_offset FROM unnest(p_topic, p_partition, p_from) AS f (topic, partition, from_offset)
                             WHERE f.topic = o.topic AND f.partition = o.partition);
    GET DIAGNOSTICS v_moved = ROW_COUNT;
    IF v_moved <> cardinality(p_topic) THEN
        RAISE EXCEPTION 'the place of generation % has moved: somebody else rebuilds it', p_generation;
    END IF;
    SELECT * INTO STRICT v_plan FROM stats_rebuilds WHERE generation = p_generation;
    SELECT coalesce(floor(extract(epoch FROM pruned_before) * 1000), 0)::bigint INTO v_prune
      FROM stats_generations WHERE state = 'live';
    WITH batch AS (
        SELECT DISTINCT ON (key) *
          FROM unnest(p_key, p_type, p_time_ms, p_event_id, p_amount, p_detail)
               WITH ORDINALITY AS b (key, type, time_ms, event_id, amount, detail, n)
         ORDER BY key, n
    ), claimed AS (
        INSERT INTO processed_events (consumer_group, event_key)
        SELECT v_group, key FROM batch ORDER BY key COLLATE "C"
            ON CONFLICT DO NOTHING
        RETURNING event_key
    ), fresh AS (
        SELECT b.* FROM batch b JOIN claimed c ON c.event_key = b.key
    ), unknown AS (
        INSERT INTO stats_rebuild_keys (generation, event_key)
        SELECT p_generation, key FROM fresh
         WHERE (type LIKE 'PAYMENT_%' OR time_ms >= v_prune)
           AND NOT EXISTS (SELECT FROM processed_events l WHERE l.consumer_group = p_group AND l.event_key = fresh.key)
            ON CONFLICT DO NOTHING
    ), counted AS (
        SELECT * FROM fresh
         WHERE v_plan.copied_through IS NULL
            OR (to_timestamp(time_ms / 1000.0) AT TIME ZONE v_plan.time_zone)::date > v_plan.copied_through
    )
    SELECT (SELECT count(*) FROM fresh), array_agg(type), array_agg(time_ms), array_agg(event_id), array_agg(amount),
           array_agg(detail)
      INTO v_fresh, a_type, a_time, a_event, a_amount, a_detail
      FROM counted;
    IF a_type IS NOT NULL THEN
        PERFORM stats_apply(p_generation, v_plan.time_zone, a_type, a_time, a_event, a_amount, a_detail);
    END IF;
    RETURN v_fresh;
END $$;
COMMENT ON FUNCTION stats_rebuild_apply IS 'Adds a batch of the log to the generation being built; returns how many events were new to it.';

-- Where both stand. With p_lock the live rows are held until the transaction ends: the live consumer waits.
CREATE OR REPLACE FUNCTION stats_rebuild_places(p_generation integer, p_group text, p_lock boolean)
RETURNS TABLE (topic text, partition integer, live_next bigint, rebuilt_next bigint)
LANGUAGE plpgsql AS $$
BEGIN
    IF p_lock THEN
        PERFORM 1 FROM consumer_offsets o WHERE o.consumer_group = p_group ORDER BY o.topic, o.partition FOR UPDATE;
    END IF;
    RETURN QUERY
    SELECT l.topic::text, l.partition, l.next_offset, r.next_offset
      FROM consumer_offsets l
      LEFT JOIN consumer_offsets r ON r.consumer_group = stats_rebuild_group(p_generation)
                                  AND r.topic = l.topic AND r.partition = l.partition
     WHERE l.consumer_group = p_group
     ORDER BY 1, 2;
END $$;
COMMENT ON FUNCTION stats_rebuild_places IS 'Offsets of the live group and of the generation being built.';

-- Days that are not wholly in the log, from the live generation, as they are now.
CREATE OR REPLACE FUNCTION stats_rebuild_copy(p_generation integer)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_plan stats_rebuilds;
    v_live integer;
BEGIN
    SELECT * INTO STRICT v_plan FROM stats_rebuilds WHERE generation = p_generation;
    SELECT generation INTO STRICT v_live FROM stats_generations WHERE state = 'live';
    IF v_plan.copied_through IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM daily_stats_gen WHERE generation = p_generation AND date <= v_plan.copied_through;
    DELETE FROM event_daily_stats_gen WHERE generation = p_generation AND date <= v_plan.copied_through;
    DELETE FROM hourly_stats_gen
     WHERE generation = p_generation AND (hour AT TIME ZONE v_plan.time_zone)::date <= v_plan.copied_through;
    INSERT INTO daily_stats_gen
    SELECT (jsonb_populate_record(d, jsonb_build_object('generation', p_generation))).*
      FROM daily_stats_gen d WHERE d.generation = v_live AND d.date <= v_plan.copied_through;
    INSERT INTO event_daily_stats_gen
    SELECT (jsonb_populate_record(d, jsonb_build_object('generation', p_generation))).*
      FROM event_daily_stats_gen d WHERE d.generation = v_live AND d.date <= v_plan.copied_through;
    INSERT INTO hourly_stats_gen
    SELECT (jsonb_populate_record(h, jsonb_build_object('generation', p_generation))).*
      FROM hourly_stats_gen h
     WHERE h.generation = v_live AND (h.hour AT TIME ZONE v_plan.time_zone)::date <= v_plan.copied_through;
END $$;
COMMENT ON FUNCTION stats_rebuild_copy IS 'Copies the days the log no longer holds.';

-- Every figure that differs between the live generation and another one, by day and event.
CREATE OR REPLACE FUNCTION stats_rebuild_compare(p_generation integer)
RETURNS TABLE (date date, event_id text, figure text, live bigint, rebuilt bigint)
LANGUAGE sql STABLE AS $$
    WITH live AS (SELECT generation FROM stats_generations WHERE state = 'live'),
    figures AS (
        SELECT d.generation, d.date, NULL::text AS event_id, f.key AS figure, f.value::bigint AS value
          FROM daily_stats_gen d, jsonb_each_text(to_jsonb(d) - '{generation,date,updated_at}'::text[]) f
         WHERE d.generation IN (p_generation, (SELECT generation FROM live))
        UNION ALL
        SELECT d.generation, d.date, d.event_id, f.key, f.value::bigint
          FROM event_daily_stats_gen d, jsonb_each_text(to_jsonb(d) - '{generation,date,event_id,updated_at}'::text[]) f
         WHERE d.generation IN (p_generation, (SELECT generation FROM live))
        UNION ALL
        SELECT h.generation, (h.hour AT TIME ZONE 'UTC')::date, 'hour ' || to_char(h.hour AT TIME ZONE 'UTC', 'HH24:MI "UTC"'),
               f.key, f.value::bigint
          FROM hourly_stats_gen h, jsonb_each_text(to_jsonb(h) - '{generation,hour,updated_at}'::text[]) f
         WHERE h.generation IN (p_generation, (SELECT generation FROM live))
    )
    SELECT date, event_id, figure,
           coalesce(sum(value) FILTER (WHERE generation <> p_generation), 0)::bigint,
           coalesce(sum(value) FILTER (WHERE generation = p_generation), 0)::bigint
      FROM figures
     GROUP BY date, event_id, figure
    HAVING coalesce(sum(value) FILTER (WHERE generation <> p_generation), 0)
        <> coalesce(sum(value) FILTER (WHERE generation = p_generation), 0)
     ORDER BY date, event_id NULLS FIRST, figure
$$;
COMMENT ON FUNCTION stats_rebuild_compare IS 'What a switch would change.';

-- The switch. The caller holds the live offsets (stats_rebuild_places) and has caught up with them.
CREATE OR REPLACE FUNCTION stats_rebuild_switch(p_generation integer, p_group text)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_old stats_generations;
BEGIN
    IF EXISTS (SELECT FROM stats_rebuild_places(p_generation, p_group, false) p
                WHERE p.rebuilt_next IS NULL OR p.rebuilt_next < p.live_next) THEN
        RAISE EXCEPTION 'generation % has not caught up with the live one', p_generation;
    END IF;
    SELECT * INTO STRICT v_old FROM stats_generations WHERE state = 'live' FOR UPDATE;
    PERFORM stats_rebuild_copy(p_generation);
    UPDATE stats_generations SET state = 'retired' WHERE generation = v_old.generation;
    UPDATE stats_generations SET state = 'live', live_at = now(), pruned_before = v_old.pruned_before
     WHERE generation = p_generation AND state = 'building';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'generation % is not being built', p_generation;
    END IF;
    INSERT INTO processed_events (consumer_group, event_key)
    SELECT p_group, event_key FROM stats_rebuild_keys WHERE generation = p_generation ORDER BY event_key
        ON CONFLICT DO NOTHING;
    DELETE FROM consumer_offsets WHERE consumer_group = stats_rebuild_group(p_generation);
END $$;
COMMENT ON FUNCTION stats_rebuild_switch IS 'Makes the built generation the live one; all or nothing.';

CREATE OR REPLACE FUNCTION stats_rebuild_abort(p_generation integer, p_by text)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stats_generations SET state = 'retired', note = 'given up by ' || p_by
     WHERE generation = p_generation AND state = 'building';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'generation % is not being built', p_generation;
    END IF;
    DELETE FROM consumer_offsets WHERE consumer_group = stats_rebuild_group(p_generation);
END $$;
COMMENT ON FUNCTION stats_rebuild_abort IS 'Gives a rebuild up; what it filled is cleaned away.';

-- Deletes up to p_limit rows that no generation needs any more; 0: nothing is left. The generation that was live
-- before this one is kept, to look back.
CREATE OR REPLACE FUNCTION stats_rebuild_clean(p_limit integer)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_gone integer[];
    v_count bigint;
    v_sum bigint := 0;
BEGIN
    DELETE FROM processed_events p
     USING (SELECT e.consumer_group, e.event_key FROM processed_events e
             WHERE e.consumer_group IN (SELECT stats_rebuild_group(generation) FROM stats_generations WHERE state <> 'building')
             LIMIT p_limit) old
     WHERE p.consumer_group = old.consumer_group AND p.event_key = old.event_key;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_sum := v_sum + v_count;
    DELETE FROM stats_rebuild_keys k
     USING (SELECT s.generation, s.event_key FROM stats_rebuild_keys s
              JOIN stats_generations g ON g.generation = s.generation AND g.state <> 'building'
             LIMIT p_limit) old
     WHERE k.generation = old.generation AND k.event_key = old.event_key;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_sum := v_sum + v_count;
    SELECT array_agg(generation) INTO v_gone
      FROM stats_generations
     WHERE state = 'retired'
       AND generation IS DISTINCT FROM (SELECT max(generation) FROM stats_generations WHERE state = 'retired' AND live_at IS NOT NULL);
    DELETE FROM daily_stats_gen WHERE generation = ANY (v_gone);
    DELETE FROM hourly_stats_gen WHERE generation = ANY (v_gone);
    DELETE FROM event_daily_stats_gen d
     USING (SELECT e.generation, e.date, e.event_id FROM event_daily_stats_gen e
             WHERE e.generation = ANY (v_gone) LIMIT p_limit) old
     WHERE d.generation = old.generation AND d.date = old.date AND d.event_id = old.event_id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_sum + v_count;
END $$;
COMMENT ON FUNCTION stats_rebuild_clean IS 'Cleans away what rebuilds and old generations left.';

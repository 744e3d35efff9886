-- Forgetting dedupe keys (SPEC 2): never those of payments, and only below stats_generations.pruned_before,
-- which moves first and in a transaction of its own. A batch holds the generation's row (FOR SHARE) from
-- before its additions to its commit, so that it either sees the new bound or still finds the keys.

CREATE OR REPLACE FUNCTION stats_live_generation()
RETURNS TABLE (generation integer, pruned_before_ms bigint)
LANGUAGE sql AS $$
    SELECT g.generation, coalesce(floor(extract(epoch FROM g.pruned_before) * 1000), 0)::bigint
      FROM stats_generations g
     WHERE g.state = 'live'
       FOR SHARE
$$;
COMMENT ON FUNCTION stats_live_generation IS 'The live generation, held still until the transaction ends.';

-- Moves the bound, by a day at least, so that a pass is worth its while. True when it moved.
CREATE OR REPLACE FUNCTION stats_prune_begin(p_before timestamptz)
RETURNS boolean
LANGUAGE sql AS $$
    WITH moved AS (
        UPDATE stats_generations
           SET pruned_before = p_before
         WHERE state = 'live'
           AND (pruned_before IS NULL OR pruned_before < p_before - interval '1 day')
        RETURNING 1
    )
    SELECT EXISTS (SELECT 1 FROM moved)
$$;
COMMENT ON FUNCTION stats_prune_begin IS 'First step of a prune: says from when on keys are kept.';

-- Looks at up to p_limit keys after p_after and deletes the old ones. Returns the key to go on after, null at
-- the end. One instance at a time; another one is told that there is nothing to do. A key ends with the
-- event's time in milliseconds; payments are jumped over, not read.
CREATE OR REPLACE FUNCTION stats_prune_step(p_group text, p_after text, p_limit integer)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_before bigint;
    v_from   text := p_after;
    v_to     text := 'PAYMENT_';
    v_last   text;
    v_seen   bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('stats_prune ' || p_group)) THEN
        RETURN NULL;
    END IF;
    SELECT floor(extract(epoch FROM pruned_before) * 1000)::bigint INTO v_before
      FROM stats_generations WHERE state = 'live';
    IF v_before IS NULL THEN
        RETURN NULL;
    END IF;
    IF v_from COLLATE "C" >= 'PAYMENT_' THEN
        v_from := greatest(v_from COLLATE "C", 'PAYMENT`');
        v_to := '~';
    END IF;
    WITH looked AS MATERIALIZED (
        SELECT event_key FROM processed_events
         WHERE consumer_group = p_group AND event_key > v_from AND event_key < v_to
         ORDER BY event_key LIMIT p_limit
    ), gone AS (
        DELETE FROM processed_events p
         USING looked l
         WHERE p.consumer_group = p_group AND p.event_key = l.event_key
           AND split_part(l.event_key, ':', -1)::bigint < v_before
    )
    SELECT max(event_key), count(*) INTO v_last, v_seen FROM looked;
    IF v_seen = p_limit THEN
        RETURN v_last;
    END IF;
    RETURN CASE WHEN v_to = 'PAYMENT_' THEN 'PAYMENT`' END;
END $$;
COMMENT ON FUNCTION stats_prune_step IS 'Deletes old dedupe keys, a bounded number per call.';

-- A rebuild in progress: generation N+1 is filled from the log beside the live one.

CREATE TABLE stats_rebuilds (
    generation     integer      PRIMARY KEY REFERENCES stats_generations,
    time_zone      text         NOT NULL,
    copied_through date,
    started_by     varchar(128) NOT NULL,
    started_at     timestamptz  NOT NULL DEFAULT now()
);
COMMENT ON TABLE stats_rebuilds IS 'How a rebuilt generation is made; its place in the log is in consumer_offsets, group replay:stats-gen-N.';
COMMENT ON COLUMN stats_rebuilds.copied_through IS
    'Days up to here are not wholly in the log any more: they are copied from the live generation at the switch. Null: the log is whole.';

CREATE TABLE stats_rebuild_keys (
    generation integer      NOT NULL REFERENCES stats_generations,
    event_key  varchar(255) COLLATE "C" NOT NULL,
    PRIMARY KEY (generation, event_key)
);
COMMENT ON TABLE stats_rebuild_keys IS
    'Events the rebuild counted and the live group has no key of: they get one at the switch, so that nothing counts them again.';

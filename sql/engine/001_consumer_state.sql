-- What the consumer engine keeps in the database it writes to: place in the log, what was seen,
-- what was lost, and whether it may run. Ids compare as bytes (COLLATE "C"), so that the order in
-- which C code sorts them is the order in which rows are locked.

CREATE TABLE processed_events (
    event_key      varchar(255) COLLATE "C" NOT NULL,
    consumer_group varchar(100) COLLATE "C" NOT NULL,
    processed_at   timestamptz  NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, event_key)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);
CREATE INDEX processed_events_age ON processed_events (consumer_group, processed_at);
COMMENT ON TABLE processed_events IS
    'One row per event that took effect, written in the transaction of the effect. A dead-lettered event has none, so that a redrive is heard.';

CREATE TABLE consumer_offsets (
    consumer_group varchar(100) COLLATE "C" NOT NULL,
    topic          varchar(249) COLLATE "C" NOT NULL,
    partition      integer      NOT NULL CHECK (partition >= 0),
    next_offset    bigint       NOT NULL CHECK (next_offset >= 0),
    generation     bigint       NOT NULL DEFAULT 0,
    last_offset    bigint       CHECK (last_offset >= 0),
    last_timestamp bigint,
    last_key_hash  bigint,
    caught_up_at   timestamptz,
    updated_at     timestamptz  NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, topic, partition)
) WITH (fillfactor = 25);
COMMENT ON TABLE consumer_offsets IS
    'The authority on how far a group has come. Moved by compare-and-swap in the transaction of the batch; Kafka''s own commit is only for lag tools.';
COMMENT ON COLUMN consumer_offsets.next_offset IS 'The first offset not yet applied.';
COMMENT ON COLUMN consumer_offsets.generation IS
    'Raised when an operator moves the offset: the running consumer re-seeks.';
COMMENT ON COLUMN consumer_offsets.last_offset IS
    'Offset of the last applied record. With its time and key hash it proves that the topic is still the same one.';
COMMENT ON COLUMN consumer_offsets.last_timestamp IS 'Record timestamp of last_offset, UTC ms.';
COMMENT ON COLUMN consumer_offsets.last_key_hash IS 'Hash of the key of last_offset.';
COMMENT ON COLUMN consumer_offsets.caught_up_at IS
    'Database time at which everything then in the partition was applied. Holds expire by it, never by the clock alone.';

CREATE TABLE consumer_gaps (
    id             bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer_group varchar(100) COLLATE "C" NOT NULL,
    topic          varchar(249) COLLATE "C" NOT NULL,
    partition      integer      NOT NULL CHECK (partition >= 0),
    from_offset    bigint       NOT NULL CHECK (from_offset >= 0),
    to_offset      bigint       NOT NULL,
    found_at       timestamptz  NOT NULL DEFAULT now(),
    accepted_at    timestamptz,
    accepted_by    varchar(128),
    note           text,
    CONSTRAINT consumer_gaps_once UNIQUE (consumer_group, topic, partition, from_offset, to_offset),
    CONSTRAINT consumer_gaps_not_empty CHECK (to_offset > from_offset),
    CONSTRAINT consumer_gaps_accepted_by_somebody CHECK ((accepted_at IS NULL) = (accepted_by IS NULL))
);
COMMENT ON TABLE consumer_gaps IS
    'Ranges [from_offset, to_offset) that left the log before the group read them. Open until an operator accepts the loss.';

CREATE TABLE consumer_control (
    consumer_group       varchar(100) COLLATE "C" PRIMARY KEY,
    paused               boolean      NOT NULL DEFAULT false,
    reason               text,
    detail               text,
    changed_by           varchar(128) NOT NULL,
    changed_at           timestamptz  NOT NULL DEFAULT now(),
    brake_released_until timestamptz,
    CONSTRAINT consumer_control_pause_has_a_reason CHECK (NOT paused OR reason IS NOT NULL)
);
COMMENT ON TABLE consumer_control IS
    'One row per group that was ever paused. All instances obey it within a second; no row means run.';
COMMENT ON COLUMN consumer_control.reason IS 'Short code, e.g. operator, refund_brake, gap.';
COMMENT ON COLUMN consumer_control.brake_released_until IS
    'Until then the refund brake lets everything pass: an operator has looked and the refunds are right.';

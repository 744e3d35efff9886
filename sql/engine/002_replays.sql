-- Second readers: ranges of a topic that are read again beside the running group. Their places stand in
-- consumer_offsets under 'replay:<id>' and move in the transactions of the effects, like a group's own.

CREATE TABLE consumer_replays (
    id             bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer_group varchar(100) COLLATE "C" NOT NULL,
    topic          varchar(249) COLLATE "C" NOT NULL,
    partitions     integer[]    NOT NULL,
    from_offsets   bigint[]     NOT NULL,
    to_offsets     bigint[]     NOT NULL,
    dead_letters   boolean      NOT NULL,
    started_by     varchar(128) NOT NULL,
    started_at     timestamptz  NOT NULL DEFAULT now(),
    ended_at       timestamptz,
    outcome        varchar(10),
    read           bigint       NOT NULL DEFAULT 0,
    applied        bigint       NOT NULL DEFAULT 0,
    noop           bigint       NOT NULL DEFAULT 0,
    duplicate      bigint       NOT NULL DEFAULT 0,
    ignored        bigint       NOT NULL DEFAULT 0,
    dead           bigint       NOT NULL DEFAULT 0,
    CONSTRAINT consumer_replays_columns_pair_up CHECK
        (cardinality(partitions) = cardinality(from_offsets) AND cardinality(partitions) = cardinality(to_offsets)),
    CONSTRAINT consumer_replays_outcome_known CHECK (outcome IN ('done', 'abandoned')),
    CONSTRAINT consumer_replays_ended_somehow CHECK ((ended_at IS NULL) = (outcome IS NULL))
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX consumer_replays_one_at_a_time ON consumer_replays (consumer_group, topic) WHERE ended_at IS NULL;
COMMENT ON TABLE consumer_replays IS
    'Ranges read again by urrctl replay, with what came of them. An open one can be resumed: its rows in consumer_offsets say where.';
COMMENT ON COLUMN consumer_replays.to_offsets IS 'The first offset behind the range, per partition.';
COMMENT ON COLUMN consumer_replays.applied IS 'Events that took effect; counted in the transaction of the effect.';

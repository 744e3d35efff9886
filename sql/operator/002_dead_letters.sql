-- What operators did about dead letters. The letters themselves stay in Kafka.

CREATE TABLE dead_letter_marks (
    consumer_group varchar(100) COLLATE "C" NOT NULL,
    topic          varchar(249) COLLATE "C" NOT NULL,
    partition      integer      NOT NULL CHECK (partition >= 0),
    source_offset  bigint       NOT NULL CHECK (source_offset >= 0),
    state          varchar(10)  NOT NULL,
    attempts       integer      NOT NULL CHECK (attempts >= 0),
    marked_by      varchar(128) NOT NULL,
    marked_at      timestamptz  NOT NULL DEFAULT now(),
    note           text,
    PRIMARY KEY (consumer_group, topic, partition, source_offset),
    CONSTRAINT dead_letter_marks_state_known CHECK (state IN ('redriven', 'discarded'))
);
COMMENT ON TABLE dead_letter_marks IS
    'Dead letters that an operator sent to their source topic again, or gave up. Written in the transaction that puts a redriven one into the outbox: it leaves once.';
COMMENT ON COLUMN dead_letter_marks.topic IS 'Where the group read the record, with partition and source_offset: one letter per group and record.';
COMMENT ON COLUMN dead_letter_marks.attempts IS 'How often the record had been tried.';

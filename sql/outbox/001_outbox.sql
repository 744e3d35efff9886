-- Transactional outbox: messages for Kafka, written in the transaction that causes them.
--
-- The id is drawn while the row of the entity it speaks about is locked. So a snapshot that sees the
-- later message of a key sees the earlier one too, and the relay may read ORDER BY id and delete what
-- was delivered. CACHE 1 is part of that promise: a session that drew a block of ids in advance would
-- hand out small ids late.

CREATE SEQUENCE outbox_id_seq AS bigint CACHE 1;

CREATE TABLE outbox (
    id            bigint      PRIMARY KEY DEFAULT nextval('outbox_id_seq'),
    topic         varchar(249) NOT NULL,
    key           bytea,
    value         bytea,
    header_names  text[],
    header_values bytea[],
    timestamp_ms  bigint,
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT outbox_headers_pair_up
        CHECK (coalesce(cardinality(header_names), 0) = coalesce(cardinality(header_values), 0))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);
ALTER SEQUENCE outbox_id_seq OWNED BY outbox.id;

COMMENT ON TABLE outbox IS
    'Messages waiting for Kafka. Written in the transaction of their cause, read in id order by the relay, deleted on delivery.';
COMMENT ON COLUMN outbox.id IS 'Drawn under the row lock of the entity, hence in order per key.';
COMMENT ON COLUMN outbox.header_values IS 'Pairs with header_names by position; an element may be null.';
COMMENT ON COLUMN outbox.timestamp_ms IS
    'Record timestamp for Kafka (UTC ms); null = the time of sending. Dead letters keep their source''s.';

CREATE TABLE outbox_failed (
    failed_id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    outbox_id       bigint      NOT NULL UNIQUE,
    topic           varchar(249) NOT NULL,
    key             bytea,
    value           bytea,
    header_names    text[],
    header_values   bytea[],
    timestamp_ms    bigint,
    created_at      timestamptz NOT NULL,
    failed_at       timestamptz NOT NULL DEFAULT now(),
    reason          text        NOT NULL,
    retry_requested boolean     NOT NULL DEFAULT false,
    CONSTRAINT outbox_failed_headers_pair_up
        CHECK (coalesce(cardinality(header_names), 0) = coalesce(cardinality(header_values), 0))
);

-- "Has this key rows in here?" is asked for every message while the table is not empty. A key copied
-- from a dead letter may be longer than an index entry can be, hence the digest.
CREATE INDEX outbox_failed_key ON outbox_failed (topic, sha256(key), outbox_id);

COMMENT ON TABLE outbox_failed IS
    'Messages the broker refused for good, and the later ones of their keys, which must not overtake them. An operator retries or discards.';
COMMENT ON COLUMN outbox_failed.outbox_id IS 'The id it had in outbox; keeps the order within a key.';
COMMENT ON COLUMN outbox_failed.retry_requested IS 'Set by an operator; the relay sends the key''s rows in outbox_id order.';

-- The example's own table, beside the engine's (sql/engine, sql/outbox).
CREATE TABLE example_totals (
    user_id  varchar(128) COLLATE "C" PRIMARY KEY,
    payments bigint NOT NULL,
    amount   bigint NOT NULL CONSTRAINT example_totals_never_below_zero CHECK (amount >= 0)
);
COMMENT ON TABLE example_totals IS 'What each user has paid, refunds taken off.';

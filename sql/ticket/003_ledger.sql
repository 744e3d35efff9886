-- The ledger of payments, and what the saga leaves for other daemons.

CREATE TABLE payment_ledger (
    payment_id          varchar(160) COLLATE "C" PRIMARY KEY,
    order_id            varchar(128) COLLATE "C",
    saga_id             varchar(128) COLLATE "C",
    payment_type        varchar(20)  NOT NULL,
    subject_id          uuid,
    user_id             varchar(128) COLLATE "C",
    amount              bigint       CHECK (amount >= 0),
    state               varchar(20)  NOT NULL,
    refund_decided_by   varchar(20),
    refund_reason       varchar(100),
    refund_requested_at timestamptz,
    event_time          timestamptz  NOT NULL,
    created_at          timestamptz  NOT NULL DEFAULT now(),
    updated_at          timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT payment_ledger_state_known CHECK (state IN
        ('applied', 'rejected', 'refund_requested', 'refunded')),
    CONSTRAINT payment_ledger_type_known CHECK (payment_type IN
        ('reservation', 'transfer', 'membership')),
    CONSTRAINT payment_ledger_decider_known CHECK (refund_decided_by IN
        ('consumer', 'user', 'admin', 'event_cancelled')),
    CONSTRAINT payment_ledger_request_is_explained CHECK
        (num_nulls(refund_decided_by, refund_reason, refund_requested_at) IN (0, 3)),
    CONSTRAINT payment_ledger_request_is_dated CHECK
        (state <> 'refund_requested' OR refund_requested_at IS NOT NULL),
    CONSTRAINT payment_ledger_amount_known CHECK (state = 'refunded' OR amount IS NOT NULL),
    CONSTRAINT payment_ledger_applied_to_something CHECK (state <> 'applied' OR subject_id IS NOT NULL)
) WITH (fillfactor = 90);
-- Feeds the refund brake and the list of requests never answered; payments that were simply applied
-- are not in it.
CREATE INDEX payment_ledger_requests ON payment_ledger (refund_decided_by, refund_requested_at)
    WHERE refund_requested_at IS NOT NULL;
COMMENT ON TABLE payment_ledger IS
    'Every payment ever heard of and what became of it. Decides: a payment takes effect once, at most one refund request per payment. Never pruned.';
COMMENT ON COLUMN payment_ledger.payment_id IS
    'The payment service''s id; for events without one see ticket_payment_ref().';
COMMENT ON COLUMN payment_ledger.amount IS
    'What was paid, whole KRW; null: a refund that came first and did not say.';
COMMENT ON COLUMN payment_ledger.subject_id IS 'Reservation, transfer or membership it paid for; null: a refund that named none.';
COMMENT ON COLUMN payment_ledger.state IS
    'applied; refund_requested (the money is asked back); refunded; rejected (took no effect and no refund is awaited: an operator settled it by hand).';
COMMENT ON COLUMN payment_ledger.refund_decided_by IS
    'Who asked for the money back first: consumer = by rule, counted by the brake.';
COMMENT ON COLUMN payment_ledger.event_time IS 'Time of the event that made the row.';

CREATE TABLE refund_brake (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT now(),
    confirmations integer     NOT NULL CHECK (confirmations > 0)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX refund_brake_at ON refund_brake (at);
COMMENT ON TABLE refund_brake IS
    'Confirmations per batch of the last minutes: the measure for the share of refund requests. Rows of instances do not collide; old ones are deleted.';

CREATE TABLE redis_cleanup (
    id             bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cause          varchar(20)  NOT NULL,
    event_id       uuid         NOT NULL,
    user_id        varchar(128) NOT NULL,
    reservation_id uuid         NOT NULL,
    seat_ids       uuid[]       NOT NULL DEFAULT '{}',
    fencing_tokens bigint[]     NOT NULL DEFAULT '{}',
    created_at     timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT redis_cleanup_cause_known CHECK (cause IN ('sold', 'cancelled', 'expired')),
    CONSTRAINT redis_cleanup_tokens_pair_up CHECK (cardinality(seat_ids) = cardinality(fencing_tokens))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
COMMENT ON TABLE redis_cleanup IS
    'What urr-seats still has to clear in Redis after a sale, cancellation or expiry: end the slot (sold), drop each seat''s lock where its token matches. Deleted when done.';

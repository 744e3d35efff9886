-- payment_db: what was charged through the payment provider, and its history.

CREATE TABLE payments (
    id                uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    reservation_id    varchar(128),
    user_id           varchar(128) NOT NULL,
    event_id          varchar(128),
    order_id          varchar(128) COLLATE "C" NOT NULL UNIQUE,
    payment_key       varchar(200) COLLATE "C" UNIQUE,
    amount            bigint       NOT NULL CHECK (amount >= 0),
    method            varchar(50),
    status            varchar(20)  NOT NULL DEFAULT 'pending',
    payment_type      varchar(20)  NOT NULL DEFAULT 'reservation',
    reference_id      varchar(128),
    saga_id           varchar(128),
    toss_order_name   varchar(255),
    toss_status       varchar(50),
    toss_requested_at timestamptz,
    toss_approved_at  timestamptz,
    toss_receipt_url  text,
    toss_checkout_url text,
    toss_response     jsonb,
    refund_amount     bigint       CHECK (refund_amount >= 0),
    refund_reason     text,
    refunded_at       timestamptz,
    created_at        timestamptz  NOT NULL DEFAULT now(),
    updated_at        timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT payments_status_known CHECK (status IN
        ('pending', 'confirmed', 'refund_requested', 'refunded', 'failed', 'cancelled')),
    CONSTRAINT payments_type_known CHECK (payment_type IN ('reservation', 'transfer', 'membership')),
    CONSTRAINT payments_subject_named CHECK
        (CASE payment_type WHEN 'reservation' THEN reservation_id ELSE reference_id END IS NOT NULL),
    CONSTRAINT payments_refund_within_amount CHECK (refund_amount <= amount)
) WITH (fillfactor = 85);
CREATE INDEX payments_user ON payments (user_id, created_at DESC);
CREATE INDEX payments_reservation ON payments (reservation_id) WHERE reservation_id IS NOT NULL;
CREATE INDEX payments_reference ON payments (reference_id) WHERE reference_id IS NOT NULL;
COMMENT ON TABLE payments IS 'One row per order at the payment provider. Its events leave through outbox.';
COMMENT ON COLUMN payments.id IS 'The paymentId of the events.';
COMMENT ON COLUMN payments.payment_key IS 'The provider''s key; null until the buyer has paid.';
COMMENT ON COLUMN payments.reference_id IS 'The transfer or membership that is paid for; null for reservations.';
COMMENT ON COLUMN payments.amount IS 'Whole KRW.';
COMMENT ON COLUMN payments.toss_response IS 'The provider''s last answer as it came.';

CREATE TABLE payment_logs (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment_id uuid        NOT NULL REFERENCES payments,
    action     varchar(50) NOT NULL,
    detail     jsonb,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX payment_logs_payment ON payment_logs (payment_id, id);
COMMENT ON TABLE payment_logs IS 'Every step of a payment: requests, answers and changes of status.';

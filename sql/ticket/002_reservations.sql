-- Reservations, their items, and the ways they change hands.

CREATE TABLE reservations (
    id                 uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    reservation_number varchar(50)  COLLATE "C" NOT NULL UNIQUE,
    user_id            varchar(128) COLLATE "C" NOT NULL,
    event_id           uuid         NOT NULL REFERENCES events,
    total_amount       bigint       NOT NULL CHECK (total_amount >= 0),
    status             varchar(20)  NOT NULL DEFAULT 'pending',
    payment_status     varchar(20)  NOT NULL DEFAULT 'pending',
    payment_method     text,
    payment_id         varchar(160) COLLATE "C",
    saga_id            varchar(128) COLLATE "C",
    idempotency_key    varchar(64)  COLLATE "C",
    request_digest     bytea,
    expires_at         timestamptz  NOT NULL,
    cancel_reason      varchar(50),
    transferred_at     timestamptz,
    created_at         timestamptz  NOT NULL DEFAULT now(),
    updated_at         timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT reservations_status_known CHECK (status IN
        ('pending', 'confirmed', 'cancelled', 'refunded', 'expired')),
    CONSTRAINT reservations_payment_status_known CHECK (payment_status IN
        ('pending', 'completed', 'refund_requested', 'refunded', 'failed')),
    CONSTRAINT reservations_refund_is_of_a_payment CHECK
        (payment_status <> 'refund_requested' OR (status = 'confirmed' AND payment_id IS NOT NULL)),
    CONSTRAINT reservations_refunded_twofold CHECK
        ((status = 'refunded') = (payment_status = 'refunded'))
) WITH (fillfactor = 75);
-- No index names a column that a confirmation changes: pending -> confirmed must stay a HOT update.
CREATE UNIQUE INDEX reservations_idempotency ON reservations (user_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX reservations_user ON reservations (user_id, created_at);
CREATE INDEX reservations_event ON reservations (event_id, created_at);
COMMENT ON TABLE reservations IS 'Orders: pending until paid, then confirmed; every change goes through the saga functions.';
COMMENT ON COLUMN reservations.user_id IS 'Owner; after a transfer the buyer.';
COMMENT ON COLUMN reservations.total_amount IS 'Whole KRW; what a confirmation must have paid.';
COMMENT ON COLUMN reservations.payment_id IS
    'The payment that counts: the first one applied, after a transfer the buyer''s. Null on confirmed rows only where they are older than this column.';
COMMENT ON COLUMN reservations.saga_id IS 'Carried by every event of this reservation.';
COMMENT ON COLUMN reservations.request_digest IS 'Digest of the request that made it: the same idempotency key with another body is refused.';
COMMENT ON COLUMN reservations.expires_at IS 'End of the hold. A confirmation of a payment made until then may revive an expired reservation.';
COMMENT ON COLUMN reservations.transferred_at IS 'When it last changed hands; null: still the first buyer''s.';

CREATE TABLE reservation_items (
    id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    reservation_id uuid        NOT NULL REFERENCES reservations,
    seat_id        uuid        REFERENCES seats,
    ticket_type_id uuid        REFERENCES ticket_types,
    quantity       integer     NOT NULL DEFAULT 1 CHECK (quantity > 0),
    price          bigint      NOT NULL CHECK (price >= 0),
    fencing_token  bigint      CHECK (fencing_token >= 0),
    live           boolean     NOT NULL DEFAULT true,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT reservation_items_seat_or_type CHECK (num_nonnulls(seat_id, ticket_type_id) = 1),
    CONSTRAINT reservation_items_seat_is_fenced CHECK
        (seat_id IS NULL OR (quantity = 1 AND fencing_token IS NOT NULL))
);
CREATE INDEX reservation_items_reservation ON reservation_items (reservation_id);
CREATE UNIQUE INDEX reservation_items_one_live_per_seat ON reservation_items (seat_id) WHERE live;
COMMENT ON TABLE reservation_items IS 'What a reservation holds: seats, or a quantity of a ticket type.';
COMMENT ON COLUMN reservation_items.fencing_token IS 'Token of the hold; the seat is freed only while it still carries it.';
COMMENT ON COLUMN reservation_items.live IS
    'True while the reservation is pending or confirmed: no seat has two. Sold seats <=> live items of confirmed reservations.';

-- Candidates for expiry, oldest first. An index over reservations would have to name status, and every
-- confirmation would then write all its indexes. A row here only says "look again at this time": the
-- sweeper looks at the reservation, and drops the row or moves it where the hold was extended.
CREATE TABLE reservation_deadlines (
    look_at        timestamptz NOT NULL,
    reservation_id uuid        NOT NULL,
    PRIMARY KEY (look_at, reservation_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
COMMENT ON TABLE reservation_deadlines IS
    'When the sweeper next looks at a reservation. Every pending reservation has a row not later than its expires_at; nobody but the trigger and the sweeper writes here.';

CREATE FUNCTION reservation_deadlines_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reservation_deadlines (look_at, reservation_id)
    SELECT n.expires_at, n.id FROM new_rows n WHERE n.status = 'pending';
    RETURN NULL;
END $$;
CREATE TRIGGER reservations_deadline AFTER INSERT ON reservations
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reservation_deadlines_add();

CREATE TABLE ticket_transfers (
    id             uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    reservation_id uuid         NOT NULL REFERENCES reservations,
    seller_id      varchar(128) COLLATE "C" NOT NULL,
    buyer_id       varchar(128) COLLATE "C",
    artist_id      uuid         REFERENCES artists,
    original_price bigint       NOT NULL CHECK (original_price >= 0),
    transfer_fee   bigint       NOT NULL DEFAULT 0 CHECK (transfer_fee >= 0),
    total_price    bigint       NOT NULL CHECK (total_price >= 0),
    payment_id     varchar(160) COLLATE "C",
    payment_method text,
    saga_id        varchar(128) COLLATE "C",
    status         varchar(20)  NOT NULL DEFAULT 'listed',
    cancel_reason  varchar(50),
    completed_at   timestamptz,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    updated_at     timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT ticket_transfers_status_known CHECK (status IN ('listed', 'completed', 'cancelled')),
    CONSTRAINT ticket_transfers_completed_by_a_buyer CHECK
        (status <> 'completed' OR (buyer_id IS NOT NULL AND buyer_id <> seller_id))
);
CREATE UNIQUE INDEX ticket_transfers_one_listing ON ticket_transfers (reservation_id) WHERE status = 'listed';
CREATE INDEX ticket_transfers_reservation ON ticket_transfers (reservation_id);
CREATE INDEX ticket_transfers_listed ON ticket_transfers (artist_id, created_at) WHERE status = 'listed';
CREATE INDEX ticket_transfers_seller ON ticket_transfers (seller_id, created_at);
CREATE INDEX ticket_transfers_buyer ON ticket_transfers (buyer_id, created_at) WHERE buyer_id IS NOT NULL;
COMMENT ON TABLE ticket_transfers IS 'Confirmed reservations offered to other users; at most one open listing each.';
COMMENT ON COLUMN ticket_transfers.total_price IS 'What the buyer pays: the price asked plus transfer_fee.';

CREATE TABLE artist_memberships (
    id                   uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id              varchar(128) COLLATE "C" NOT NULL,
    artist_id            uuid         NOT NULL REFERENCES artists,
    tier                 varchar(20)  NOT NULL DEFAULT 'bronze',
    points               bigint       NOT NULL DEFAULT 0,
    status               varchar(20)  NOT NULL DEFAULT 'pending',
    price                bigint       CHECK (price >= 0),
    payment_id           varchar(160) COLLATE "C",
    payment_reference_id varchar(128) COLLATE "C",
    saga_id              varchar(128) COLLATE "C",
    joined_at            timestamptz,
    expires_at           timestamptz,
    created_at           timestamptz  NOT NULL DEFAULT now(),
    updated_at           timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT artist_memberships_status_known CHECK (status IN
        ('pending', 'active', 'expired', 'cancelled')),
    CONSTRAINT artist_memberships_active_has_an_end CHECK (status <> 'active' OR expires_at IS NOT NULL)
);
CREATE UNIQUE INDEX artist_memberships_one_active ON artist_memberships (user_id, artist_id)
    WHERE status = 'active';
CREATE UNIQUE INDEX artist_memberships_one_pending ON artist_memberships (user_id, artist_id)
    WHERE status = 'pending';
CREATE INDEX artist_memberships_end ON artist_memberships (expires_at) WHERE status = 'active';
CREATE INDEX artist_memberships_user ON artist_memberships (user_id);
COMMENT ON TABLE artist_memberships IS 'Paid yearly memberships. A new year is a new row.';
COMMENT ON COLUMN artist_memberships.price IS 'Price at subscribing; null on older rows: the artist''s price counts.';
COMMENT ON COLUMN artist_memberships.points IS
    'Sum of membership_point_logs. May fall below zero when joining points that were spent are taken back.';
COMMENT ON COLUMN artist_memberships.payment_reference_id IS 'Reference given to the payment service, kept for other teams.';

CREATE TABLE membership_point_logs (
    id            uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    membership_id uuid         NOT NULL REFERENCES artist_memberships,
    action_type   varchar(50)  NOT NULL,
    points        bigint       NOT NULL,
    description   text,
    reference_id  varchar(128) COLLATE "C",
    created_at    timestamptz  NOT NULL DEFAULT now()
);
CREATE INDEX membership_point_logs_membership ON membership_point_logs (membership_id, created_at);
CREATE UNIQUE INDEX membership_point_logs_once ON membership_point_logs (membership_id, action_type)
    WHERE action_type IN ('joining', 'joining_taken_back');
CREATE UNIQUE INDEX membership_point_logs_reference ON membership_point_logs (membership_id, action_type, reference_id)
    WHERE reference_id IS NOT NULL;
COMMENT ON TABLE membership_point_logs IS 'Every change of a membership''s points. Joining points come once and go once.';
COMMENT ON COLUMN membership_point_logs.reference_id IS 'What the points are for; the same reference counts once.';

CREATE TABLE admin_audit_logs (
    id          bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    admin_id    varchar(128) NOT NULL,
    action      varchar(100) NOT NULL,
    target_type varchar(50)  NOT NULL,
    target_id   varchar(128),
    detail      jsonb,
    created_at  timestamptz  NOT NULL DEFAULT now()
);
CREATE INDEX admin_audit_logs_target ON admin_audit_logs (target_type, target_id, created_at);
COMMENT ON TABLE admin_audit_logs IS 'Who changed what by an administrator''s right. Written in the transaction of the change.';

-- ticket_db: what can be sold. Events with a seat layout sell seats, events without one sell
-- standing places by quantity.

CREATE TABLE seat_layouts (
    id            uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    name          varchar(255) NOT NULL,
    description   text,
    total_seats   integer      NOT NULL DEFAULT 0 CHECK (total_seats >= 0),
    layout_config jsonb        NOT NULL,
    created_at    timestamptz  NOT NULL DEFAULT now(),
    updated_at    timestamptz  NOT NULL DEFAULT now()
);
COMMENT ON TABLE seat_layouts IS 'Halls: sections, rows and prices from which the seats of an event are generated.';

CREATE TABLE artists (
    id               uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    name             varchar(255) NOT NULL,
    description      text,
    image_url        text,
    membership_price bigint       NOT NULL DEFAULT 0 CHECK (membership_price >= 0),
    created_at       timestamptz  NOT NULL DEFAULT now(),
    updated_at       timestamptz  NOT NULL DEFAULT now()
);
COMMENT ON TABLE artists IS 'Artists, whose fans may hold a paid yearly membership.';
COMMENT ON COLUMN artists.membership_price IS 'Price of a year for new members, whole KRW.';

CREATE TABLE events (
    id               uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    title            varchar(255) NOT NULL,
    description      text,
    venue            varchar(255),
    address          text,
    event_date       timestamptz,
    status           varchar(20)  NOT NULL DEFAULT 'upcoming',
    sales_open_at    timestamptz,
    sales_close_at   timestamptz,
    cancel_until     timestamptz,
    seat_layout_id   uuid         REFERENCES seat_layouts,
    artist_id        uuid         REFERENCES artists,
    artist_name      varchar(255),
    poster_image_url text,
    created_by       varchar(128),
    created_at       timestamptz  NOT NULL DEFAULT now(),
    updated_at       timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT events_status_known CHECK (status IN
        ('upcoming', 'on_sale', 'sold_out', 'ended', 'cancelled')),
    CONSTRAINT events_sales_window CHECK (sales_close_at > sales_open_at)
);
CREATE INDEX events_date ON events (event_date);
COMMENT ON TABLE events IS 'Concerts and shows on sale.';
COMMENT ON COLUMN events.seat_layout_id IS 'Null: a standing event, sold by ticket type and quantity.';
COMMENT ON COLUMN events.cancel_until IS 'Until then a buyer may cancel; null: always. Admins are not bound by it.';

CREATE TABLE ticket_types (
    id                 uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    event_id           uuid         NOT NULL REFERENCES events,
    name               varchar(255) NOT NULL,
    description        text,
    price              bigint       NOT NULL CHECK (price >= 0),
    total_quantity     bigint       NOT NULL CHECK (total_quantity >= 0),
    available_quantity bigint       NOT NULL,
    created_at         timestamptz  NOT NULL DEFAULT now(),
    updated_at         timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT ticket_types_quantity CHECK (available_quantity BETWEEN 0 AND total_quantity)
) WITH (fillfactor = 20);
CREATE INDEX ticket_types_event ON ticket_types (event_id);
COMMENT ON TABLE ticket_types IS 'Standing places by price. Rows are few and hot, hence the room in their pages.';
COMMENT ON COLUMN ticket_types.available_quantity IS
    'total_quantity minus the live reservation_items: pending and confirmed ones both count as taken.';

CREATE TABLE seats (
    id            uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    event_id      uuid         NOT NULL REFERENCES events,
    section       varchar(50)  NOT NULL,
    row_number    integer      NOT NULL,
    seat_number   integer      NOT NULL,
    seat_label    varchar(50),
    price         bigint       NOT NULL CHECK (price >= 0),
    status        varchar(20)  NOT NULL DEFAULT 'available',
    version       bigint       NOT NULL DEFAULT 0,
    fencing_token bigint       NOT NULL DEFAULT 0 CHECK (fencing_token >= 0),
    locked_by     varchar(128),
    locked_until  timestamptz,
    created_at    timestamptz  NOT NULL DEFAULT now(),
    updated_at    timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT seats_place_once UNIQUE (event_id, section, row_number, seat_number),
    CONSTRAINT seats_status_known CHECK (status IN ('available', 'locked', 'reserved', 'sold')),
    CONSTRAINT seats_hold_has_a_holder CHECK
        (CASE status WHEN 'available' THEN locked_by IS NULL
                     WHEN 'sold' THEN true
                     ELSE locked_by IS NOT NULL END),
    CONSTRAINT seats_only_locks_run_out CHECK ((status = 'locked') = (locked_until IS NOT NULL))
) WITH (fillfactor = 75);
-- No index names status: reserved -> sold must stay a HOT update. locked_until is set exactly while
-- a seat is locked, so its index finds the locks that ran out.
CREATE INDEX seats_locked_until ON seats (locked_until) WHERE locked_until IS NOT NULL;
CREATE INDEX seats_holder ON seats (event_id, locked_by) WHERE locked_by IS NOT NULL;
COMMENT ON TABLE seats IS
    'One row per seat: the judge of who holds it. available -> locked -> reserved (pending reservation) -> sold.';
COMMENT ON COLUMN seats.version IS 'Counts changes of status; seat maps compare it.';
COMMENT ON COLUMN seats.fencing_token IS
    'Token of the latest hold. Never goes down, not even when the seat is freed: a new hold needs a larger one.';
COMMENT ON COLUMN seats.locked_by IS
    'Who took the seat: holder of the lock, of the pending reservation, or first buyer of a sold one (a transfer does not change it: the limit per user counts seats taken, not received).';
COMMENT ON COLUMN seats.locked_until IS 'End of a lock; null in every other status.';

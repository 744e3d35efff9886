-- stats_db: figures per day, per event and day, and per hour. All of them come from events alone.
--
-- Rows carry a generation. A rebuild fills the next one beside the live one; dashboards read views of
-- the live generation and never see it happen. Counters only grow; net figures are made on reading.
-- Two ledgers are kept and never mixed: reservation-events (what was sold) and payment-events (what was
-- paid). "date" and "hour" are cut by the consumer in its configured time zone from the event's time.

CREATE TABLE stats_generations (
    generation    integer     PRIMARY KEY CHECK (generation > 0),
    state         varchar(10) NOT NULL,
    pruned_before timestamptz,
    started_at    timestamptz NOT NULL DEFAULT now(),
    live_at       timestamptz,
    note          text,
    CONSTRAINT stats_generations_state_known CHECK (state IN ('building', 'live', 'retired'))
);
CREATE UNIQUE INDEX stats_generations_one_live ON stats_generations (state) WHERE state = 'live';
COMMENT ON TABLE stats_generations IS 'Generations of figures; exactly one is live and seen by the views.';
COMMENT ON COLUMN stats_generations.pruned_before IS
    'Dedupe keys other than those of payments are gone below this event time; null until the first prune. Older events are dead-lettered, never applied twice.';
INSERT INTO stats_generations (generation, state, live_at, note) VALUES (1, 'live', now(), 'the first');

CREATE TABLE daily_stats_gen (
    generation                  integer NOT NULL REFERENCES stats_generations,
    date                        date    NOT NULL,
    reservations_created        bigint  NOT NULL DEFAULT 0 CHECK (reservations_created >= 0),
    reservations_confirmed      bigint  NOT NULL DEFAULT 0 CHECK (reservations_confirmed >= 0),
    cancelled_expired           bigint  NOT NULL DEFAULT 0 CHECK (cancelled_expired >= 0),
    cancelled_user              bigint  NOT NULL DEFAULT 0 CHECK (cancelled_user >= 0),
    cancelled_refunded          bigint  NOT NULL DEFAULT 0 CHECK (cancelled_refunded >= 0),
    cancelled_amount_mismatch   bigint  NOT NULL DEFAULT 0 CHECK (cancelled_amount_mismatch >= 0),
    cancelled_seat_lost         bigint  NOT NULL DEFAULT 0 CHECK (cancelled_seat_lost >= 0),
    cancelled_event_cancelled   bigint  NOT NULL DEFAULT 0 CHECK (cancelled_event_cancelled >= 0),
    total_revenue               bigint  NOT NULL DEFAULT 0 CHECK (total_revenue >= 0),
    refunded_revenue            bigint  NOT NULL DEFAULT 0 CHECK (refunded_revenue >= 0),
    payments_confirmed          bigint  NOT NULL DEFAULT 0 CHECK (payments_confirmed >= 0),
    payment_revenue             bigint  NOT NULL DEFAULT 0 CHECK (payment_revenue >= 0),
    transfer_payments           bigint  NOT NULL DEFAULT 0 CHECK (transfer_payments >= 0),
    transfer_amount             bigint  NOT NULL DEFAULT 0 CHECK (transfer_amount >= 0),
    membership_payments         bigint  NOT NULL DEFAULT 0 CHECK (membership_payments >= 0),
    membership_amount           bigint  NOT NULL DEFAULT 0 CHECK (membership_amount >= 0),
    payments_refunded           bigint  NOT NULL DEFAULT 0 CHECK (payments_refunded >= 0),
    refund_amount               bigint  NOT NULL DEFAULT 0 CHECK (refund_amount >= 0),
    transfers_completed         bigint  NOT NULL DEFAULT 0 CHECK (transfers_completed >= 0),
    transfers_completed_amount  bigint  NOT NULL DEFAULT 0 CHECK (transfers_completed_amount >= 0),
    transfers_cancelled         bigint  NOT NULL DEFAULT 0 CHECK (transfers_cancelled >= 0),
    memberships_activated       bigint  NOT NULL DEFAULT 0 CHECK (memberships_activated >= 0),
    updated_at                  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (generation, date)
) WITH (fillfactor = 50);
COMMENT ON TABLE daily_stats_gen IS 'Counters per day and generation. Read through the view daily_stats.';
COMMENT ON COLUMN daily_stats_gen.total_revenue IS 'Sum of totalAmount of RESERVATION_CONFIRMED.';
COMMENT ON COLUMN daily_stats_gen.refunded_revenue IS
    'Sum of totalAmount of RESERVATION_CANCELLED with reason refunded; net revenue = total_revenue - refunded_revenue.';
COMMENT ON COLUMN daily_stats_gen.payment_revenue IS
    'Sum of all PAYMENT_CONFIRMED amounts; transfer_amount and membership_amount are the parts of it paid for transfers and memberships.';
COMMENT ON COLUMN daily_stats_gen.refund_amount IS 'Sum of PAYMENT_REFUNDED amounts.';
COMMENT ON COLUMN daily_stats_gen.transfers_completed_amount IS 'Sum of totalPrice of TRANSFER_COMPLETED.';

CREATE TABLE event_daily_stats_gen (
    generation                integer      NOT NULL REFERENCES stats_generations,
    date                      date         NOT NULL,
    event_id                  varchar(128) COLLATE "C" NOT NULL,
    reservations_created      bigint       NOT NULL DEFAULT 0 CHECK (reservations_created >= 0),
    reservations_confirmed    bigint       NOT NULL DEFAULT 0 CHECK (reservations_confirmed >= 0),
    cancelled_expired         bigint       NOT NULL DEFAULT 0 CHECK (cancelled_expired >= 0),
    cancelled_user            bigint       NOT NULL DEFAULT 0 CHECK (cancelled_user >= 0),
    cancelled_refunded        bigint       NOT NULL DEFAULT 0 CHECK (cancelled_refunded >= 0),
    cancelled_amount_mismatch bigint       NOT NULL DEFAULT 0 CHECK (cancelled_amount_mismatch >= 0),
    cancelled_seat_lost       bigint       NOT NULL DEFAULT 0 CHECK (cancelled_seat_lost >= 0),
    cancelled_event_cancelled bigint       NOT NULL DEFAULT 0 CHECK (cancelled_event_cancelled >= 0),
    total_revenue             bigint       NOT NULL DEFAULT 0 CHECK (total_revenue >= 0),
    refunded_revenue          bigint       NOT NULL DEFAULT 0 CHECK (refunded_revenue >= 0),
    updated_at                timestamptz  NOT NULL DEFAULT now(),
    PRIMARY KEY (generation, date, event_id)
) WITH (fillfactor = 50);
CREATE INDEX event_daily_stats_gen_event ON event_daily_stats_gen (generation, event_id);
COMMENT ON TABLE event_daily_stats_gen IS
    'Counters per event, day and generation. Payment figures exist per day only: payment events name no event.';

CREATE TABLE hourly_stats_gen (
    generation             integer     NOT NULL REFERENCES stats_generations,
    hour                   timestamptz NOT NULL,
    reservations_created   bigint      NOT NULL DEFAULT 0 CHECK (reservations_created >= 0),
    reservations_confirmed bigint      NOT NULL DEFAULT 0 CHECK (reservations_confirmed >= 0),
    reservations_cancelled bigint      NOT NULL DEFAULT 0 CHECK (reservations_cancelled >= 0),
    total_revenue          bigint      NOT NULL DEFAULT 0 CHECK (total_revenue >= 0),
    payments_confirmed     bigint      NOT NULL DEFAULT 0 CHECK (payments_confirmed >= 0),
    payment_revenue        bigint      NOT NULL DEFAULT 0 CHECK (payment_revenue >= 0),
    payments_refunded      bigint      NOT NULL DEFAULT 0 CHECK (payments_refunded >= 0),
    refund_amount          bigint      NOT NULL DEFAULT 0 CHECK (refund_amount >= 0),
    updated_at             timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (generation, hour)
) WITH (fillfactor = 50);
COMMENT ON TABLE hourly_stats_gen IS
    'Counters per hour (its first instant) and generation: the traffic by hour, as events show it.';

CREATE VIEW daily_stats AS
SELECT d.date,
       d.reservations_created AS total_reservations,
       d.reservations_confirmed AS confirmed_reservations,
       d.cancelled_expired + d.cancelled_user + d.cancelled_refunded + d.cancelled_amount_mismatch
           + d.cancelled_seat_lost + d.cancelled_event_cancelled AS cancelled_reservations,
       d.total_revenue,
       d.payment_revenue,
       d.refund_amount AS refunds,
       d.transfers_completed AS transfers,
       d.memberships_activated AS memberships,
       NULL::bigint AS new_users,
       NULL::bigint AS active_users,
       NULL::bigint AS new_events,
       NULL::bigint AS active_events,
       d.cancelled_expired, d.cancelled_user, d.cancelled_refunded, d.cancelled_amount_mismatch,
       d.cancelled_seat_lost, d.cancelled_event_cancelled,
       d.refunded_revenue, d.payments_confirmed, d.payments_refunded,
       d.transfer_payments, d.transfer_amount, d.membership_payments, d.membership_amount,
       d.transfers_completed_amount, d.transfers_cancelled, d.updated_at
  FROM daily_stats_gen d
  JOIN stats_generations g ON g.generation = d.generation AND g.state = 'live';
COMMENT ON VIEW daily_stats IS 'The live generation of daily_stats_gen, with the column names dashboards know.';
COMMENT ON COLUMN daily_stats.refunds IS 'Sum of PAYMENT_REFUNDED amounts of the day.';
COMMENT ON COLUMN daily_stats.transfers IS 'Number of TRANSFER_COMPLETED.';
COMMENT ON COLUMN daily_stats.new_users IS 'Always null: no event tells of users.';
COMMENT ON COLUMN daily_stats.active_users IS 'Always null: no event tells of users.';
COMMENT ON COLUMN daily_stats.new_events IS 'Always null: no event tells of new events.';
COMMENT ON COLUMN daily_stats.active_events IS 'Always null: no event tells of it.';

CREATE VIEW event_daily_stats AS
SELECT d.date, d.event_id,
       d.reservations_created AS total_reservations,
       d.reservations_confirmed AS confirmed_reservations,
       d.cancelled_expired + d.cancelled_user + d.cancelled_refunded + d.cancelled_amount_mismatch
           + d.cancelled_seat_lost + d.cancelled_event_cancelled AS cancelled_reservations,
       d.total_revenue,
       d.cancelled_expired, d.cancelled_user, d.cancelled_refunded, d.cancelled_amount_mismatch,
       d.cancelled_seat_lost, d.cancelled_event_cancelled,
       d.refunded_revenue, d.updated_at
  FROM event_daily_stats_gen d
  JOIN stats_generations g ON g.generation = d.generation AND g.state = 'live';
COMMENT ON VIEW event_daily_stats IS 'The live generation of event_daily_stats_gen.';

CREATE VIEW event_stats AS
SELECT d.event_id,
       NULL::bigint AS total_seats,
       NULL::bigint AS reserved_seats,
       NULL::bigint AS available_seats,
       sum(d.total_reservations)::bigint AS total_reservations,
       sum(d.confirmed_reservations)::bigint AS confirmed_reservations,
       sum(d.cancelled_reservations)::bigint AS cancelled_reservations,
       sum(d.total_revenue)::bigint AS total_revenue,
       NULL::bigint AS average_ticket_price,
       NULL::bigint AS view_count,
       sum(d.refunded_revenue)::bigint AS refunded_revenue,
       max(d.updated_at) AS updated_at
  FROM event_daily_stats d
 GROUP BY d.event_id;
COMMENT ON VIEW event_stats IS 'Sum over all days of event_daily_stats.';
COMMENT ON COLUMN event_stats.total_seats IS 'Always null: no event carries seats.';
COMMENT ON COLUMN event_stats.reserved_seats IS 'Always null: no event carries seats.';
COMMENT ON COLUMN event_stats.available_seats IS 'Always null: no event carries seats.';
COMMENT ON COLUMN event_stats.average_ticket_price IS
    'Always null: events carry the total of a reservation, not its number of tickets.';
COMMENT ON COLUMN event_stats.view_count IS 'Always null: no event counts views.';

CREATE VIEW hourly_stats AS
SELECT h.hour, h.reservations_created, h.reservations_confirmed, h.reservations_cancelled, h.total_revenue,
       h.payments_confirmed, h.payment_revenue, h.payments_refunded, h.refund_amount, h.updated_at
  FROM hourly_stats_gen h
  JOIN stats_generations g ON g.generation = h.generation AND g.state = 'live';
COMMENT ON VIEW hourly_stats IS 'The live generation of hourly_stats_gen.';
